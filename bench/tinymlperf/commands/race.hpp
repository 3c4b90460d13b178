// `tinymlperf race` and `tinymlperf verify` as functions, so that tests can call them without a process.
//
// A race trains and writes the bundled entries. Then the judge plays two matches between all entries,
// single_stream and offline, each on a hidden set drawn now and with every entry in a sandbox of its own. The
// race is scored and written as race.json and race.html. Every step is on disk before the next begins: each
// entry once it is trained, each match once it is played (race_matches.hpp).
#pragma once

#include <cstdio>
#include <filesystem>
#include <random>
#include <string>
#include <tinymlperf/benchmarks/task.hpp>
#include <tinymlperf/commands/race_matches.hpp>
#include <tinymlperf/training/train.hpp>
#include <tinytorch/benchmarking/clock.hpp>
#include <vector>

namespace tinymlperf {

namespace detail {

// Models that were trained before the failure are on disk and need not be trained again.
[[noreturn]] inline void fail_training(const RaceOptions& options, const Race& race, const std::string& name,
                                       const std::string& why) {
  std::string done;
  for (const TrainingCurve& c : race.training) done += (done.empty() ? "" : ", ") + c.name;
  if (!done.empty())
    done = fmt::format("; {} can be used, in {}: race them alone with --no-train --entries and that folder",
                       done, (options.out / "entries").string());
  throw std::runtime_error(fmt::format("{} could not be trained: {}{}", name, reason_of(why), done));
}

// Trains and writes the bundled entries; returns their folders.
inline std::vector<std::filesystem::path> train_bundled(const RaceOptions& options, Race& race) {
  race.training_samples = options.quick ? 1024 : 8000;
  race.validation_samples = options.quick ? 512 : 2000;
  race.training_seed = kTrainingSeed, race.validation_seed = kValidationSeed;
  const TrainingData data = training_data(kDigitsBenchmark, {race.training_samples, race.validation_samples});
  std::vector<std::filesystem::path> folders;
  for (Recipe& recipe : bundled_recipes()) {
    if (options.quick) recipe.epochs = 1;
    folders.push_back(options.out / "entries" / recipe.spec.name);
    try {
      race.training.push_back(train_entry(recipe, data, folders.back()));
    } catch (const std::exception& e) {
      fail_training(options, race, recipe.spec.name, e.what());
    }
  }
  return folders;
}

inline void add_students(const RaceOptions& options, Starters& in, std::vector<RefusedEntry>& refused) {
  std::vector<std::filesystem::path> folders = find_entries(options.student_entries, refused);
  if (options.student_entries.empty()) std::ranges::copy_if(in.folders, std::back_inserter(folders), is_data);
  tinymlperf::add_students(in, folders, refused);
}

inline void note_students(Race& race) {
  for (const judge::ContenderRecord& c : race.matches.single_stream.contenders)
    if (!c.worker.empty())
      race.notes.push_back(c.worker + " answers for " + c.name + "; " + replaced_text(c.name, c.replaced) +
                           ".");
}

// Ends a race after its matches: ranks the entries if all matches were played, then writes and prints the
// report.
inline int finish_race(const RaceOptions& options, Race& race) {
  if (race.missing.empty()) {
    try {
      race.results = score_race(race.matches, race.floor);
    } catch (const std::exception& e) {
      race.missing.push_back({"ranking", reason_of(e.what())});
    }
  }
  const std::string file = (options.out / kRaceFile).string(), page = (options.out / kRacePage).string();
  std::string failure;
  try {
    write_report(options.out, race);
  } catch (const std::exception& e) {
    failure = reason_of(e.what());
  }
  fmt::print("\n{}\n", text_table(race));
  if (!failure.empty()) {
    complain(fmt::format(
        "the report could not be written: {}. The tables above are whole; make room in {} and run the "
        "same command again",
        failure, options.out.string()));
    return kFailed;
  }
  fmt::print("wrote {} and {} in {:.1f} s\n", file, page, race.seconds);
  if (race.missing.empty()) return kPass;
  complain(fmt::format("{} failed: {}. What was played is kept in {}", race.missing.front().what,
                       race.missing.front().reason, file));
  return kFailed;
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
  const OutputFolder folder(options.out, {kRaceFile, kRacePage});  // before anything is trained

  std::vector<std::filesystem::path> folders;
  if (!options.no_train) folders = train_bundled(options, race);
  const auto given = find_entries(options.entries, race.refused);
  folders.insert(folders.end(), given.begin(), given.end());
  Starters in = starters(folders, options.baseline, race.refused);
  if (!options.worker.empty()) add_students(options, in, race.refused);
  const bool has_baseline = !in.entries.empty() && in.entries.front().name == options.baseline;
  std::random_device device;
  const uint64_t seed = options.seed.value_or((uint64_t{device()} << 32) | device());
  if (has_baseline) play_matches(options, seed, in, race);
  for (const RefusedEntry& r : race.refused) fmt::print("refused {}: {}\n", r.path, r.reason);
  if (!has_baseline)
    return complain(fmt::format("no entry that could be played is named \"{}\"; name another with --baseline",
                                options.baseline));
  note_students(race);
  race.seconds = clock() - start;
  return finish_race(options, race);
}

}  // namespace detail

// Exit status: 0 the race was run and written (refused entries included); 1 a part of it failed, and the rest
// is written and shown; 2 it could not be run as asked.
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
