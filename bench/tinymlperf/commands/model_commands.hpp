// The options of the commands on models, matches and kernels. Each command is done in its own header.
#pragma once

#include <tinymlperf/commands/command.hpp>
#include <tinymlperf/commands/profile.hpp>
#include <tinymlperf/commands/quantize.hpp>
#include <tinymlperf/commands/race.hpp>
#include <tinymlperf/commands/run.hpp>
#include <tinymlperf/commands/run_kernels.hpp>
#include <tinymlperf/commands/run_training.hpp>
#include <tinymlperf/commands/train.hpp>
#include <tinymlperf/commands/verify.hpp>
#include <tinymlperf/judge/workers/pack_worker.hpp>
#include <tinymlperf/judge/workers/training_worker.hpp>
#ifdef TINYMLPERF_WITH_BOARD
#include <tinymlperf/commands/board.hpp>
#endif

namespace tinymlperf {

extern const char* const kCommit;  // written by the build; "" outside of git

inline Action race_command(CLI::App& command) {
  const auto o = std::make_shared<RaceOptions>();
  command.add_option("--out", o->out, "folder for o->json, o->html and entries/")->capture_default_str();
  command.add_option("--entries", o->entries, "entry folders, or folders of entries");
  command.add_option("--worker", o->worker,
                     "`tinymlperf` of a build on a student's headers: answers for entries NAME-student");
  command.add_option("--student-entries", o->student_entries,
                     "entries that --worker answers for (default: all entries of data, a second time)");
  command.add_option("--seed", o->seed, "seed of the hidden set (default: drawn from the system)");
  command.add_option("--baseline", o->baseline, "entry that scores 100")->capture_default_str();
  command.add_option("--floor", o->floor, "least accuracy, as a share")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0));
  command.add_flag("--quick", o->quick, "a small run that shows that everything works");
  command.add_flag("--no-train", o->no_train, "only the given entries");
  return action_on(o, run_race);
}

namespace detail {

// The options that all matches have.
inline void match_options(CLI::App& command, RunOptions& o, const char* classes) {
  command.add_option("entries", o.entries, "entry folders; the first is the baseline")->required();
  command.add_option("--class", o.run_class, classes)->capture_default_str();
  command.add_option("--out", o.out, "folder for run.json")->capture_default_str();
  command.add_option("--seed", o.seed, "of the hidden set and the order (default: drawn from the system)");
}
inline void division_option(CLI::App& command, RunOptions& o) {
  command
      .add_option("--division", o.division,
                  "open, or closed: has the baseline's weights, and keeps 99 % of its quality")
      ->capture_default_str();
}
inline void worker_option(CLI::App& command, RunOptions& o) {
  command.add_option("--worker", o.worker,
                     "`tinymlperf` of a build on a student's headers: entries of data play a second time as "
                     "NAME-student, and it answers for them");
}
inline void ops_option(CLI::App& command, RunOptions& o, const char* text) {
  command.add_option("--ops", o.ops, text)->delimiter(',')->allow_extra_args(false);
}
inline void real_time_option(CLI::App& command, RunOptions& o) {
  command.add_flag("!--no-real-time", o.real_time,
                   "let other processes interrupt; otherwise they wait while entries are timed");
}

}  // namespace detail

inline Action run_command(CLI::App& command) {
  const auto o = std::make_shared<RunOptions>();
  detail::match_options(
      command, *o, "smoke, ranked or official; but for ttq and krn also quick or race, which `race` plays");
  command
      .add_option("--benchmark", o->benchmark,
                  judge::benchmark_ids() +
                      ", ttq: what the first entry learns, or krn: kernels, op by op. `run-training` and "
                      "`run-kernels` are the commands for the last two; these spellings go on working")
      ->capture_default_str();
  command.add_option(
      "--scenario", o->scenario,
      "single_stream (default), multi_stream, offline, server, generation or shared_prefix; of ttq "
      "time_to_quality (default)");
  detail::division_option(command, *o);
  detail::ops_option(command, *o, "of krn: these alone, joined by commas (default: all)");
  detail::worker_option(command, *o);
  command.add_option("--text", o->text,
                     "of lm: a text of your own; its last three fifths are held out (default: generated)");
  detail::real_time_option(command, *o);
  return action_on(o, run_match);
}

inline Action run_training_command(CLI::App& command) {
  const auto o = std::make_shared<RunOptions>();
  o->benchmark = "ttq";
  detail::match_options(command, *o, "smoke, ranked or official");
  command.add_option("--benchmark", o->benchmark, "ttq-dig or ttq-lm, or ttq: what the first entry learns")
      ->capture_default_str();
  detail::division_option(command, *o);
  detail::worker_option(command, *o);
  return action_on(o, run_training_match);
}

inline Action run_kernels_command(CLI::App& command) {
  const auto o = std::make_shared<RunOptions>();
  o->benchmark = kKernelBenchmark;
  detail::match_options(command, *o, "smoke, ranked or official");
  detail::ops_option(command, *o, "these alone, joined by commas (default: all)");
  detail::real_time_option(command, *o);
  return action_on(
      o, +[](const RunOptions& options) { return run_kernel_match(options); });
}

