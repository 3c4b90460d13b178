// Tests of OutputFolder, which makes the folder for results before the work begins.
#include <tinymlperf/support/output_folder.hpp>

#include <doctest/doctest.h>

#include <fstream>
#include <stdexcept>
#include <tinymlperf/support/temporary_folder.hpp>

namespace fs = std::filesystem;

TEST_CASE("the folder exists before the work, and stays if a file was written to it") {
  const tinymlperf::TemporaryFolder place;
  const fs::path out = place.path() / "runs" / "first";
  {
    const tinymlperf::OutputFolder folder(out);
    CHECK(fs::is_directory(out));
    std::ofstream(out / "run.json") << "{}";
  }
  CHECK(fs::exists(out / "run.json"));
  { const tinymlperf::OutputFolder again(out); }
  CHECK(fs::exists(out / "run.json"));
}

TEST_CASE("work that fails leaves no new empty folder, and keeps a folder that existed before") {
  const tinymlperf::TemporaryFolder place;
  const fs::path out = place.path() / "out", kept = place.path() / "kept";
  fs::create_directory(kept);
  for (const fs::path& folder : {out, kept}) {
    try {
      const tinymlperf::OutputFolder made(folder);
      throw std::runtime_error("the match failed");
    } catch (const std::runtime_error&) {
    }
  }
  CHECK_FALSE(fs::exists(out));
  CHECK(fs::exists(kept));
}

TEST_CASE("a folder that cannot be made is an error before the work") {
  const tinymlperf::TemporaryFolder place;
  std::ofstream(place.path() / "file") << "no folder";
  CHECK_THROWS_AS(tinymlperf::OutputFolder(place.path() / "file" / "out"), fs::filesystem_error);
}

TEST_CASE("files that cannot be written are an error before the work, and a new folder is removed") {
  const tinymlperf::TemporaryFolder place;
  fs::create_directories(place.path() / "kept" / "run.json");
  CHECK_THROWS_WITH(tinymlperf::OutputFolder(place.path() / "kept", {"page.html", "run.json"}),
                    doctest::Contains("cannot write"));
  CHECK(fs::exists(place.path() / "kept"));
  CHECK_THROWS(tinymlperf::OutputFolder(place.path() / "made", {"none/run.json"}));
  CHECK_FALSE(fs::exists(place.path() / "made"));
  { const tinymlperf::OutputFolder good(place.path() / "good", {"run.json"}); }
  CHECK_FALSE(fs::exists(place.path() / "good"));  // the attempt to write leaves no file
}
