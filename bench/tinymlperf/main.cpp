// tinymlperf: trains the bundled models, scores every entry against the others, writes the report.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <tinymlperf/command.hpp>

int main(int argc, char** argv) {
  CLI::App app("TinyMLPerf: models raced against each other on one machine");
  app.require_subcommand(1);

  tinymlperf::RaceOptions race;
  auto* race_command = app.add_subcommand("race", "train the bundled models and score all entries");
  race_command->add_option("--out", race.out, "folder for race.json, race.html and entries/")
      ->capture_default_str();
  race_command->add_option("--entries", race.entries, "entry folders, or folders of entries");
  race_command->add_option("--seed", race.seed, "seed of the hidden set (default: drawn from the system)");
  race_command->add_option("--baseline", race.baseline, "entry that scores 100")->capture_default_str();
  race_command->add_option("--floor", race.floor, "least accuracy, as a share")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0));
  race_command->add_flag("--quick", race.quick, "a small run that shows the machinery");
  race_command->add_flag("--no-train", race.no_train, "only the given entries");

  std::string file;
  auto* verify_command =
      app.add_subcommand("verify", "recompute the results of a race.json from its raw samples");
  verify_command->add_option("file", file, "the race.json")->required();

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? tinymlperf::kPass : tinymlperf::kSetUpProblem;
  }
  try {
    return *race_command ? tinymlperf::run_race(race) : tinymlperf::run_verify(file);
  } catch (const std::exception& e) {
    fmt::print(stderr, "tinymlperf: {}\n", e.what());
    return 3;
  }
}
