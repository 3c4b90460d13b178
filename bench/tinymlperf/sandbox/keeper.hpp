// The keeper: a supervisor process between the judge and an untrusted program. Its end ends the whole run.
//
//   judge ── fork ──> keeper ── fork ──> the program ──> processes that it starts
//
// In a PID namespace the keeper is process 1: when it ends, the kernel kills all others. Elsewhere it adopts
// all orphans and kills processes until none is left. It ends when the program exits, and when the judge
// closes the control pipe or dies. Through this pipe the judge can also stop and continue all processes of
// the run, so that they do not run during another contender's turn. Between fork and exec both processes make
// system calls only (steps.hpp).
#pragma once

#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <tinymlperf/sandbox/plan.hpp>
#include <tinymlperf/sandbox/priority.hpp>

namespace tinymlperf::sandbox {

// The keeper's only message to the judge: why the program could not be started, or how it ended.
struct Report {
  Failure failure;
  int32_t status = 0;  // of wait()
  int32_t killed = 0;  // processes that were alive after the program's end, or when the judge stopped the run
  int32_t survivors = 0;
  int64_t cpu_microseconds = 0;
  int64_t peak_kilobytes = 0;   // resident memory of the largest process
  int64_t image_kilobytes = 0;  // of the keeper, which is a copy of the judge, like the program before exec
};

// File descriptors of the keeper, with the numbers that arrange_files() gives them. The program keeps three.
struct KeeperFiles {
  static constexpr int kReport = 3, kControl = 4, kCgroup = 5, kLandlock = 6, kDone = 7;
  std::array<int, 8> files{-1, -1, -1, -1, -1, -1, -1, -1};
};

// Commands of the judge on the control pipe. The keeper answers with the same letter when the command is
// done. The end of the pipe means: end all processes.
constexpr char kHold = 'h', kResume = 'r';

namespace steps {

// Adds a rule for each path of the plan and applies the rules. It runs in the program's own process, since
// /proc/self depends on the caller.
inline Failure restrict_files(const Plan& plan, int rules) {
  for (size_t i = 0; i < plan.grants.size(); ++i) {
    const Grant& grant = plan.grants[i];
    if (!landlock::allow(rules, plan.offers.landlock, grant.path.c_str(), grant.rights))
      return failed(Step::grant, static_cast<int32_t>(i));
  }
  return landlock::apply(rules) ? Failure{} : failed(Step::landlock);
}

// All steps of the program's process until exec. Returns only on failure.
inline Failure become_program(Plan& plan, const KeeperFiles& files) {
  if (setsid() < 0) return failed(Step::session);
  if (files.files[KeeperFiles::kCgroup] >= 0 && write(KeeperFiles::kCgroup, "0", 1) != 1)
    return failed(Step::cgroup);
  Failure failure;
  if (plan.real_time && (failure = raise_priority(kProgramLevel))) return failure;
  if (plan.user && (failure = become(plan.user))) return failure;
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);  // after become(), since a change of user clears it
  for (const Limit& one : plan.limits)
    if ((failure = limit(one.resource, one.soft, one.hard))) return failure;
  umask(022);
  if (chdir(plan.work.c_str()) != 0) return failed(Step::folder);
  if ((failure = give_up_privileges())) return failure;
  if (files.files[KeeperFiles::kLandlock] >= 0 && (failure = restrict_files(plan, KeeperFiles::kLandlock)))
    return failure;
  const auto own = static_cast<uint32_t>(syscall(SYS_getpid));
  for (const size_t at : plan.own_pid_at) plan.filter[at].k = own;
  if (plan.offers.seccomp && (failure = install(plan.filter.data(), plan.filter.size()))) return failure;
  execve(plan.arguments[0], plan.arguments.data(), plan.variables.data());
  return failed(Step::exec);
}

// Sends SIGKILL to each child of the caller, found in the kernel's list of children.
inline void kill_children() {
  const int file = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  char text[4096];
  pid_t number = 0;
  for (ssize_t got; (got = read(file, text, sizeof text)) > 0;)
    for (ssize_t i = 0; i < got; ++i) {
      if (text[i] >= '0' && text[i] <= '9') {
        number = number * 10 + (text[i] - '0');
      } else {
        if (number > 1) kill(number, SIGKILL);
        number = 0;
      }
    }
  close(file);
}

// Kills the processes that are left and waits for their end. The children of a killed process become the
// keeper's, so this is repeated; the limit on processes bounds the number of rounds.
inline void clear_out(pid_t program, bool own_namespace, Report& report) {
  for (int round = 0; round < 5000; ++round) {
    if (own_namespace) {
      kill(-1, SIGKILL);
    } else {
      // Kills the whole process group at once, before a process in it can fork again. Processes that left the
      // group are found as orphans. Only in the first round, since the number may be reused.
      if (round == 0) kill(-program, SIGKILL);
      kill_children();
    }
    int status = 0;
    pid_t gone = 0;
    while ((gone = waitpid(-1, &status, WNOHANG)) > 0) {
      if (gone == program) report.status = status;
      if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) ++report.killed;
    }
    if (gone < 0) return;  // no child is left
    usleep(1000);
  }
  report.survivors = 1;
}

