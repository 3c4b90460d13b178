// The two matches of a race. Each is written to race.json and race.html as soon as it is played, so that a
// later failure or an interrupt loses nothing. Until all is played, the files say what is missing.
#pragma once

#include <cstdio>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <tinymlperf/commands/exit_status.hpp>
#include <tinymlperf/commands/measured.hpp>
#include <tinymlperf/commands/run.hpp>
#include <tinymlperf/race/candidates.hpp>
#include <tinymlperf/race/report.hpp>
#include <vector>

namespace tinymlperf {

struct RaceOptions {
  std::filesystem::path out = "build/race";
  std::vector<std::filesystem::path> entries;
  std::optional<uint64_t> seed;  // seed of all random choices; empty: from the operating system
  // A student's program answers for these entries of data (RunOptions::worker). Empty: for all entries of
  // data of the race.
  std::filesystem::path worker = {};
  std::vector<std::filesystem::path> student_entries = {};
  std::string baseline = "lenet";
  double floor = 0.80;
  bool quick = false;     // a small run that shows that everything works; it ranks nothing
  bool no_train = false;  // only the given entries
  std::function<judge::RunDocument(const RunOptions&)> play = tinymlperf::play;
};

namespace detail {

constexpr const char *kRaceFile = "race.json", *kRacePage = "race.html";

inline void write_report(const std::filesystem::path& out, const Race& race) {
  tt::write_file((out / kRaceFile).string(), to_json(race).dump(1) + "\n");
  tt::write_file((out / kRacePage).string(), html_page(race));
}

// Writes the report between the matches. If it cannot be written, the race goes on: there may be room at its
// end.
inline void keep_so_far(const std::filesystem::path& out, const Race& race) {
  try {
    write_report(out, race);
  } catch (const std::exception& e) {
    complain(fmt::format(
        "what was played cannot be kept now: {}. The race goes on and tries again after its next step; "
        "make room until then",
        reason_of(e.what())));
  }
}

// Removes every entry that was put out in the match from the race. If that is the baseline, removes none and
// returns false.
inline bool drop_losers(Starters& starters, std::vector<RefusedEntry>& refused, judge::RunDocument& match) {
  for (size_t i = 0; i < starters.entries.size(); ++i) match.contenders[i].name = starters.entries[i].name;
  if (!match.contenders.front().out.empty()) return false;
  for (size_t i = 1; i < starters.folders.size();) {
    const std::string out = match.contenders[i].out;
    if (out.empty()) {
      ++i;
      continue;
    }
    refused.push_back({starters.folders[i].string(), reason_of(out)});
    const auto at = static_cast<std::ptrdiff_t>(i);
    if (i >= starters.folders.size() - starters.students) --starters.students;
    starters.folders.erase(starters.folders.begin() + at);
    starters.entries.erase(starters.entries.begin() + at);
    match.contenders.erase(match.contenders.begin() + at);
  }
  return true;
}

// single_stream takes much longer for one sample than offline does, so fewer samples are asked.
constexpr int64_t kSingleStreamSamples = 512;

inline RunOptions match_options(const RaceOptions& options, const Starters& starters,
                                judge::Scenario scenario, uint64_t seed) {
  RunOptions o;
  const auto students = starters.folders.end() - static_cast<std::ptrdiff_t>(starters.students);
  o.worker = options.worker, o.student_entries = {students, starters.folders.end()};
  o.entries = {starters.folders.begin(), students}, o.scenario = judge::name_of(scenario), o.seed = seed;
  o.run_class = options.quick ? judge::kQuick.name : judge::kRace.name;
  if (!options.quick)
    o.hidden = scenario == judge::Scenario::single_stream ? kSingleStreamSamples : judge::kRace.hidden;
  return o;
}

// Plays the first match of race.missing. Returns why it failed, or "" if it was played; then it is missing no
// more. Rethrows an exception of the first match, since there is nothing to keep yet.
inline std::string play_match(const RaceOptions& options, uint64_t seed, judge::Scenario scenario,
                              Starters& starters, Race& race) {
  fmt::print("{}: {} entries\n", judge::name_of(scenario), starters.folders.size());
  std::fflush(stdout);
  const bool first = played(race.matches).empty();
  judge::RunDocument& match =
      scenario == judge::Scenario::offline ? race.matches.offline : race.matches.single_stream;
  try {
    match =
        measured("a race", [&] { return options.play(match_options(options, starters, scenario, seed)); });
  } catch (const std::exception& e) {
    if (first) throw;
    return reason_of(e.what());
  }
  if (!drop_losers(starters, race.refused, match))
    return fmt::format("the baseline {} is out of it ({}); name another with --baseline", options.baseline,
                       reason_of(match.contenders.front().out));
  race.missing.erase(race.missing.begin());
  // An entry that was put out in a later match leaves the earlier ones, too.
  std::erase_if(race.matches.single_stream.contenders, [&](const judge::ContenderRecord& c) {
    return std::ranges::none_of(starters.entries, [&](const EntryInfo& e) { return e.name == c.name; });
  });
  return "";
}

// Plays both matches between the entries that are in to the end. A match that cannot be played stays in
// race.missing with the reason.
inline void play_matches(const RaceOptions& options, uint64_t seed, Starters& starters, Race& race) {
  const tt::PhiloxBlock other = tt::philox(seed, 2);
  const uint64_t seeds[] = {seed, (uint64_t{other.v[0]} << 32) | other.v[1]};
  const judge::Scenario scenarios[] = {judge::Scenario::single_stream, judge::Scenario::offline};
  for (const judge::Scenario scenario : scenarios)
    race.missing.push_back({judge::name_of(scenario), "the race ended before this match did"});
  for (size_t i = 0; i < 2; ++i) {
    const std::string failure = play_match(options, seeds[i], scenarios[i], starters, race);
    race.entries = starters.entries;
    if (!failure.empty()) {
      race.missing.front().reason = failure;
      for (size_t later = 1; later < race.missing.size(); ++later)
        race.missing[later].reason = "it was not played, because the match before it failed";
      return;
    }
    if (i == 0) keep_so_far(options.out, race);
  }
}

}  // namespace detail

}  // namespace tinymlperf
