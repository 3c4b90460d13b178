// `tinymlperf work` plays the matches that a board waits for, one after another, until none is left for this
// machine. While another program measures on this machine, it says which one, and waits.
#pragma once

#include <tinymlperf/benchmarks/training_subject.hpp>
#include <tinymlperf/board/work/worker.hpp>
#include <tinymlperf/commands/common.hpp>

namespace tinymlperf {

struct WorkCommandOptions {
  std::filesystem::path board;
  std::string run_class = "ranked";
  std::string hardware = {};  // hardware class of the jobs; empty: that of this machine's processor
  bool real_time = true;      // real-time priority, if the system allows it
  std::filesystem::path lock = MachineLock::usual_file();
};

inline int run_work(const WorkCommandOptions& o, std::FILE* out = stdout) {
  return detail::guarded(out, [&] {
    detail::require_board(o.board);
    // An unknown class is refused here, so that no job fails for it. Training has the same classes as the
    // other benchmarks; quick and race are not for boards.
    (void)judge::training_class_named(o.run_class);
    sandbox::require(sandbox::probe(), sandbox::Level::basic);
    board::Store store(o.board);
    board::WorkOptions options;
    options.run_class = o.run_class;
    if (!o.hardware.empty()) options.hardware = o.hardware;
    options.lock = o.lock;
    options.waits = [out](const std::string& holder) {
      fmt::print(out, "waiting until this machine is free: {}\n", holder);
      std::fflush(out);
    };
    options.play = [&o, out](RunOptions run) {
      fmt::print(out, "{}\n", budget_text(run)), std::fflush(out);
      run.real_time = o.real_time;
      return play_any(run);
    };
    int64_t failures = 0, runs = 0;
    while (const auto done = board::work_once(store, options)) {
      if (done->failure.empty())
        fmt::print(out, "job {}: run {}\n", done->job, done->run), ++runs;
      else
        fmt::print(out, "job {}: {}{}\n", done->job, done->failure, done->retried ? "; it waits again" : ""),
            failures += !done->retried;
      std::fflush(out);
    }
    fmt::print(out, "{} runs, {} failures; nothing waits for {}\n", runs, failures, options.hardware);
    return failures == 0 ? kPass : kFailed;
  });
}

}  // namespace tinymlperf
