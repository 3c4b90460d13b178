// Runs an untrusted program (a compiler on submitted code, or a plugin of tier T2) isolated and with limits.
// This protects against accidents, pranks and cheats in a classroom, not against exploits of the kernel or a
// GPU's driver. The judge's own values are out of reach because they are in another process.
//
//   policy.hpp    permissions, outcome of a run     plan.hpp      data prepared before the fork
//   filter.hpp    system calls (seccomp)            priority.hpp  real-time priority
//   landlock.hpp  files (Landlock)                  keeper.hpp    the supervisor process
//   cgroup.hpp    all processes (cgroup v2)         process.hpp   a running program
//   steps.hpp     steps between fork and exec       process_tree.hpp  its processes
//   probe.hpp     what this machine offers          usage_watch.hpp   what they use together
//   sandbox.hpp   run(): the whole run of a program
#pragma once

#include <poll.h>
#include <sys/mman.h>

#include <algorithm>
#include <tinymlperf/sandbox/process.hpp>
#include <tinymlperf/sandbox/usage_watch.hpp>

namespace tinymlperf::sandbox {

// Collects the text that a program writes to a pipe, up to a limit that several pipes share.
class Capture {
 public:
  Capture() : pipe_() { fcntl(pipe_.read.number(), F_SETFL, O_NONBLOCK); }
  int target() const { return pipe_.write.number(); }
  void started() { pipe_.write.reset(); }
  int file() const { return pipe_.read.number(); }  // for poll(); -1 after the end of the pipe
  // Reads the bytes that are available and subtracts their number from `room`. Returns false beyond it.
  bool take(int64_t& room) {
    char bytes[16384];
    for (ssize_t got; file() >= 0;) {
      got = read(file(), bytes, sizeof bytes);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return true;  // nothing is available now
      if (got == 0) pipe_.read.reset();
      const auto kept = std::min<int64_t>(got, room);
      text.append(bytes, static_cast<size_t>(kept));
      room -= kept;
      if (kept < got) return false;
    }
    return true;
  }
  std::string text;

