// Results of a benchmark are written to disk while it runs, and the file gets its name when it is complete.
#include <doctest/doctest.h>

#include <common/results_file.hpp>
#include <filesystem>
#include <fstream>
#include <tinymlperf/support/temporary_folder.hpp>

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

json read(const fs::path& path) { return json::parse(std::ifstream(path)); }

}  // namespace

TEST_CASE("new results are in a separate file until they are complete") {
  const tinymlperf::TemporaryFolder folder;
  const fs::path path = folder / "ops.json";
  std::ofstream(path) << json{{"rows", "older"}};
  {
    const bench::ResultsFile file(path.string());
    CHECK_FALSE(fs::exists(file.partial()));
    for (int row = 1; row <= 2; ++row) {
      file.keep({{"rows", row}});
      CHECK(read(file.partial()).at("rows") == row);
      CHECK(read(path).at("rows") == "older");
    }
  }  // the benchmark is interrupted here
  CHECK(read(path.string() + ".partial").at("rows") == 2);
  const bench::ResultsFile again(path.string());
  again.finish({{"rows", 3}});
  CHECK(read(path).at("rows") == 3);
  CHECK_FALSE(fs::exists(again.partial()));
}

TEST_CASE("a path that cannot be written throws before anything is measured") {
  const tinymlperf::TemporaryFolder folder;
  CHECK_THROWS_WITH(bench::ResultsFile((folder / "none" / "ops.json").string()),
                    doctest::Contains("cannot write"));
  CHECK_THROWS_WITH(bench::ResultsFile(folder.path().string()), doctest::Contains("cannot write"));
  const bench::ResultsFile nowhere("");
  nowhere.keep({{"rows", 1}});
  nowhere.finish({{"rows", 1}});
  CHECK(fs::is_empty(folder.path()));
}
