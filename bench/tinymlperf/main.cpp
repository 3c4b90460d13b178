// tinymlperf: trains the bundled models, scores every entry against the others, writes the report.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <tinymlperf/command.hpp>
#include <tinymlperf/judge/entry_worker.hpp>
#include <tinymlperf/profile.hpp>
#include <tinymlperf/run.hpp>

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

  tinymlperf::RunOptions run;
  auto* run_command = app.add_subcommand("run", "a match between entries, each in a sandboxed process");
  run_command->add_option("entries", run.entries, "entry folders; the first is the baseline")->required();
  run_command->add_option("--benchmark", run.benchmark, "dig")->capture_default_str();
  run_command->add_option("--scenario", run.scenario, "single_stream, multi_stream or offline")
      ->capture_default_str();
  run_command->add_option("--class", run.run_class, "smoke, ranked or official")->capture_default_str();
  run_command->add_option("--out", run.out, "folder for run.json")->capture_default_str();
  run_command->add_option("--seed", run.seed,
                          "of the hidden set and the order (default: drawn from the system)");

  std::string worker_folder;
  auto* worker_command = app.add_subcommand("worker", "answers for an entry: what `run` starts");
  worker_command->add_option("entry", worker_folder)->required();

  tinymlperf::ProfileOptions profile;
  auto* profile_command = app.add_subcommand("profile", "where a model's time, work and memory go");
  profile_command
      ->add_option("model", profile.model,
                   "linear, mlp, lenet, wasteful, gpt2, gpt2-tiny, or an entry's folder")
      ->required();
  profile_command->add_option("--out", profile.out, "folder for profile.html and trace.json")
      ->capture_default_str();
  profile_command->add_option("--batch", profile.batch, "images or sequences (default: 64, 4)")
      ->check(CLI::PositiveNumber);
  profile_command->add_option("--length", profile.length, "tokens of a sequence")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  profile_command->add_option("--steps", profile.steps, "steps profiled together")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  profile_command->add_option("--device", profile.device, "cpu or cuda")
      ->capture_default_str()
      ->check(CLI::IsMember({"cpu", "cuda"}));
  profile_command->add_option("--dtype", profile.dtype, "f32, bf16, f16 or f64")->capture_default_str();
  profile_command->add_flag("--inference", profile.inference, "forward passes alone, without gradients");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? tinymlperf::kPass : tinymlperf::kSetUpProblem;
  }
  try {
    if (*worker_command) return tinymlperf::judge::serve_entry(worker_folder);
    if (*run_command) return tinymlperf::run_match(run);
    if (*profile_command) return tinymlperf::run_profile(profile);
    return *race_command ? tinymlperf::run_race(race) : tinymlperf::run_verify(file);
  } catch (const std::exception& e) {
    fmt::print(stderr, "tinymlperf: {}\n", e.what());
    return 3;
  }
}
