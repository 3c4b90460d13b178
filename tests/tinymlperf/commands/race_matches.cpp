// A race that fails midway: the matches that were played are on disk, and the report says what failed. The
// matches are made up.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <support/linear_entry.hpp>
#include <support/made_up_race.hpp>
#include <support/refusals.hpp>
#include <tinymlperf/commands/race.hpp>
#include <tinymlperf/commands/verify.hpp>
#include <tinymlperf/support/temporary_folder.hpp>

namespace fs = std::filesystem;
using namespace tinymlperf;
using test::holds;
using test::put_entry;

namespace {

using Player = std::function<judge::RunDocument(const RunOptions&)>;

std::string read(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

bool is_offline(const RunOptions& o) { return o.scenario == "offline"; }

// A made-up match between the entries that are asked to play.
judge::RunDocument made_up(const RunOptions& o) {
  std::vector<test::MadeUp> all;
  for (const fs::path& entry : o.entries) all.push_back({.name = entry.filename().string()});
  const Matches m = test::made_up_matches(all);
  return is_offline(o) ? m.offline : m.single_stream;
}

// Three entries, of which `base` is the baseline.
struct Raced {
  TemporaryFolder folder;
  RaceOptions options;

  explicit Raced(Player offline, Player single_stream = made_up) {
    for (const char* name : {"base", "fine", "other"}) put_entry(folder / "entries" / name, name, 1);
    options.out = folder / "out";
    options.entries = {folder / "entries"};
    options.baseline = "base";
    options.no_train = true;
    options.seed = 77;
    options.play = [=](const RunOptions& o) { return is_offline(o) ? offline(o) : single_stream(o); };
  }
  int run() const { return run_race(options); }
  fs::path file() const { return options.out / "race.json"; }
  Json json() const { return Json::parse(read(file())); }
  std::string page() const { return read(options.out / "race.html"); }
};

// One match is kept, and the file says of the other why it has none.
void check_half(const Raced& race, const std::string& reason) {
  const Json j = race.json();
  REQUIRE(j.at("matches").size() == 1);
  CHECK(j.at("matches")[0].at("scenario") == "single_stream");
  CHECK(j.at("matches")[0].at("contenders").size() == 3);
  CHECK(j.at("matches")[0].at("contenders")[1].at("turns").size() == 16);
  CHECK(j.at("results").empty());
  REQUIRE(j.at("missing").size() == 1);
  CHECK(j.at("missing")[0].at("what") == "offline");
  CHECK(holds(j.at("missing")[0].at("reason"), reason));
  CHECK(run_verify_file(race.file()) == kPass);
  const std::string page = race.page();
  CHECK(holds(page, "offline failed: "));
  CHECK(holds(page, "<h2>dig, single_stream, class race, hidden set 1000 samples</h2>"));
  CHECK(holds(page, "times the baseline"));
  for (const char* name : {"base", "fine", "other"}) CHECK(holds(page, std::string("<td>") + name + "</td>"));
}

}  // namespace

TEST_CASE("the first match is on the disk before the second begins") {
  bool looked = false;
  const Raced* playing = nullptr;
  const Raced race([&](const RunOptions& o) {
    check_half(*playing,
               "the race ended before this match did");  // what is left of it if the program is killed here
    looked = true;
    return made_up(o);
  });
  playing = &race;
  CHECK(race.run() == kPass);
  CHECK(looked);
  const Json j = race.json();
  CHECK(j.at("missing").empty());
  CHECK(j.at("matches").size() == 2);
  CHECK(j.at("results").size() == 3);
  CHECK_FALSE(holds(race.page(), "failed"));
  CHECK(run_verify_file(race.file()) == kPass);
}

TEST_CASE("a second match that fails leaves the first as it is, whatever it throws") {
  const Raced broken(
      [](const RunOptions&) -> judge::RunDocument { throw std::runtime_error("no worker is left"); });
  CHECK(broken.run() == kFailed);
  check_half(broken, "no worker is left");
  const Raced held(
      [](const RunOptions&) -> judge::RunDocument { throw sandbox::Unavailable("no user namespaces"); });
  CHECK(held.run() == kFailed);
  check_half(held, "no user namespaces");
}

TEST_CASE("an entry that is gone when the second match begins leaves the first match as it is") {
  const Raced race(tinymlperf::play, [](const RunOptions& o) {
    const judge::RunDocument match = made_up(o);
    fs::remove_all(o.entries.back());
    return match;
  });
  CHECK(race.run() == kFailed);
  check_half(race, "entries/other: expected a folder, found none");
}

TEST_CASE("a baseline that is out of a match leaves what the others did") {
  const auto without_baseline = [](const RunOptions& o) {
    judge::RunDocument match = made_up(o);
    match.contenders.front().out = "it crashed";
    return match;
  };
  const Raced second(without_baseline);
  CHECK(second.run() == kFailed);
  CHECK(second.json().at("matches").size() == 2);
  CHECK(second.json().at("matches")[1].at("contenders").size() == 3);
  CHECK(holds(second.page(), "offline failed: the baseline base is out of it (it crashed)"));
  CHECK(run_verify_file(second.file()) == kPass);
  const Raced first(made_up, without_baseline);
  CHECK(first.run() == kFailed);
  CHECK(first.json().at("matches").size() == 1);
  CHECK(first.json().at("missing").size() == 2);
  CHECK(holds(first.page(), "offline failed: it was not played, because the match before it failed"));
  CHECK(run_verify_file(first.file()) == kPass);
}

TEST_CASE("an entry that is out of the second match is out of the race, which is complete") {
  const Raced race([](const RunOptions& o) {
    judge::RunDocument match = made_up(o);
    match.contenders.at(1).out = "it crashed";
    return match;
  });
  CHECK(race.run() == kPass);
  CHECK(race.json().at("results").size() == 2);
  CHECK(race.json().at("refused")[0].at("reason") == "it crashed");
  const Json document = race.json();
  for (const Json& match : document.at("matches")) CHECK(match.at("contenders").size() == 2);
  CHECK(run_verify_file(race.file()) == kPass);
}

TEST_CASE("matches that cannot be ranked together are both kept") {
  const Raced race([](const RunOptions& o) {
    judge::RunDocument match = made_up(o);
    for (judge::ContenderRecord& c : match.contenders) {
      c.turns.resize(4);  // too few blocks, and not those of the other
      test::add_evidence(c, match.scenario);
    }
    return match;
  });
  CHECK(race.run() == kFailed);
  CHECK(race.json().at("matches").size() == 2);
  CHECK(race.json().at("missing")[0].at("what") == "ranking");
  CHECK(holds(race.page(), "ranking failed: "));
  CHECK(run_verify_file(race.file()) == kPass);
}

TEST_CASE("if the first match cannot be written, the race goes on and writes both when there is room") {
  for (const bool room_at_the_end : {true, false}) {
    CAPTURE(room_at_the_end);
    fs::path file;
    const Raced race(
        [&](const RunOptions& o) {
          if (room_at_the_end) fs::remove(file);
          return made_up(o);
        },
        [&](const RunOptions& o) {
          fs::create_directory(file);  // a file cannot take its place
          return made_up(o);
        });
    file = race.file();
    CHECK(race.run() == (room_at_the_end ? kPass : kFailed));
    if (room_at_the_end) CHECK(race.json().at("results").size() == 3);
    if (room_at_the_end) CHECK(run_verify_file(file) == kPass);
  }
}

TEST_CASE("if nothing was played, the files of an earlier race stay as they were") {
  const auto none = [](const RunOptions&) -> judge::RunDocument { throw std::runtime_error("no memory"); };
  const Raced race(made_up, none);
  fs::create_directories(race.options.out);
  std::ofstream(race.file()) << "an earlier race";
  CHECK_THROWS_WITH(race.run(), "no memory");
  CHECK(read(race.file()) == "an earlier race");
}

TEST_CASE("an output folder that cannot be written is refused before any match is played") {
  bool asked = false;
  const Player play = [&](const RunOptions& o) {
    asked = true;
    return made_up(o);
  };
  const Raced race(play, play);
  fs::create_directories(race.file());
  CHECK_THROWS_WITH(race.run(), doctest::Contains("cannot write"));
  CHECK_FALSE(asked);
}