 private:
  Pipe pipe_;
};

namespace detail {

// True if the error output says that memory ran out, as most programs do before they end for this reason.
inline bool tells_of_memory(const std::string& err) {
  for (const char* words : {"bad_alloc", "annot allocate memory", "ut of memory", "emory exhausted"})
    if (err.find(words) != std::string::npos) return true;
  return false;
}

// Determines how the run ended, from the judge's reason to stop it, the keeper's report and the cgroup's
// counts.
inline void judge_ending(Outcome& out, Ending stopped, const Report& report, const Policy& policy,
                         const Cgroup& cgroup) {
  const bool exited = WIFEXITED(report.status);
  if (exited) out.exit_code = WEXITSTATUS(report.status);
  if (WIFSIGNALED(report.status)) out.signal = WTERMSIG(report.status);
  const bool bad = out.signal != 0 || out.exit_code != 0;
  const bool crowded = cgroup.processes_ran_out() || report.killed + 1 >= policy.processes;
  out.ending = exited ? Ending::exited : Ending::signalled;
  if (stopped != Ending::exited) {
    out.ending = stopped == Ending::time && crowded ? Ending::processes : stopped;
    out.signal = 0;  // the keeper's own SIGKILL
    out.exit_code = -1;
  } else if (out.signal == SIGSYS) {
    out.ending = Ending::syscalls;
  } else if (cgroup.memory_ran_out() || (bad && tells_of_memory(out.err))) {
    out.ending = Ending::memory;
  } else if (out.signal == SIGXCPU || (out.signal == SIGKILL && out.cpu_seconds >= policy.cpu_seconds)) {
    out.ending = Ending::time;
  } else if (out.signal == SIGXFSZ) {
    out.ending = Ending::files;
  } else if (bad && crowded) {
    out.ending = Ending::processes;
  }
}

inline std::string megabytes(int64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

inline std::string reason(const Outcome& out, const Policy& policy) {
  char seconds[64];
  snprintf(seconds, sizeof seconds, "%.3g s of CPU time or %.3g s of wall-clock time", policy.cpu_seconds,
           policy.wall_seconds);
  switch (out.ending) {
    case Ending::exited:
      return "the process exited with code " + std::to_string(out.exit_code);
    case Ending::signalled:
      return "the process was ended by signal " + std::to_string(out.signal) + " (" + strsignal(out.signal) +
             ")";
    case Ending::time:
      return std::string("the process took more than ") + seconds;
    case Ending::memory:
      return "the process asked for more than " + megabytes(policy.memory_bytes) + " of memory";
    case Ending::output:
      return "the process wrote more than " + megabytes(policy.output_bytes) + " to its output";
    case Ending::files:
      return "the process wrote a file of more than " + megabytes(policy.file_bytes) + ", or more than " +
             megabytes(policy.work_bytes) + " or 20000 files in all";
    case Ending::processes:
      return "the process reached the limit of " + std::to_string(policy.processes) +
             " processes and threads";
    case Ending::syscalls:
      return "the process made a system call that no submission needs";
    case Ending::stopped:
      return "the judge stopped the process";
    case Ending::not_started:
      break;
  }
  return out.reason;
}

}  // namespace detail

// Waits for the end of the process and fills in its outcome. `stopped` is the reason for which the judge
// stops it, or Ending::exited if it ended by itself. `seen_bytes` is the peak that the judge has seen.
inline void conclude(Outcome& out, Process& process, Ending stopped, const Policy& policy,
                     int64_t seen_bytes) {
  if (stopped != Ending::exited) process.stop();
  const Report report = process.wait();
  out.wall_seconds = seconds_since(process.start());
  out.cpu_seconds = process.cgroup().present() ? process.cgroup().cpu_seconds()
                                               : static_cast<double>(report.cpu_microseconds) * 1e-6;
  out.left_behind = report.killed - (stopped != Ending::exited && report.killed > 0 ? 1 : 0);
  out.peak_bytes = process.cgroup().peak_bytes();
  if (out.peak_bytes == 0) {
    // The system's own number begins before exec, when the program was a copy of the judge.
    constexpr int64_t kCopied = 1024;  // kilobytes that the copy may have had more than the keeper
    const bool is_own = report.peak_kilobytes > report.image_kilobytes + kCopied;
    out.peak_bytes = std::max(seen_bytes, is_own || seen_bytes == 0 ? report.peak_kilobytes * 1024 : 0);
    out.peak_is_bound = seen_bytes == 0 && !is_own;
  }
  if (report.failure) {
    out.ending = Ending::not_started;
    out.reason = process.explain(report.failure);
    return;
  }
  detail::judge_ending(out, stopped, report, policy, process.cgroup());
  out.reason = detail::reason(out, policy);
}

// Runs a program to its end, with `input` as its standard input. Throws Unavailable (policy.hpp) if the
// program cannot be run here; everything that the program does is an Outcome.
inline Outcome run(const std::vector<std::string>& command, const Policy& policy, const Offers& offers,
                   const std::string& input = "") {
  // The input is a file in memory and not a pipe, since a program that never reads would block a pipe.
  const File in(memfd_create("input", MFD_CLOEXEC));
  if (write(in.number(), input.data(), input.size()) != static_cast<ssize_t>(input.size()) ||
      lseek(in.number(), 0, SEEK_SET) != 0)
    throw Unavailable(std::string("cannot prepare the program's input: ") + strerror(errno));
  Capture out, err;
  Process process(command, policy, offers, in.number(), out.target(), err.target());
  out.started();
  err.started();
  Outcome outcome;
  Ending stopped = Ending::exited;
  int64_t room = policy.output_bytes;
  UsageWatch usage(policy);
  for (bool running = true; running && stopped == Ending::exited;) {
    pollfd events[3] = {{process.report_file(), POLLIN, 0}, {out.file(), POLLIN, 0}, {err.file(), POLLIN, 0}};
    const double now = seconds_since(process.start());
    const double left = std::min(policy.wall_seconds - now, 0.1);
    poll(events, 3, left > 0 ? static_cast<int>(left * 1000) + 1 : 0);
    running = events[0].revents == 0;
    if (!out.take(room) || !err.take(room))
      stopped = Ending::output;
    else if (running && now >= policy.wall_seconds)
      stopped = Ending::time;
    else if (running)
      stopped = usage.look(process);
  }
  outcome.output_complete = stopped != Ending::output;
  outcome.out = std::move(out.text);
  outcome.err = std::move(err.text);
  conclude(outcome, process, stopped, policy, usage.peak_bytes());
  return outcome;
}

}  // namespace tinymlperf::sandbox
