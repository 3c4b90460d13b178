// A match that was played and cannot be written is shown, and the exit status reports the loss.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <tinymlperf/commands/keep_run.hpp>
#include <tinymlperf/support/temporary_folder.hpp>

namespace fs = std::filesystem;
using namespace tinymlperf;

TEST_CASE("a match is written before it is shown: what goes wrong in its table loses nothing") {
  const TemporaryFolder folder;
  const fs::path file = folder / "run.json";
  bool was_there = false;
  CHECK(detail::keep_run(file, Json{{"seed", 7}}, [&] { return was_there = fs::exists(file), "table"; }) ==
        kPass);
  CHECK(was_there);
  const auto broken = []() -> std::string { throw std::runtime_error("no table"); };
  CHECK_THROWS_WITH(detail::keep_run(file, Json{{"seed", 8}}, broken), "no table");
  CHECK(Json::parse(std::ifstream(file)).at("seed") == 8);
}

TEST_CASE("a match that cannot be written is shown all the same") {
  const TemporaryFolder folder;
  bool shown = false;
  CHECK(detail::keep_run(folder / "gone" / "run.json", Json::object(),
                         [&] { return shown = true, "table"; }) == kFailed);
  CHECK(shown);
}
