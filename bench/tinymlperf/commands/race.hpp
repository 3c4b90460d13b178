// `tinymlperf race` and `tinymlperf verify` as functions, so that tests can call them without a process.
//
// A race: draw training and validation digits, train and write the bundled entries, draw the hidden set from
// a seed chosen now, admit every entry, time them in interleaved blocks, score, and write race.json and
// race.html.
#pragma once

#include <cstdio>
#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <tinymlperf/commands/exit_status.hpp>
#include <tinymlperf/entries/load.hpp>
#include <tinymlperf/machine.hpp>
#include <tinymlperf/race/lobby.hpp>
#include <tinymlperf/race/report.hpp>
#include <tinymlperf/training/train.hpp>
#include <vector>

namespace tinymlperf {

struct RaceOptions {
  std::filesystem::path out = "build/race";
  std::vector<std::filesystem::path> entries;
  std::optional<uint64_t> seed;  // else drawn from the operating system
  std::string baseline = "lenet";
  double floor = 0.80;
  bool quick = false;     // a small run that shows the machinery; its numbers rank nothing
  bool no_train = false;  // only the given entries
};

// How much of everything a race takes.
struct Scale {
  int64_t training = 8000, validation = 2000, hidden = 10000;
  int64_t most_epochs = 100;
  int64_t draws = 10000;
  ContestOptions contest;
};

inline Scale scale_of(bool quick) {
  Scale s;
  if (!quick) return s;
  s.training = 1024, s.validation = 512, s.hidden = 512, s.most_epochs = 1, s.draws = 500;
  s.contest.blocks = 8;
  s.contest.single_seconds = s.contest.batch_seconds = 0;  // the fewest calls: 8 blocks of 8 support a p90
  s.contest.fewest_batch = 1;
  s.contest.warm_up.seconds_limit = 0.05;
  return s;
}

namespace detail {

// With --seed everything follows from it; else each seed is drawn on its own.
inline Seeds choose_seeds(const std::optional<uint64_t>& given, uint64_t& bootstrap_seed) {
  Seeds seeds{kTrainingSeed, kValidationSeed, 0, 0};
  std::random_device device;
  const auto draw = [&] { return (uint64_t{device()} << 32) | device(); };
  if (given) {
    const tt::PhiloxBlock block = tt::philox(*given, 0);
    seeds.hidden = *given;
    seeds.order = (uint64_t{block.v[0]} << 32) | block.v[1];
    bootstrap_seed = (uint64_t{block.v[2]} << 32) | block.v[3];
    return seeds;
  }
  do seeds.hidden = draw();
  while (seeds.hidden == kTrainingSeed || seeds.hidden == kValidationSeed);
  seeds.order = draw();
  bootstrap_seed = draw();
  return seeds;
}

// Trains and writes the bundled entries; returns their folders.
inline std::vector<std::filesystem::path> train_bundled(const RaceOptions& options, const Scale& scale,
                                                        Race& race) {
  const TrainingData data = training_data("dig", {scale.training, scale.validation});
  std::vector<std::filesystem::path> folders;
  for (Recipe& recipe : bundled_recipes()) {
    recipe.epochs = std::min(recipe.epochs, scale.most_epochs);
    folders.push_back(options.out / "entries" / recipe.spec.name);
    race.training.push_back(train_entry(recipe, data, folders.back()));
  }
  race.training_samples = scale.training;
  race.validation_samples = scale.validation;
  return folders;
}

inline std::vector<Contestant> admit_entries(const std::vector<std::filesystem::path>& folders,
                                             const LabelledImages& hidden, const Scale& scale, Race& race) {
  const auto admit_folder = [&](const std::filesystem::path& folder) {
    Entry entry = load_entry(folder);
    Contestant c = admit(std::move(entry.network), hidden, race.rules.batch, scale.contest);
    c.measurement.file_bytes = entry.file_bytes;
    return c;
  };
  const auto name_of = [](const Contestant& c) { return c.measurement.name; };
  auto contestants = admit_all<Contestant>(folders, admit_folder, name_of, race.refused);
  for (const Contestant& c : contestants) {
    const EntrySpec& spec = c.network.spec();
    race.entries.push_back({spec.name, spec.author, spec.description});
    if (!c.settled)
      race.notes.push_back(
          fmt::format("{}: warm-up ended at its time limit before two medians agreed to 1 %.", spec.name));
  }
  return contestants;
}

inline void write_report(const std::filesystem::path& out, const Race& race) {
  tt::write_file((out / "race.json").string(), to_json(race).dump(1) + "\n");
  tt::write_file((out / "race.html").string(), html_page(race));
  fmt::print("\n{}\nwrote {} and {} in {:.1f} s\n", text_table(race), (out / "race.json").string(),
             (out / "race.html").string(), race.seconds);
}

}  // namespace detail

// Exit status: 0 the race was run and written (refused entries included), 2 it could not be run as asked.
inline int run_race(const RaceOptions& options) {
  using namespace detail;
  const benchmarking::SteadyClock clock;
  const double start = clock();
  if (options.seed && (*options.seed == kTrainingSeed || *options.seed == kValidationSeed))
    return complain(fmt::format("--seed {}: this seed drew the training or validation set; choose another",
                                *options.seed));
  const Scale scale = scale_of(options.quick);
  Race race;
  race.rules.baseline = options.baseline;
  race.rules.floor = options.floor;
  race.rules.draws = scale.draws;
  race.seeds = choose_seeds(options.seed, race.rules.seed);
  race.hidden_samples = scale.hidden;
  race.machine = describe_machine();
  if (options.quick) race.notes.push_back("Quick run: too few samples and epochs to rank anything.");
  fmt::print("hidden set: {} digits, seed {}\n", scale.hidden, race.seeds.hidden);
  std::filesystem::create_directories(options.out);

  std::vector<std::filesystem::path> folders;
  if (!options.no_train) folders = train_bundled(options, scale, race);
  const auto given = find_entries(options.entries, race.refused);
  folders.insert(folders.end(), given.begin(), given.end());
  const LabelledImages hidden = draw_digits(scale.hidden, race.seeds.hidden);
  auto contestants = admit_entries(folders, hidden, scale, race);
  for (const RefusedEntry& r : race.refused) fmt::print("refused {}: {}\n", r.path, r.reason);
  bool has_baseline = false;
  for (const Contestant& c : contestants)
    has_baseline = has_baseline || c.measurement.name == options.baseline;
  if (!has_baseline)
    return complain(
        fmt::format("no admitted entry is named \"{}\"; name another with --baseline", options.baseline));

  fmt::print("timing {} entries in {} blocks\n", contestants.size(), scale.contest.blocks);
  std::fflush(stdout);
  ContestOptions contest = scale.contest;
  contest.seed = race.seeds.order;
  run_contest(contestants, hidden, race.rules.batch, contest);
  for (const Contestant& c : contestants) {
    race.measurements.push_back(c.measurement);
    if (c.measurement.timed_mismatches)
      race.notes.push_back(fmt::format("{}: {} timed answers differ from the graded ones.",
                                       c.measurement.name, c.measurement.timed_mismatches));
  }
  race.results = score_race(race.measurements, race.rules);
  race.seconds = clock() - start;
  write_report(options.out, race);
  return kPass;
}

// Recomputes the results of a race.json from its raw samples. 0 they agree, 1 they do not, 2 unreadable.
inline int run_verify(const std::filesystem::path& path) {
  try {
    const std::string text = detail::read_limited(path, int64_t{1} << 30);
    const std::string difference = verify_race(Json::parse(text));
    if (difference.empty()) {
      fmt::print("{}: every result follows from the raw samples\n", path.string());
      return kPass;
    }
    fmt::print("{}: {}\n", path.string(), difference);
    return kFailed;
  } catch (const std::exception& e) {
    return detail::complain(e.what());
  }
}

}  // namespace tinymlperf
