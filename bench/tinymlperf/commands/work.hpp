// `tinymlperf work`: plays the matches that a board waits for, one after the other, until there is none for this machine.
#pragma once

#include <tinymlperf/board/worker.hpp>
#include <tinymlperf/commands/common.hpp>

namespace tinymlperf {

struct WorkCommandOptions {
  std::filesystem::path board;
  std::string run_class = "ranked";
};

inline int run_work(const WorkCommandOptions& o, std::FILE* out = stdout) {
  return detail::guarded(out, [&] {
    detail::require_board(o.board);
    (void)detail::run_class_named(o.run_class);  // a job must not fail for a wrong word here
    sandbox::require(sandbox::probe(), sandbox::Level::basic);
    board::Store store(o.board);
    board::WorkOptions options;
    options.run_class = o.run_class;
    int64_t failures = 0, runs = 0;
    while (const auto done = board::work_once(store, options)) {
      if (done->failure.empty())
        fmt::print(out, "job {}: run {}\n", done->job, done->run), ++runs;
      else
        fmt::print(out, "job {}: {}\n", done->job, done->failure), ++failures;
      std::fflush(out);
    }
    fmt::print(out, "{} runs, {} failures; nothing waits for {}\n", runs, failures, options.hardware);
    return failures == 0 ? kPass : kFailed;
  });
}

}  // namespace tinymlperf