// Executes a command of the judge; returns false at the end of the control pipe. Without a PID namespace all
// processes are in the program's group, which the filter of system calls lets none of them leave.
inline bool obey(pid_t program, bool own_namespace, bool& held) {
  char word = 0;
  ssize_t got = read(KeeperFiles::kControl, &word, 1);
  if (got == 1) {
    held = word == kHold;
    kill(own_namespace ? -1 : -program, held ? SIGSTOP : SIGCONT);
    got = write(KeeperFiles::kDone, &word, 1);
  }
  return got == 1 || (got < 0 && errno == EINTR);
}

// Returns when the program has ended or the judge ends the run.
inline void watch(pid_t program, bool own_namespace, Report& report) {
  constexpr long kPidfdOpen = 434;
  // Kernels before 5.3 lack it, and then the program's end is noticed up to ten milliseconds late.
  const int end = static_cast<int>(syscall(kPidfdOpen, program, 0U));
  bool held = false;
  for (;;) {
    pollfd events[2] = {{KeeperFiles::kControl, POLLIN, 0}, {end, POLLIN, 0}};
    poll(events, 2, end < 0 ? 10 : 100);
    int status = 0;
    // Orphans that have ended count toward the limit on processes until waitpid() returns them. While the run
    // is held they stay, with their clocks, which would show that they ran.
    for (pid_t gone; (gone = waitpid(held ? program : -1, &status, WNOHANG)) > 0;)
      if (gone == program) {
        report.status = status;
        return;
      }
    if (events[0].revents && !obey(program, own_namespace, held)) return;
  }
}

}  // namespace steps

// Sets up the keeper's own process. `own_namespace` becomes true if it is process 1 of a PID namespace.
inline Failure become_keeper(const Plan& plan, KeeperFiles& files, bool& own_namespace) {
  Failure failure = steps::arrange_files(files.files, 3);
  steps::reset_signals();
  signal(SIGPIPE, SIG_IGN);  // the control pipe shows when the judge has died
  if (failure) return failure;
  if (setsid() < 0) return steps::failed(Step::session);
  // Asked of the system and not of the plan: in the judge's namespace kill(-1) would not only end the run.
  own_namespace = syscall(SYS_getpid) == 1;
  if (plan.offers.namespaces == Namespaces::user &&
      (failure = steps::map_user(plan.user_map.c_str(), plan.group_map.c_str())))
    return failure;
  if (own_namespace && plan.offers.read_only_root && (failure = steps::make_read_only(plan.work.c_str())))
    return failure;
  if (own_namespace && plan.offers.private_proc && (failure = steps::mount_proc())) return failure;
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  if (plan.real_time) return steps::raise_priority(kJudgeLevel);  // above the program, to be able to kill it
  return {};
}

[[noreturn]] inline void tell_and_exit(Report& report, const Failure& failure) {
  report.failure = failure;
  const ssize_t sent = write(KeeperFiles::kReport, &report, sizeof report);
  _exit(sent == sizeof report ? 0 : 1);
}

// The main function of the keeper, called in the forked process.
[[noreturn]] inline void keep(Plan& plan, KeeperFiles& files) {
  Report report;
  bool own_namespace = false;
  if (const Failure failure = become_keeper(plan, files, own_namespace)) tell_and_exit(report, failure);
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  report.image_kilobytes = used.ru_maxrss;
  const pid_t program = steps::fork_into(Namespaces::none);
  if (program < 0) tell_and_exit(report, steps::failed(Step::fork));
  if (program == 0) {
    signal(SIGPIPE, SIG_DFL);
    tell_and_exit(report, steps::become_program(plan, files));
  }
  for (const int file : {0, 1, 2, KeeperFiles::kCgroup, KeeperFiles::kLandlock})
    close(file);  // otherwise the judge would never see the end of the pipes
  steps::watch(program, own_namespace, report);
  steps::clear_out(program, own_namespace, report);
  getrusage(RUSAGE_CHILDREN, &used);
  report.cpu_microseconds =
      (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000 + used.ru_utime.tv_usec + used.ru_stime.tv_usec;
  report.peak_kilobytes = used.ru_maxrss;
  tell_and_exit(report, {});
}

}  // namespace tinymlperf::sandbox
