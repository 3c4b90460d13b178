// `tinymlperf race` and `tinymlperf verify` as functions, so that tests can call them without a process.
//
// A race: train and write the bundled entries, then let the judge play two matches of all entries, one sample after
// another and all at once, each on a hidden set drawn now and with every entry in a sandbox of its own; score, and write
// race.json and race.html.
#pragma once

#include <cstdio>
#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <tinymlperf/commands/exit_status.hpp>
#include <tinymlperf/commands/run.hpp>
#include <tinymlperf/race/lobby.hpp>
#include <tinymlperf/race/report.hpp>
#include <tinymlperf/training/train.hpp>
#include <tinytorch/benchmarking/clock.hpp>
#include <vector>

namespace tinymlperf {

struct RaceOptions {
  std::filesystem::path out = "build/race";
  std::vector<std::filesystem::path> entries;
  std::optional<uint64_t> seed;  // of all that is drawn; else drawn from the operating system
  // For these entries of data, the judge's own where none is named, a student's program answers (RunOptions::worker).
  std::filesystem::path worker = {};
  std::vector<std::filesystem::path> student_entries = {};
  std::string baseline = "lenet";
  double floor = 0.80;
  bool quick = false;     // a small run that shows the machinery; its numbers rank nothing
  bool no_train = false;  // only the given entries
};

namespace detail {

// Trains and writes the bundled entries; returns their folders.
inline std::vector<std::filesystem::path> train_bundled(const RaceOptions& options, Race& race) {
  race.training_samples = options.quick ? 1024 : 8000;
  race.validation_samples = options.quick ? 512 : 2000;
  race.training_seed = kTrainingSeed, race.validation_seed = kValidationSeed;
  const TrainingData data = training_data("dig", {race.training_samples, race.validation_samples});
  std::vector<std::filesystem::path> folders;
  for (Recipe& recipe : bundled_recipes()) {
    if (options.quick) recipe.epochs = 1;
    folders.push_back(options.out / "entries" / recipe.spec.name);
    race.training.push_back(train_entry(recipe, data, folders.back()));
  }
  return folders;
}

// Who is out of the match is out of the race. False when that is the baseline.
inline bool drop_losers(Starters& starters, std::vector<RefusedEntry>& refused, judge::RunDocument& match) {
  for (size_t i = 0; i < starters.folders.size();) {
    const std::string out = match.contenders[i].out;
    if (out.empty()) {
      match.contenders[i].name = starters.entries[i].name;
      ++i;
      continue;
    }
    refused.push_back({starters.folders[i].string(), reason_of(out)});
    const auto at = static_cast<std::ptrdiff_t>(i);
    if (i >= starters.folders.size() - starters.students) --starters.students;
    starters.folders.erase(starters.folders.begin() + at);
    starters.entries.erase(starters.entries.begin() + at);
    match.contenders.erase(match.contenders.begin() + at);
    if (i == 0) return false;
  }
  return true;
}

// One by one a sample takes so much longer than among many that fewer are asked.
constexpr int64_t kSingleStreamSamples = 512;

// Both matches, between those who are in to the end. False when the baseline is not.
inline bool play_matches(const RaceOptions& options, uint64_t seed, Starters& starters, Race& race) {
  const auto match = [&](judge::Scenario scenario, uint64_t its_seed, int64_t samples) {
    fmt::print("{}: {} entries\n", judge::name_of(scenario), starters.folders.size());
    std::fflush(stdout);
    RunOptions o;
    const auto students = starters.folders.end() - static_cast<std::ptrdiff_t>(starters.students);
    o.worker = options.worker, o.student_entries = {students, starters.folders.end()};
    o.entries = {starters.folders.begin(), students}, o.scenario = judge::name_of(scenario),
    o.seed = its_seed;
    o.run_class = options.quick ? judge::kQuick.name : judge::kRace.name;
    if (!options.quick) o.hidden = samples;
    return play(o);
  };
  race.matches.single_stream = match(judge::Scenario::single_stream, seed, kSingleStreamSamples);
  if (!drop_losers(starters, race.refused, race.matches.single_stream)) return false;
  const tt::PhiloxBlock other = tt::philox(seed, 2);
  race.matches.offline =
      match(judge::Scenario::offline, (uint64_t{other.v[0]} << 32) | other.v[1], judge::kRace.hidden);
  if (!drop_losers(starters, race.refused, race.matches.offline)) return false;
  std::erase_if(race.matches.single_stream.contenders, [&](const judge::ContenderRecord& c) {
    return std::ranges::none_of(starters.entries, [&](const EntryInfo& e) { return e.name == c.name; });
  });
  return true;
}

inline void add_students(const RaceOptions& options, Starters& in, std::vector<RefusedEntry>& refused) {
  std::vector<std::filesystem::path> folders = find_entries(options.student_entries, refused);
  if (options.student_entries.empty()) std::ranges::copy_if(in.folders, std::back_inserter(folders), is_data);
  tinymlperf::add_students(in, folders, refused);
}

inline void write_report(const std::filesystem::path& out, const Race& race) {
  tt::write_file((out / "race.json").string(), to_json(race).dump(1) + "\n");
  tt::write_file((out / "race.html").string(), html_page(race));
  fmt::print("\n{}\nwrote {} and {} in {:.1f} s\n", text_table(race), (out / "race.json").string(),
             (out / "race.html").string(), race.seconds);
}

inline int race(const RaceOptions& options) {
  const tinytorch::benchmarking::SteadyClock clock;
  const double start = clock();
  if (options.seed && (*options.seed == kTrainingSeed || *options.seed == kValidationSeed))
    return complain(fmt::format("--seed {}: this seed drew the training or validation set; choose another",
                                *options.seed));
  Race race;
  race.baseline = options.baseline;
  race.floor = options.floor;
  race.machine = describe_machine();
  if (options.quick) race.notes.push_back("Quick run: too few samples and epochs to rank anything.");
  std::filesystem::create_directories(options.out);

  std::vector<std::filesystem::path> folders;
  if (!options.no_train) folders = train_bundled(options, race);
  const auto given = find_entries(options.entries, race.refused);
  folders.insert(folders.end(), given.begin(), given.end());
  Starters in = starters(folders, options.baseline, race.refused);
  if (!options.worker.empty()) add_students(options, in, race.refused);
  const bool has_baseline = !in.entries.empty() && in.entries.front().name == options.baseline;
  std::random_device device;
  const uint64_t seed = options.seed.value_or((uint64_t{device()} << 32) | device());
  const bool played = has_baseline && play_matches(options, seed, in, race);
  for (const RefusedEntry& r : race.refused) fmt::print("refused {}: {}\n", r.path, r.reason);
  if (!played)
    return complain(fmt::format("no entry that could be played is named \"{}\"; name another with --baseline",
                                options.baseline));
  for (const judge::ContenderRecord& c : race.matches.offline.contenders)
    if (!c.worker.empty())
      race.notes.push_back(c.worker + " answers for " + c.name + "; " + replaced_text(c.name, c.replaced) +
                           ".");
  race.entries = in.entries;
  race.results = score_race(race.matches, race.floor);
  race.seconds = clock() - start;
  write_report(options.out, race);
  return kPass;
}

}  // namespace detail

// Exit status: 0 the race was run and written (refused entries included), 2 it could not be run as asked.
inline int run_race(const RaceOptions& options) {
  try {
    detail::require_worker(options.worker);  // before anything is trained
  } catch (const std::invalid_argument& e) {
    return detail::complain(e.what());
  }
  try {
    return detail::race(options);
  } catch (const sandbox::Unavailable& e) {
    return detail::complain(e.what());
  }
}

}  // namespace tinymlperf