inline Action train_command(CLI::App& command) {
  const auto o = std::make_shared<TrainCommand>();
  command
      .add_option("--benchmark", o->benchmark,
                  "dig, kws, ad or lm; of ttq-dig and ttq-lm the recipes are written")
      ->capture_default_str();
  command.add_option("--out", o->out, "folder of the entries")->capture_default_str();
  command.add_option("--only", o->only, "the model of this name alone");
  command.add_option("--epochs", o->epochs, "instead of each model's own")->check(CLI::PositiveNumber);
  command.add_option("--text", o->text,
                     "of lm: a text of your own; its first two fifths are learned (default: generated)");
  return action_on(o, run_train);
}

inline Action quantize_command(CLI::App& command) {
  const auto o = std::make_shared<QuantizeCommand>();
  command.add_option("entry", o->entry, "the folder whose float weights are packed")->required();
  command.add_option("--out", o->out, "folder of the new entry")->required();
  command.add_option("--format", o->spec.format, "Q8_0, Q4_0, Q4_K, I8, ...")->capture_default_str();
  command.add_option("--head", o->spec.head, "the format of a language model's head (default: floats)");
  command.add_option("--method", o->spec.method, "nearest, mse, gptq, awq, awq+gptq, ...")
      ->capture_default_str();
  command.add_option("--activations", o->spec.activations, "int8 or floats")->capture_default_str();
  command.add_option("--layer", o->layers, "PATH=FORMAT of one layer; PATH= keeps its floats");
  command.add_option("--calibration", o->calibration, "samples of the training data, drawn by --seed")
      ->capture_default_str();
  command.add_option("--seed", o->spec.seed, "of the samples and of rotations")->capture_default_str();
  return action_on(o, run_quantize);
}

inline Action profile_command(CLI::App& command) {
  const auto o = std::make_shared<ProfileOptions>();
  o->commit = kCommit;
  command
      .add_option("model", o->model, "linear, mlp, lenet, wasteful, gpt2, gpt2-tiny, or an entry's folder")
      ->required();
  command.add_option("--out", o->out, "folder for profile.html, peaks.json and trace.json")
      ->capture_default_str();
  command.add_option("--batch", o->batch, "images or sequences (default: 64, 4)")->check(CLI::PositiveNumber);
  command.add_option("--length", o->length, "tokens of a sequence")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  command.add_option("--steps", o->steps, "steps profiled together")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  command.add_option("--device", o->device, "cpu or cuda")
      ->capture_default_str()
      ->check(CLI::IsMember({"cpu", "cuda"}));
  command.add_option("--dtype", o->dtype, "f32, bf16, f16 or f64")->capture_default_str();
  command.add_flag("--inference", o->inference, "forward passes alone, without gradients");
  command.add_option("--json", o->json, "also write the profile here, for a later --against");
  auto* const against =
      command.add_option("--against", o->against, "a profile's JSON from before a change, for comparison")
          ->check(CLI::ExistingFile);
  command
      .add_option("--part", o->part,
                  "the ops that were changed, joined by commas (default: the one whose time changed most)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->needs(against);
  command.add_flag("--ablation", o->ablation,
                   "measure a step with threads and bf16 on and off, alone and together");
  return action_on(o, run_profile);
}

struct VerifyOptions {
  std::string file, board, seal;
};

inline Action verify_command(CLI::App& command) {
  const auto o = std::make_shared<VerifyOptions>();
  auto* const results = command.add_option_group("what")->require_option(1);
  results->add_option("file", o->file, "a race.json or run.json");
#ifdef TINYMLPERF_WITH_BOARD
  results->add_option("--board", o->board, "a board's database file: all of it");
#endif
  command.add_option("--seal", o->seal, "demand the seal that was printed when it was measured");
  return [o] {
#ifdef TINYMLPERF_WITH_BOARD
    if (!o->board.empty()) return run_verify_board(o->board, stdout, o->seal);
#endif
    return run_verify_file(o->file, stdout, o->seal);
  };
}

inline Action kernels_command(CLI::App&) {
  return [] { return list_kernels(); };
}

struct WorkerOptions {
  std::string entry, replay;
  bool memory = false, headers = false, repack = false;
};

inline Action worker_command(CLI::App& command) {
  const auto o = std::make_shared<WorkerOptions>();
  auto* const what = command.add_option_group("what")->require_option(1);
  what->add_option("entry", o->entry, "its folder");
  what->add_flag("--headers", o->headers, "print the student's headers that it is built on instead");
  command.add_flag("--memory", o->memory, "report the peak of allocated bytes with each answer");
  command.add_option("--replay", o->replay, "pack the weights of this folder as the entry's quantizer says");
  command.add_flag("--repack", o->repack, "write the entry's packed weights again");
  return [o] {
    if (o->headers) return fmt::print("{}", kStudentHeaders), kPass;
    if (o->repack || !o->replay.empty()) return judge::serve_pack_worker(o->entry, o->replay);
    return judge::serve_worker(o->entry, o->memory);
  };
}

}  // namespace tinymlperf
