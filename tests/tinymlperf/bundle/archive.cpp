// Tests of the bundle's tar file: writing is deterministic, and reading refuses everything that is not a
// plain file with a plain path.
#include <doctest/doctest.h>

#include <support/bundles.hpp>
#include <support/refusals.hpp>
#include <tinymlperf/bundle/archive.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinymlperf;
using namespace tinymlperf::bundle;
using test::holds;
using test::tar_end;
using test::tar_member;

namespace {

std::string archive_refusal(const std::string& bytes, const ArchiveLimits& most = {}) {
  return test::refusal([&] { read_archive(bytes, most); });
}

}  // namespace

TEST_CASE("an archive is read as it was written, and writing is deterministic") {
  const std::vector<ArchiveFile> files{{"a.json", "{}"}, {"b/c.bin", std::string(1025, 'x')}, {"empty", ""}};
  const std::string bytes = write_archive(files);
  CHECK(bytes == write_archive(files));
  CHECK(bytes.size() % 512 == 0);
  const auto back = read_archive(bytes);
  REQUIRE(back.size() == 3);
  for (size_t i = 0; i < 3; ++i) {
    CHECK(back[i].path == files[i].path);
    CHECK(back[i].content == files[i].content);
  }
  CHECK(read_archive(write_archive({})).empty());
}

TEST_CASE("a plain tar file that another program wrote is read") {
  const auto files = read_archive(tar_member("one", "1") + tar_member("two", "22") + tar_end());
  REQUIRE(files.size() == 2);
  CHECK(files[1].content == "22");
}

TEST_CASE("absolute paths, paths with '..' and paths with special characters are refused") {
  for (const char* path : {"../out", "a/../../out", "/etc/passwd", "a//b", "a/./b", ".hidden", "-rf", "a b",
                           "a\\b", "a/b/c/d/e/f/g", "<script>", "a\nb", "\xC3\xA4", "C:x", "a/", "./a"}) {
    CAPTURE(path);
    CHECK(holds(archive_refusal(tar_member(path, "x") + tar_end()), "expected relative paths"));
  }
  CHECK(holds(archive_refusal(tar_member(std::string(33, 'n'), "x") + tar_end()), "expected relative paths"));
}

TEST_CASE("links, folders, devices and pipes are refused") {
  CHECK(holds(archive_refusal(tar_member("a", "", '2', "/etc/passwd") + tar_end()), "expected a plain file"));
  CHECK(holds(archive_refusal(tar_member("x", "1") + tar_member("a", "", '1', "x") + tar_end()),
              "expected a plain file"));
  for (const char type : {'3', '4', '5', '6'}) {
    CAPTURE(type);
    CHECK_FALSE(archive_refusal(tar_member("a", "", type) + tar_end()).empty());
  }
}

TEST_CASE("extended headers are refused, since they could override the path or the size of a header") {
  const std::string pax = "20 path=../../evil1\n";
  REQUIRE(pax.size() == 20);
  for (const char type : {'x', 'g', 'L', 'K', 'S'}) {
    CAPTURE(type);
    CHECK_FALSE(archive_refusal(tar_member("p", pax, type) + tar_member("a", "x") + tar_end()).empty());
  }
}

TEST_CASE("repeated paths, a file that is also a folder, too many files and too many bytes are refused") {
  CHECK(holds(archive_refusal(tar_member("a", "1") + tar_member("a", "2") + tar_end()), "each file once"));
  CHECK(holds(archive_refusal(tar_member("a/b", "1") + tar_member("a", "2") + tar_end()), "a folder a"));
  std::string many;
  for (int i = 0; i < 5; ++i) many += tar_member("f" + std::to_string(i), "");
  CHECK(archive_refusal(many + tar_end(), {.files = 5}).empty());
  CHECK(holds(archive_refusal(many + tar_end(), {.files = 4}), "at most 4 files"));
  CHECK(holds(archive_refusal(tar_member("a", "1") + tar_end(), {.bytes = 1000}), "at most 1000 bytes"));
}

TEST_CASE("a size beyond the end of the archive is refused") {
  CHECK(holds(archive_refusal(tar_member("a", "x", '0', "", 7LL << 30) + tar_end()), "bytes that are left"));
  CHECK_FALSE(archive_refusal(tar_member("a", "x", '0', "", 2000) + tar_end()).empty());
}

TEST_CASE("an archive that is truncated at any byte is refused") {
  const std::string bytes = tar_member("a", "some text") + tar_member("b", std::string(600, 'b')) + tar_end();
  REQUIRE(archive_refusal(bytes).empty());
  for (size_t size = 0; size < bytes.size(); ++size) {
    CAPTURE(size);
    CHECK_FALSE(archive_refusal(bytes.substr(0, size)).empty());
  }
}

TEST_CASE("bytes before, between or after the files are refused") {
  const std::string a = tar_member("a", "x");
  CHECK_FALSE(archive_refusal(a + tar_end() + "behind").empty());
  CHECK_FALSE(archive_refusal(a + tar_end() + a).empty());
  CHECK_FALSE(archive_refusal(a + std::string(512, '\0') + tar_member("b", "x") + tar_end()).empty());
  CHECK_FALSE(archive_refusal("in front" + a + tar_end()).empty());
  CHECK_FALSE(archive_refusal(a + std::string(512 * 50, '\0')).empty());
  CHECK_FALSE(archive_refusal("").empty());
  CHECK_FALSE(archive_refusal(std::string(1 << 16, 'z')).empty());
}

TEST_CASE("a damaged bundle is refused, or is a valid bundle with another id") {
  const std::string sound = test::bundle_bytes("mutated");
  tinytorch::Generator random(11);
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string bytes = sound;
    for (uint64_t changes = 1 + random.below(4); changes > 0; --changes) {
      // Three of four changes are in headers, where they have the most effect.
      const size_t block = random.below(bytes.size() / 512) * 512;
      const size_t at = random.below(4) == 0 ? random.below(bytes.size()) : block + random.below(345);
      bytes[at] = static_cast<char>(random.below(256));
    }
    if (random.below(8) == 0) bytes.resize(random.below(bytes.size()));
    try {
      const Bundle b = read_bundle(bytes);
      CHECK(b.id == sha256(bytes));
      for (size_t f = 0; f < b.files.size(); ++f)
        CHECK(sha256(b.files[f].content) == b.manifest.files[f].sha256);
    } catch (const Refusal&) {
      ++refused;
    }
  }
  CHECK(refused > 1000);
}
