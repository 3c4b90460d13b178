// System calls that an untrusted program may make: a seccomp filter, written as a list of rules and assembled
// to the kernel's bytecode (classic BPF).
//
// The rules list the denied calls, not the allowed ones: compilers and GPU drivers use several hundred calls,
// and files, network and other processes are protected by other means. A call that no honest program makes
// ends the program. A call that libraries try, but do not depend on, fails with an errno that they handle.
#pragma once

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace tinymlperf::sandbox {

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
#error "the sandbox's filter of system calls supports x86_64 and aarch64"
#endif

using Program = std::vector<sock_filter>;

// A rule: the action for a system call, optionally under a condition on one of its arguments.
struct Rule {
  enum class When { always, equal, not_equal, any_bit };
  uint32_t call = 0;
  uint32_t action = SECCOMP_RET_KILL_PROCESS;
  When when = When::always;
  unsigned argument = 0;
  uint32_t value = 0;  // compared with the argument's lower 32 bits, since the kernel reads an int there
};

struct FilterOptions {
  bool may_gpu = false;
  // Needed without a PID namespace: a process may signal, and change the priority of, itself only.
  bool guard_processes = false;
  // Needed without a read-only file system: owners, modes and times of files may not be changed by path, for
  // which Landlock has no rule.
  bool guard_metadata = false;
  uint32_t own_pid = 0;  // for guard_processes
};

namespace detail {

constexpr uint32_t fail_with(int error) { return SECCOMP_RET_ERRNO | static_cast<uint32_t>(error); }

// Numbers of calls that the headers of the oldest supported system lack; they are the same on x86_64 and
// aarch64.
constexpr uint32_t kFchmodat2 = 452, kMemfdSecret = 447, kQuotactlFd = 443, kMountSetattr = 442,
                   kProcessMadvise = 440, kPidfdGetfd = 438, kClone3 = 435, kPidfdSendSignal = 424,
                   kSetxattrat = 463, kRemovexattrat = 466, kOpenTreeAttr = 467, kFileSetattr = 469;

// Calls that no honest program makes. The first one ends the program, so that the verdict names it.
inline std::vector<uint32_t> attacks() {
  std::vector<uint32_t> calls = {SYS_ptrace,        SYS_process_vm_readv, SYS_process_vm_writev,
                                 SYS_bpf,           SYS_kexec_load,       SYS_init_module,
                                 SYS_finit_module,  SYS_delete_module,    SYS_reboot,
                                 SYS_swapon,        SYS_swapoff,          SYS_acct,
                                 SYS_settimeofday,  SYS_clock_settime,    SYS_adjtimex,
                                 SYS_clock_adjtime, SYS_sethostname,      SYS_setdomainname,
                                 SYS_pivot_root,    SYS_syslog,           SYS_vhangup,
                                 SYS_quotactl,      kQuotactlFd};
#ifdef SYS_kexec_file_load
  calls.push_back(SYS_kexec_file_load);
#endif
#ifdef __x86_64__
  calls.insert(calls.end(), {SYS_iopl, SYS_ioperm, SYS_modify_ldt, SYS_create_module, SYS_uselib});
#endif
  return calls;
}

// Calls that libraries try but do not depend on, and calls that create objects which outlive a process or
// escape its limits.
inline std::vector<uint32_t> refused() {
  return {SYS_keyctl,
          SYS_add_key,
          SYS_request_key,
          SYS_perf_event_open,
          SYS_userfaultfd,
          SYS_mount,
          SYS_umount2,
          SYS_open_tree,
          SYS_move_mount,
          SYS_fsopen,
          SYS_fsconfig,
          SYS_fsmount,
          SYS_fspick,
          kMountSetattr,
          kOpenTreeAttr,
          SYS_chroot,
          SYS_unshare,
          SYS_setns,
          SYS_shmget,
          SYS_msgget,
          SYS_semget,
          SYS_mq_open,
          SYS_open_by_handle_at,
          SYS_name_to_handle_at,
          SYS_fanotify_init,
          SYS_kcmp,
          kPidfdGetfd,
          kProcessMadvise,
          SYS_move_pages,
          SYS_migrate_pages,
          SYS_mknodat,
          SYS_timer_create};  // its signal could be SIGCONT, which would continue a held program
}

inline std::vector<uint32_t> changes_of_metadata() {
  std::vector<uint32_t> calls = {SYS_fchmodat,    kFchmodat2,       SYS_fchownat,     SYS_fchown,
                                 SYS_utimensat,   SYS_setxattr,     SYS_lsetxattr,    SYS_fsetxattr,
                                 SYS_removexattr, SYS_lremovexattr, SYS_fremovexattr, SYS_truncate,
                                 kSetxattrat,     kRemovexattrat,   kFileSetattr};
#ifdef __x86_64__
  calls.insert(calls.end(), {SYS_chmod, SYS_chown, SYS_lchown, SYS_utime, SYS_utimes, SYS_futimesat});
#endif
  return calls;
}

// All ways to SIGCONT, which would continue a program that the judge holds. A program that sends it, or asks
// for it as the signal of a child's end, is ended. The kernel also sends it to a stopped process group that
// loses its last tie to its session, so there is one group in each session.
inline void add_hold_guards(std::vector<Rule>& rules) {
  using When = Rule::When;
  constexpr uint32_t kContinue = 18, kOtherThanChild = 0xEE;  // bits that SIGCHLD, 17, does not have
  for (const auto& [call, argument] : {std::pair{uint32_t{SYS_kill}, 1u},
                                       {uint32_t{SYS_tkill}, 1u},
                                       {uint32_t{SYS_tgkill}, 2u},
                                       {uint32_t{SYS_rt_sigqueueinfo}, 1u},
                                       {uint32_t{SYS_rt_tgsigqueueinfo}, 2u},
                                       {kPidfdSendSignal, 1u}})
    rules.push_back({call, SECCOMP_RET_KILL_PROCESS, When::equal, argument, kContinue});
  rules.push_back({SYS_clone, SECCOMP_RET_KILL_PROCESS, When::any_bit, 0, kOtherThanChild});
  constexpr uint32_t kParentDeathSignal = 1;  // PR_SET_PDEATHSIG
  rules.push_back({SYS_prctl, fail_with(EPERM), When::equal, 0, kParentDeathSignal});
  rules.push_back({SYS_setpgid, fail_with(EPERM)});
}

// Channels between two contenders through what both may open, such as /dev/null or a library: locks and
// leases of files, and news of who opens them.
inline void add_channel_guards(std::vector<Rule>& rules) {
  const uint32_t no_locks = fail_with(ENOLCK);
  rules.push_back({SYS_flock, no_locks});
  constexpr uint32_t kSetLock = 6, kWaitForLock = 7, kSetOpenFileLock = 37, kWaitForOpenFileLock = 38,
                     kSetLease = 1024, kNotify = 1026;
  for (const uint32_t command :
       {kSetLock, kWaitForLock, kSetOpenFileLock, kWaitForOpenFileLock, kSetLease, kNotify})
    rules.push_back({SYS_fcntl, no_locks, Rule::When::equal, 1, command});
  rules.push_back({SYS_inotify_init1, fail_with(EPERM)});
#ifdef __x86_64__
  rules.push_back({SYS_inotify_init, fail_with(EPERM)});
#endif
}

inline void add_process_guards(std::vector<Rule>& rules, uint32_t own_pid) {
  using When = Rule::When;
  const uint32_t denied = fail_with(EPERM);
  rules.push_back({SYS_setsid, denied});  // the keeper reaches the program's group alone
  // raise() and abort() send to their own process, kill(0) to the process group, which is the program's own.
  rules.push_back({SYS_kill, denied, When::not_equal, 0, 0});
  rules.push_back({SYS_tgkill, denied, When::not_equal, 0, own_pid});
  for (const uint32_t call : {uint32_t{SYS_tkill}, uint32_t{SYS_rt_sigqueueinfo},
                              uint32_t{SYS_rt_tgsigqueueinfo}, kPidfdSendSignal})
    rules.push_back({call, denied});
  for (const int call :
       {SYS_sched_setaffinity, SYS_sched_setscheduler, SYS_sched_setparam, SYS_sched_setattr})
    rules.push_back({static_cast<uint32_t>(call), denied, When::not_equal, 0, 0});
  rules.push_back({SYS_setpriority, denied, When::not_equal, 1, 0});
  rules.push_back({SYS_ioprio_set, denied, When::not_equal, 1, 0});
}

}  // namespace detail

inline std::vector<Rule> rules(const FilterOptions& options) {
  using When = Rule::When;
  constexpr uint32_t kNewNamespaces =
      0x7E020000;  // CLONE_NEW{USER,PID,NET,IPC,UTS,CGROUP,NS}; NEWTIME only in unshare()
  constexpr uint32_t kAfUnix = 1;
  const uint32_t denied = detail::fail_with(EPERM);
  std::vector<Rule> out;
  for (const uint32_t call : detail::attacks()) out.push_back({call});
  for (const uint32_t call : detail::refused()) out.push_back({call, denied});
  // With ENOSYS a library falls back to an older call, whose arguments the filter can inspect.
  for (const uint32_t call : {detail::kClone3, uint32_t{SYS_io_uring_setup}, uint32_t{SYS_io_uring_enter},
                              uint32_t{SYS_io_uring_register}})
    out.push_back({call, detail::fail_with(ENOSYS)});
  out.push_back({SYS_clone, denied, When::any_bit, 0, kNewNamespaces});
  detail::add_hold_guards(out);
  constexpr uint32_t kSetSignal = 10;  // F_SETSIG: the signal of a ready file could be SIGCONT, too
  out.push_back({SYS_fcntl, denied, When::equal, 1, kSetSignal});
  out.push_back({SYS_socketpair, denied, When::not_equal, 0, kAfUnix});
  // A GPU's driver passes file descriptors to itself through a Unix socket, which is local to the machine.
  if (options.may_gpu) {
    out.push_back({SYS_socket, denied, When::not_equal, 0, kAfUnix});
  } else {
    out.push_back({SYS_socket, denied});
  }
  // 0xffffffff only queries; other values could turn off address space layout randomization, for example.
  out.push_back({SYS_personality, denied, When::not_equal, 0, 0xffffffff});
  out.push_back({SYS_prlimit64, denied, When::not_equal, 0, 0});           // of other processes
  for (const uint32_t request : {uint32_t{TIOCSTI}, uint32_t{TIOCLINUX}})  // insert input into a terminal
    out.push_back({SYS_ioctl, denied, When::equal, 1, request});
  // The limit on the address space does not count memory of a memfd file, and nobody sees files that are on
  // their way through a socket.
  if (!options.may_gpu) detail::add_channel_guards(out);  // a GPU's driver locks files of its own
  if (!options.may_gpu)
    for (const int call : {SYS_memfd_create, SYS_sendmsg, SYS_sendmmsg})
      out.push_back({static_cast<uint32_t>(call), denied});
  out.push_back({detail::kMemfdSecret, denied});
  if (options.guard_metadata)
    for (const uint32_t call : detail::changes_of_metadata()) out.push_back({call, denied});
  if (options.guard_processes) detail::add_process_guards(out, options.own_pid);
  return out;
}

// Assembles the bytecode: it kills calls of other architectures, has one block for each rule, and allows all
// other calls. Each block loads the values that it compares, so rules may have any order and jumps stay
// within a block.
inline Program assemble(const std::vector<Rule>& rules) {
  const auto load = [](size_t offset) {
    return sock_filter{BPF_LD | BPF_W | BPF_ABS, 0, 0, static_cast<uint32_t>(offset)};
  };
  const auto jump = [](unsigned test, uint32_t value, uint8_t if_true, uint8_t if_false) {
    return sock_filter{static_cast<uint16_t>(BPF_JMP | BPF_K | test), if_true, if_false, value};
  };
  const auto give = [](uint32_t action) { return sock_filter{BPF_RET | BPF_K, 0, 0, action}; };
  constexpr size_t kCall = offsetof(seccomp_data, nr), kArguments = offsetof(seccomp_data, args);

  Program out = {load(offsetof(seccomp_data, arch)), jump(BPF_JEQ, kArchitecture, 1, 0),
                 give(SECCOMP_RET_KILL_PROCESS), load(kCall)};
#ifdef __x86_64__
  constexpr uint32_t kX32 = 0x40000000;  // in the x32 ABI every call has a second number
  out.push_back(jump(BPF_JGE, kX32, 0, 1));
  out.push_back(give(SECCOMP_RET_KILL_PROCESS));
#endif
  for (const Rule& rule : rules) {
    if (rule.when == Rule::When::always) {
      out.insert(out.end(), {jump(BPF_JEQ, rule.call, 0, 1), give(rule.action)});
      continue;
    }
    const unsigned test = rule.when == Rule::When::any_bit ? BPF_JSET : BPF_JEQ;
    const bool inverted = rule.when == Rule::When::not_equal;
    // Both architectures are little-endian, so the lower 32 bits of an argument come first.
    out.insert(out.end(),
               {jump(BPF_JEQ, rule.call, 0, 4), load(kArguments + 8 * rule.argument),
                jump(test, rule.value, inverted ? 1 : 0, inverted ? 0 : 1), give(rule.action), load(kCall)});
  }
  out.push_back(give(SECCOMP_RET_ALLOW));
  return out;
}

}  // namespace tinymlperf::sandbox
