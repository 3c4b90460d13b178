// tinymlperf: trains the bundled models, scores every entry against the others, writes the report.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <tinymlperf/commands/profile.hpp>
#include <tinymlperf/commands/race.hpp>
#include <tinymlperf/commands/run.hpp>
#include <tinymlperf/commands/train.hpp>
#include <tinymlperf/commands/verify.hpp>
#include <tinymlperf/device/work.hpp>
#include <tinymlperf/judge/training_worker.hpp>
#ifdef TINYMLPERF_WITH_BOARD
#include <tinymlperf/commands/command_line.hpp>
#endif

namespace tinymlperf {
extern const char* const kCommit;  // written by the build; "" outside of git
}

namespace {

// One a line; empty in a build on the library's own.
constexpr std::string_view kStudentHeaders = TINYTORCH_STUDENT_HEADERS;

CLI::App* race_command(CLI::App& app, tinymlperf::RaceOptions& race) {
  auto* command = app.add_subcommand("race", "train the bundled models and score all entries");
  command->add_option("--out", race.out, "folder for race.json, race.html and entries/")
      ->capture_default_str();
  command->add_option("--entries", race.entries, "entry folders, or folders of entries");
  command->add_option("--worker", race.worker,
                      "`tinymlperf` of a build on a student's headers: answers for entries NAME-student");
  command->add_option("--student-entries", race.student_entries,
                      "which --worker answers for (default: those of data once more)");
  command->add_option("--seed", race.seed, "seed of the hidden set (default: drawn from the system)");
  command->add_option("--baseline", race.baseline, "entry that scores 100")->capture_default_str();
  command->add_option("--floor", race.floor, "least accuracy, as a share")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0));
  command->add_flag("--quick", race.quick, "a small run that shows the machinery");
  command->add_flag("--no-train", race.no_train, "only the given entries");
  return command;
}

CLI::App* run_command(CLI::App& app, tinymlperf::RunOptions& run) {
  auto* command = app.add_subcommand("run", "a match between entries, each in a sandboxed process");
  command->add_option("entries", run.entries, "entry folders; the first is the baseline")->required();
  command
      ->add_option("--benchmark", run.benchmark,
                   tinymlperf::judge::benchmark_ids() +
                       ", ttq: what the first entry learns, or krn: kernels, op by op")
      ->capture_default_str();
  command->add_option("--scenario", run.scenario,
                      "single_stream (default), multi_stream, offline, server or generation; of ttq "
                      "time_to_quality (default)");
  command->add_option("--division", run.division, "open, or closed: keeps 99 % of the baseline's quality")
      ->capture_default_str();
  command->add_option("--ops", run.ops, "of krn: these alone, joined by commas (default: all)")
      ->delimiter(',')
      ->allow_extra_args(false);
  command
      ->add_option("--class", run.run_class,
                   "smoke, ranked or official; but for ttq and krn also quick or race, which `race` plays")
      ->capture_default_str();
  command->add_option("--out", run.out, "folder for run.json")->capture_default_str();
  command->add_option("--worker", run.worker,
                      "`tinymlperf` of a build on a student's headers: entries of data play once more as "
                      "NAME-student, and it answers for them");
  command->add_option("--seed", run.seed, "of the hidden set and the order (default: drawn from the system)");
  command->add_option("--text", run.text,
                      "of lm: a text of your own; its last three fifths are held out (default: generated)");
  command->add_flag("!--no-real-time", run.real_time,
                    "let others of this machine interrupt, who otherwise wait while entries are timed");
  return command;
}

CLI::App* train_command(CLI::App& app, tinymlperf::TrainCommand& train) {
  auto* command = app.add_subcommand("train", "train a benchmark's bundled models and write them as entries");
  command
      ->add_option("--benchmark", train.benchmark,
                   "dig, kws, ad or lm; of ttq-dig and ttq-lm the recipes are written")
      ->capture_default_str();
  command->add_option("--out", train.out, "folder of the entries")->capture_default_str();
  command->add_option("--only", train.only, "the model of this name alone");
  command->add_option("--epochs", train.epochs, "instead of each model's own")->check(CLI::PositiveNumber);
  command->add_option("--text", train.text,
                      "of lm: a text of your own; its first two fifths are learned (default: generated)");
  return command;
}

