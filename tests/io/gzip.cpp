// gzip: what Python's gzip wrote, several members, limits, damage.
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

TEST_CASE("one member, and two joined") {
  CHECK(text_of(tt::gunzip(files::golden_bytes("lines.gz"))) == expected_lines());
  CHECK(text_of(tt::gunzip(files::golden_bytes("members.gz"))) == expected_lines());
}

TEST_CASE("the limit counts the output of all members") {
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

TEST_CASE("what is not gzip") {
  const auto refusal = refusal_of([] { tt::gunzip(tt::as_bytes("plain text"), "plain.gz"); });
  CHECK(refusal.code == "TT-IO-03");
  CHECK(files::contains(refusal.text, "'plain.gz'"));
  CHECK_FALSE(tt::is_gzip(tt::as_bytes("\x1f")));
  CHECK(tt::is_gzip(files::golden_bytes("lines.gz")));
  std::vector<std::byte> trailing = files::golden_bytes("lines.gz");
  trailing.push_back(std::byte{0});
  CHECK(refusal_of([&] { tt::gunzip(trailing); }).code == "TT-IO-03");
}

TEST_CASE("cut and damaged files") {
  const auto parse = [](tt::Bytes b) { tt::gunzip(b); };
  const std::vector<std::byte> packed = files::golden_bytes("lines.gz");
  files::check_cut_files(packed, parse);
  // All but the header's time, operating system and hints are covered by the checksum.
  CHECK(files::check_damaged_files(packed, parse) >= static_cast<int>(packed.size() - 8) * 3);
}

#else

TEST_CASE("without zlib the message says what to do") {
  const auto refusal = refusal_of([] { tt::gunzip({}, "x.gz"); });
  CHECK(refusal.code == "TT-IO-05");
  CHECK(files::contains(refusal.text, "'x.gz'"));
  CHECK(files::contains(refusal.text, "zlib1g-dev"));
}

#endif
