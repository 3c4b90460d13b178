// `tinymlperf work` plays the matches that a board waits for, one after another, until none is left for this
// machine. While another program measures on this machine, it says which one, and waits. The board is a file
// of this machine, or with --server an address; then the worker's token says who asks.
#pragma once

#include <memory>
#include <tinymlperf/benchmarks/training_subject.hpp>
#include <tinymlperf/board/web/remote_jobs.hpp>
#include <tinymlperf/board/work/worker.hpp>
#include <tinymlperf/commands/common.hpp>

namespace tinymlperf {

struct WorkCommandOptions {
  std::filesystem::path board;
  std::string run_class = "ranked";
  std::string hardware = {};  // hardware class of the jobs; empty: that of this machine's processor
  bool real_time = true;      // real-time priority, if the system allows it
  std::filesystem::path lock = MachineLock::usual_file();
  std::string server = {};  // instead of the board's file
  detail::Token token = {};
  std::filesystem::path outbox = "build/outbox";
};

namespace detail {

// The store lives as long as its jobs.
struct WorkerJobs {
  std::unique_ptr<board::Store> store;
  std::unique_ptr<board::JobSource> jobs;
};

// Makes the source of a worker's jobs, and delivers the results that an earlier worker could not.
inline WorkerJobs worker_jobs(const WorkCommandOptions& o, std::FILE* out) {
  if (o.server.empty() == o.board.empty())
    throw std::invalid_argument("work needs either --board FILE or --server http://HOST:PORT");
  WorkerJobs w;
  if (o.server.empty()) {
    require_board(o.board);
    w.store = std::make_unique<board::Store>(o.board);
    w.jobs = std::make_unique<board::LocalJobs>(*w.store);
    return w;
  }
  board::RemoteJobsOptions options{.outbox = o.outbox};
  options.told = [out](const std::string& why, std::chrono::milliseconds wait) {
    fmt::print(out, "{}; asking again in {:.0f} s\n", why, std::chrono::duration<double>(wait).count());
    std::fflush(out);
  };
  auto remote =
      std::make_unique<board::RemoteJobs>(o.server, board::WorkerToken::parse(o.token.read()), options);
  for (const auto& d : remote->deliver_kept())
    fmt::print(out, "job {}, played earlier: {}\n", d.job,
               d.refusal.empty() ? "run " + std::to_string(d.run) : d.refusal);
  w.jobs = std::move(remote);
  return w;
}

}  // namespace detail

inline int run_work(const WorkCommandOptions& o, std::FILE* out = stdout) {
  return detail::guarded(out, [&] {
    // An unknown class is refused here, so that no job fails for it. Training has the same classes as the
    // other benchmarks; quick and race are not for boards.
    (void)judge::training_class_named(o.run_class);
    sandbox::require(sandbox::probe(), sandbox::Level::basic);
    const detail::WorkerJobs from = detail::worker_jobs(o, out);
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
    while (const auto done = board::work_once(*from.jobs, options)) {
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