CLI::App* profile_command(CLI::App& app, tinymlperf::ProfileOptions& profile) {
  auto* command = app.add_subcommand("profile", "where a model's time, work and memory go");
  command
      ->add_option("model", profile.model,
                   "linear, mlp, lenet, wasteful, gpt2, gpt2-tiny, or an entry's folder")
      ->required();
  command->add_option("--out", profile.out, "folder for profile.html, peaks.json and trace.json")
      ->capture_default_str();
  command->add_option("--batch", profile.batch, "images or sequences (default: 64, 4)")
      ->check(CLI::PositiveNumber);
  command->add_option("--length", profile.length, "tokens of a sequence")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  command->add_option("--steps", profile.steps, "steps profiled together")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  command->add_option("--device", profile.device, "cpu or cuda")
      ->capture_default_str()
      ->check(CLI::IsMember({"cpu", "cuda"}));
  command->add_option("--dtype", profile.dtype, "f32, bf16, f16 or f64")->capture_default_str();
  command->add_flag("--inference", profile.inference, "forward passes alone, without gradients");
  command->add_option("--json", profile.json, "also write the profile here, for a later --against");
  auto* const against = command
                            ->add_option("--against", profile.against,
                                         "a profile's JSON of before a change: was it worth what it should")
                            ->check(CLI::ExistingFile);
  command
      ->add_option("--part", profile.part,
                   "the ops that were changed, joined by commas (default: the one whose time changed most)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->needs(against);
  command->add_flag("--ablation", profile.ablation,
                    "measure a step with threads and bf16 on and off, alone and together");
  return command;
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto status = tinymlperf::device::maybe_work(argc, argv)) return *status;
  CLI::App app("TinyMLPerf: models raced against each other on one machine");
  app.require_subcommand(1);
  tinymlperf::RaceOptions race;
  tinymlperf::RunOptions run;
  tinymlperf::ProfileOptions profile;
  profile.commit = tinymlperf::kCommit;
  tinymlperf::TrainCommand train;
  std::string file, entry, board;
  const CLI::App* const racing = race_command(app, race);
  const CLI::App* const running = run_command(app, run);
  const CLI::App* const training = train_command(app, train);
  const CLI::App* const profiling = profile_command(app, profile);
  auto* const verifying = app.add_subcommand("verify", "recompute results from their raw samples");
  auto* const results = verifying->add_option_group("what")->require_option(1);
  results->add_option("file", file, "a race.json or run.json");
  const auto* const listing = app.add_subcommand("kernels", "the ops of the benchmark krn, and their shapes");
  auto* const working = app.add_subcommand("worker", "answers for an entry: what `run` starts");
  auto* const what = working->add_option_group("what")->require_option(1);
  what->add_option("entry", entry, "its folder");
  bool memory = false, headers = false;
  what->add_flag("--headers", headers, "says instead on which of a student's headers it is built");
  working->add_flag("--memory", memory, "each answer says how many bytes it took");
#ifdef TINYMLPERF_WITH_BOARD
  results->add_option("--board", board, "a board's database file: all of it");
  const tinymlperf::BoardCommands boards(app);
#else
  app.footer(
      "Built without bundles and leaderboard, which need cpp-httplib, SQLite, libarchive and OpenSSL.");
#endif

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? tinymlperf::kPass : tinymlperf::kSetUpProblem;
  }
  try {
    if (*working && headers) return fmt::print("{}", kStudentHeaders), tinymlperf::kPass;
    if (*working) return tinymlperf::judge::serve_worker(entry, memory);
    if (!kStudentHeaders.empty() && !(*training || *profiling || *verifying || *listing))
      return tinymlperf::detail::complain(
          "this program is built on a student's headers, and so would its clock and its statistics be: it "
          "judges nobody. `modules/tt perf --student -- run A B` lets the library's judge ask it");
    if (*training) return tinymlperf::run_train(train);
    if (*running) return tinymlperf::run_match(run);
    if (*listing) return tinymlperf::list_kernels();
    if (*profiling) return tinymlperf::run_profile(profile);
    if (*racing) return tinymlperf::run_race(race);
#ifdef TINYMLPERF_WITH_BOARD
    if (const auto status = boards.run()) return *status;
    if (!board.empty()) return tinymlperf::run_verify_board(board);
#endif
    return tinymlperf::run_verify_file(file);
  } catch (const std::exception& e) {
    fmt::print(stderr, "tinymlperf: {}\n", e.what());
    return 3;
  }
}
