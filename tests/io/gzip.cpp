// gzip: files written by Python's gzip, several members, limits, damaged files.
#include <tinytorch/io/gzip.hpp>

#include <io/files.hpp>

namespace tt = tinytorch;
using files::refusal_of;

#if TINYTORCH_WITH_ZLIB

namespace {

std::string expected_lines() {
  std::string text;
  for (int i = 0; i < 200; ++i) text += "line " + std::to_string(i) + "\n";
  return text;
}
std::string text_of(const std::vector<std::byte>& bytes) { return std::string(tt::as_text(bytes)); }

}  // namespace

TEST_CASE("one member, and two concatenated members") {
  CHECK(text_of(tt::gunzip(files::golden_bytes("lines.gz"))) == expected_lines());
  CHECK(text_of(tt::gunzip(files::golden_bytes("members.gz"))) == expected_lines());
}

TEST_CASE("the limit applies to the output of all members together") {
  const size_t size = expected_lines().size();
  for (const char* name : {"lines.gz", "members.gz"}) {
    const std::vector<std::byte> packed = files::golden_bytes(name);
    CHECK(tt::gunzip(packed, name, size).size() == size);
    const auto refusal = refusal_of([&] { tt::gunzip(packed, name, size - 1); });
    CHECK(refusal.code == "TT-IO-06");
    CHECK(files::contains(refusal.text, name));
    CHECK(refusal_of([&] { tt::gunzip(packed, name, 0); }).code == "TT-IO-06");
  }
}

TEST_CASE("data that is not gzip is rejected") {
  const auto refusal = refusal_of([] { tt::gunzip(tt::as_bytes("plain text"), "plain.gz"); });
  CHECK(refusal.code == "TT-IO-03");
  CHECK(files::contains(refusal.text, "'plain.gz'"));
  CHECK_FALSE(tt::is_gzip(tt::as_bytes("\x1f")));
  CHECK(tt::is_gzip(files::golden_bytes("lines.gz")));
  std::vector<std::byte> trailing = files::golden_bytes("lines.gz");
  trailing.push_back(std::byte{0});
  CHECK(refusal_of([&] { tt::gunzip(trailing); }).code == "TT-IO-03");
}

TEST_CASE("gzip: truncated and damaged files are rejected") {
  const auto parse = [](tt::Bytes b) { tt::gunzip(b); };
  const std::vector<std::byte> packed = files::golden_bytes("lines.gz");
  files::check_cut_files(packed, parse);
  // The checksum covers everything but the time, operating system and flags in the header.
  CHECK(files::check_damaged_files(packed, parse) >= static_cast<int>(packed.size() - 8) * 3);
}

#else

TEST_CASE("without zlib, the error says how to enable it") {
  const auto refusal = refusal_of([] { tt::gunzip({}, "x.gz"); });
  CHECK(refusal.code == "TT-IO-05");
  CHECK(files::contains(refusal.text, "'x.gz'"));
  CHECK(files::contains(refusal.text, "zlib1g-dev"));
}

#endif
