// The steps between fork and exec of an untrusted program. Each is a function that returns where it failed.
//
// They run in a copy of a process that may have had many threads, so they make system calls only: they
// allocate no memory, throw no exception and take no lock. Their data has been prepared before (plan.hpp).
#pragma once

#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <tinymlperf/sandbox/filter.hpp>
#include <tinymlperf/sandbox/landlock.hpp>

namespace tinymlperf::sandbox {

// The steps, for error messages.
enum class Step : int32_t {
  none,
  fork,
  files,
  session,
  user_map,
  read_only,
  proc,
  cgroup,
  priority,
  user,
  limits,
  folder,
  privileges,
  landlock,
  grant,
  seccomp,
  exec
};

inline const char* to_text(Step step) {
  constexpr const char* kNames[] = {"",
                                    "start a process",
                                    "set up the open files",
                                    "create a session",
                                    "map the user into a namespace",
                                    "make the file system read-only",
                                    "mount a private /proc",
                                    "enter the cgroup",
                                    "raise the scheduling priority",
                                    "change to a user of its own",
                                    "set the limits",
                                    "enter the work folder",
                                    "give up privileges",
                                    "apply the Landlock rules",
                                    "grant access to",
                                    "install the filter of system calls",
                                    "start the program"};
  return kNames[static_cast<size_t>(step)];
}

struct Failure {
  Step step = Step::none;
  int32_t error = 0;   // errno
  int32_t detail = 0;  // of Step::grant: the number of the path
  explicit operator bool() const { return step != Step::none; }
};

// The way in which PID, network, mount, IPC and UTS namespaces are created: not at all, with the rights of
// root, or within a user namespace.
enum class Namespaces { none, privileged, user };

constexpr uint64_t kNamespaceFlags = CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS;

namespace steps {

inline Failure failed(Step step, int32_t detail = 0) { return {step, errno, detail}; }

// Forks into new namespaces, without the handlers of pthread_atfork().
inline pid_t fork_into(Namespaces namespaces) {
  uint64_t flags = SIGCHLD;
  if (namespaces != Namespaces::none) flags |= kNamespaceFlags;
  if (namespaces == Namespaces::user) flags |= CLONE_NEWUSER;
  return static_cast<pid_t>(syscall(SYS_clone, flags, nullptr, nullptr, nullptr, nullptr));
}

// Moves the given file descriptors to 0, 1, 2, ... and closes all others. Those from `first_private` on are
// closed by exec.
template <size_t N>
Failure arrange_files(std::array<int, N>& files, int first_private) {
  for (int& file : files)  // first to high numbers, so that no target overwrites a source
    if (file >= 0 && (file = fcntl(file, F_DUPFD_CLOEXEC, 100)) < 0) return failed(Step::files);
  for (size_t i = 0; i < N; ++i) {
    const int target = static_cast<int>(i);
    close(target);
    if (files[i] >= 0 && dup3(files[i], target, target < first_private ? 0 : O_CLOEXEC) < 0)
      return failed(Step::files);
    files[i] = files[i] < 0 ? -1 : target;
  }
  if (syscall(SYS_close_range, static_cast<unsigned>(N), ~0U, 0U) == 0) return {};
  rlimit most{};  // kernels before 5.9
  if (getrlimit(RLIMIT_NOFILE, &most) != 0) return failed(Step::files);
  const rlim_t last = most.rlim_cur < 65536 ? most.rlim_cur : 65536;
  for (int file = static_cast<int>(N); file < static_cast<int>(last); ++file) close(file);
  return {};
}

// Resets all signal handlers and the signal mask, which are copies of the judge's.
inline void reset_signals() {
  struct sigaction plain {};
  plain.sa_handler = SIG_DFL;
  for (int signal = 1; signal < 65; ++signal) sigaction(signal, &plain, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

inline bool write_text(const char* path, const char* text) {
  const int file = open(path, O_WRONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool good = write(file, text, strlen(text)) == static_cast<ssize_t>(strlen(text));
  const int error = errno;
  close(file);
  errno = error;
  return good;
}

// Writes the id maps of a user namespace. The texts have the form "inside outside 1".
inline Failure map_user(const char* user, const char* group) {
  const bool good = (write_text("/proc/self/setgroups", "deny") || errno == ENOENT) &&
                    write_text("/proc/self/uid_map", user) && write_text("/proc/self/gid_map", group);
  return good ? Failure{} : failed(Step::user_map);
}

// Makes all mounts of a new mount namespace read-only, except for the work folder. Landlock denies writes
// outside of this folder; read-only mounts also deny changes of owner, mode and times. /dev/shm becomes the
// work folder, since LLVM's OpenMP ends a program that cannot create shared memory.
inline Failure make_read_only(const char* work) {
  struct Attributes {  // the kernel's struct mount_attr
    uint64_t set = 0, clear = 0, propagation = 0, user = 0;
  };
  constexpr uint64_t kReadOnly = 1, kNoSetUid = 2;
  constexpr unsigned kRecursive = 0x8000;  // AT_RECURSIVE
  const Attributes all{kReadOnly | kNoSetUid}, open_again{0, kReadOnly};
  const bool good = mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                    mount(work, work, nullptr, MS_BIND, nullptr) == 0 &&
                    syscall(detail::kMountSetattr, AT_FDCWD, "/", kRecursive, &all, sizeof all) == 0 &&
                    syscall(detail::kMountSetattr, AT_FDCWD, work, 0U, &open_again, sizeof open_again) == 0 &&
                    (mount(work, "/dev/shm", nullptr, MS_BIND, nullptr) == 0 || errno == ENOENT);
  return good ? Failure{} : failed(Step::read_only);
}

// Mounts a /proc that shows the processes of the new PID namespace only.
inline Failure mount_proc() {
  const bool good = mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) == 0;
  return good ? Failure{} : failed(Step::proc);
}

// Selects the real-time round-robin schedule (SCHED_RR), which runs before all ordinary programs. A process
// with a higher level runs before those with a lower one.
inline Failure raise_priority(int level) {
  const sched_param wished{level};
  return syscall(SYS_sched_setscheduler, 0, SCHED_RR, &wished) == 0 ? Failure{} : failed(Step::priority);
}

// Changes from root to a user who owns the work folder only, and thereby drops all capabilities. The
// functions of the C library would change all threads and might wait for a thread that the judge was starting
// when it forked, and that does not exist in this process.
inline Failure become(uid_t user) {
  const bool good = syscall(SYS_setgroups, 0, nullptr) == 0 &&
                    syscall(SYS_setresgid, user, user, user) == 0 &&
                    syscall(SYS_setresuid, user, user, user) == 0;
  return good ? Failure{} : failed(Step::user);
}

inline Failure limit(int resource, int64_t soft, int64_t hard) {
  rlimit now{};
  if (getrlimit(static_cast<__rlimit_resource>(resource), &now) != 0) return failed(Step::limits);
  const auto lower = [&](int64_t wish) {
    return static_cast<rlim_t>(wish) < now.rlim_max ? static_cast<rlim_t>(wish) : now.rlim_max;
  };
  const rlimit wished{lower(soft), lower(hard)};
  return setrlimit(static_cast<__rlimit_resource>(resource), &wished) == 0 ? Failure{} : failed(Step::limits);
}

inline Failure give_up_privileges() {
  const bool good = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0;
  return good ? Failure{} : failed(Step::privileges);
}

inline Failure install(sock_filter* filter, size_t instructions) {
  const sock_fprog program{static_cast<unsigned short>(instructions), filter};
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0 ? Failure{} : failed(Step::seccomp);
}

}  // namespace steps

}  // namespace tinymlperf::sandbox
