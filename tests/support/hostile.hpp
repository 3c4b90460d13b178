// Attacks for the tests of the judge's sandbox. The test's own executable is started again with `--child
// <name> ...`. Each name is one attack, which runs before main() and exits with its result.
//
// Exit code 0: every attempt was denied. Another code is the number of the attempt that succeeded.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <string_view>
#include <vector>

namespace hostile {

using Arguments = std::vector<std::string>;

inline pid_t number(const Arguments& args, size_t i) {
  return static_cast<pid_t>(std::atol(args.at(i).c_str()));
}

inline int loop(const Arguments&) {
  for (volatile int stop = 0; !stop;) continue;
  return 1;
}

inline int sleep_long(const Arguments&) {
  for (;;) pause();
}

inline int fork_bomb(const Arguments&) {
  for (;;)
    if (fork() < 0) usleep(1000);
}

// Allocates 100 GB at once, or writes to it piece by piece.
inline int memory(const Arguments& args) {
  if (args.at(0) == "once") {
    volatile char* all = new char[size_t{100} << 30];
    return all[0] ? 1 : 1;
  }
  std::vector<char*> pieces;
  for (int i = 0; i < 100 * 1024; ++i) {
    pieces.push_back(new char[1 << 20]);
    memset(pieces.back(), i, 1 << 20);
  }
  return 1;
}

inline int output(const Arguments& args) {
  const std::string line(4096, 'x');
  const int file = args.at(0) == "err" ? 2 : 1;
  while (write(file, line.data(), line.size()) > 0) {
  }
  return 0;
}

// Attempts to change a folder of the judge.
inline int write_outside(const Arguments& args) {
  const std::string folder = args.at(0), file = folder + "/secret", made = folder + "/made";
  if (open(made.c_str(), O_CREAT | O_WRONLY, 0644) >= 0) return 1;
  if (open(file.c_str(), O_WRONLY) >= 0) return 2;
  if (truncate(file.c_str(), 0) == 0) return 3;
  if (unlink(file.c_str()) == 0) return 4;
  if (mkdir(made.c_str(), 0755) == 0) return 5;
  if (symlink("/etc/passwd", made.c_str()) == 0) return 6;
  if (rename(file.c_str(), "stolen") == 0) return 7;
  if (link(file.c_str(), "linked") == 0 && open("linked", O_RDONLY) >= 0) return 8;
  if (chmod(file.c_str(), 0777) == 0) return 9;
  if (utimensat(AT_FDCWD, file.c_str(), nullptr, 0) == 0) return 10;
  if (setxattr(file.c_str(), "user.x", "y", 1, 0) == 0) return 11;
  if (mknod("device", S_IFCHR | 0666, 0x103) == 0) return 12;
  return open("inside", O_CREAT | O_WRONLY, 0644) >= 0 ? 0 : 100;
}

inline int read_outside(const Arguments& args) {
  const std::string secret = args.at(0) + "/secret";
  int attempt = 0;
  for (const std::string& path :
       {secret, std::string("/etc/shadow"), std::string("/etc/passwd"), std::string("/root"),
        std::string("/dev/mem"), "/proc/" + args.at(1) + "/environ", std::string("/proc/1/environ")}) {
    ++attempt;
    if (open(path.c_str(), O_RDONLY) >= 0) return attempt;
  }
  if (symlink(secret.c_str(), "link") == 0 && open("link", O_RDONLY) >= 0) return 20;
  if (chroot(".") == 0) return 21;
  return 0;
}

inline int network(const Arguments&) {
  int attempt = 0;
  for (const int domain : {AF_INET, AF_INET6, AF_UNIX, AF_NETLINK, AF_PACKET, 40 /* AF_VSOCK */}) {
    ++attempt;
    if (socket(domain, SOCK_STREAM, 0) >= 0 || socket(domain, SOCK_DGRAM, 0) >= 0) return attempt;
  }
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) return 100;  // within the process: harmless
  return 0;
}

// One system call per name; most of them end the program.
inline int system_call(const Arguments& args) {
  const std::string name = args.at(0);
  const pid_t judge = number(args, 1);
  const auto address = reinterpret_cast<void*>(std::strtoul(args.at(2).c_str(), nullptr, 16));
  char byte = 0;
  iovec here{&byte, 1}, there{address, 1};
  long got = -1;
  if (name == "ptrace") got = ptrace(PTRACE_ATTACH, judge, 0, 0);
  if (name == "process_vm_readv") got = process_vm_readv(judge, &here, 1, &there, 1, 0);
  if (name == "process_vm_writev") got = process_vm_writev(judge, &here, 1, &there, 1, 0);
  if (name == "bpf") got = syscall(SYS_bpf, 0, nullptr, 0);
  if (name == "reboot") got = syscall(SYS_reboot, 0, 0, 0, nullptr);
#ifdef __x86_64__
  if (name == "x32") got = syscall(0x40000000 + SYS_getpid);
#endif
  return got >= 0 ? 1 : 0;
}

inline int refused_calls(const Arguments&) {
  if (syscall(SYS_unshare, 0x10000000) == 0) return 1;
  if (syscall(SYS_clone, 0x10000000 | SIGCHLD, nullptr, nullptr, nullptr, nullptr) >= 0) return 2;
  if (syscall(435 /* clone3 */, nullptr, 0) >= 0 || errno != ENOSYS) return 3;
  if (syscall(SYS_io_uring_setup, 8, nullptr) >= 0 || errno != ENOSYS) return 4;
  if (syscall(SYS_perf_event_open, nullptr, 0, -1, -1, 0) >= 0 || errno != EPERM) return 5;
  if (syscall(SYS_userfaultfd, 0) >= 0 || errno != EPERM) return 6;
  if (syscall(SYS_add_key, "user", "x", "y", 1, -3) >= 0 || errno != EPERM) return 7;
  if (mount("none", ".", "tmpfs", 0, nullptr) == 0) return 8;
  if (syscall(SYS_memfd_create, "x", 0) >= 0) return 9;
  if (syscall(SYS_personality, 0x0040000) >= 0) return 10;
  if (syscall(SYS_shmget, 0, 4096, 0600) >= 0) return 11;
  if (setuid(0) == 0 && getuid() != 0) return 12;
  if (syscall(SYS_setns, 0, 0) >= 0 || errno != EPERM) return 13;
  if (fcntl(0, 10 /* F_SETSIG */, SIGCONT) == 0) return 14;
  int timer = 0;
  if (syscall(SYS_timer_create, 1, nullptr, &timer) == 0) return 15;
  return 0;
}

// POSIX shared memory, which OpenMP libraries use: it is created in the work folder, or denied.
inline int shared_memory(const Arguments& args) {
  const int memory = shm_open(args.at(0).c_str(), O_CREAT | O_EXCL | O_RDWR, 0600);
  if (memory < 0) return 1;
  return ftruncate(memory, 4096) == 0 && access(("." + args.at(0)).c_str(), F_OK) == 0 ? 0 : 2;
}

// Sends signals to the judge and changes its limits and priority. -1 means all processes.
inline int touch_judge(const Arguments& args) {
  const pid_t judge = number(args, 0), group = number(args, 1);
  if (kill(judge, SIGKILL) == 0) return 1;
  if (kill(-group, SIGKILL) == 0) return 2;
  if (syscall(SYS_tgkill, judge, judge, SIGKILL) == 0) return 3;
  const rlimit none{0, 0};
  if (prlimit(judge, RLIMIT_CPU, &none, nullptr) == 0) return 4;
  if (setpriority(PRIO_PROCESS, static_cast<id_t>(judge), 19) == 0) return 5;
  for (const char* name : {"mem", "environ", "maps"}) {
    const std::string path = "/proc/" + args.at(0) + "/" + name;
    if (open(path.c_str(), O_RDONLY) >= 0) return 6;
  }
  for (int file = 0; file < 64; ++file) {
    const std::string path = "/proc/" + args.at(0) + "/fd/" + std::to_string(file);
    if (open(path.c_str(), O_RDWR) >= 0) return 7;
  }
  kill(-1, SIGTERM);  // may reach own processes, but not the sender
  return 0;
}

inline int kill_group(const Arguments&) {
  kill(0, SIGKILL);  // its own process group, including itself
  return 1;
}

// A process that has left its group and session, and keeps a named pipe open as long as it exists.
inline int orphan(const Arguments&) {
  int ready[2];
  if (pipe(ready) != 0) return 1;
  if (fork() == 0) {
    setsid();
    if (fork() != 0) _exit(0);
    signal(SIGTERM, SIG_IGN);
    open("alive", O_RDWR);
    if (write(ready[1], "x", 1) != 1) _exit(1);
    for (;;) pause();
  }
  char byte;
  return read(ready[0], &byte, 1) == 1 ? 0 : 1;
}

// Looks for open file descriptors other than the three standard ones.
inline int inherited(const Arguments&) {
  for (int file = 3; file < 1024; ++file)
    if (fcntl(file, F_GETFD) >= 0) return file;
  return 0;
}

inline int environment(const Arguments&) {
  for (char** entry = environ; *entry; ++entry) puts(*entry);
  fflush(stdout);
  return 0;
}

inline int big_file(const Arguments&) {
  const int file = open("big", O_CREAT | O_WRONLY, 0644);
  const std::string block(1 << 20, 'x');
  while (write(file, block.data(), block.size()) > 0) {
  }
  return 1;
}

// Files that are each below the limit, but together above it.
inline int many_files(const Arguments&) {
  const std::string block(1 << 20, 'x');
  for (int i = 0;; ++i) {
    const int file = open(("part" + std::to_string(i)).c_str(), O_CREAT | O_WRONLY, 0644);
    if (file < 0 || write(file, block.data(), block.size()) < 0) return 1;
    close(file);
  }
}

inline int busy_family(const Arguments& args) {
  for (int i = 0; i < 4; ++i)
    if (fork() == 0) break;
  return loop(args);
}

// A sanitizer would handle this signal itself and then exit.
inline int crash() {
  signal(SIGSEGV, SIG_DFL);
  return raise(SIGSEGV);
}

inline int plain(const Arguments& args) {
  if (args.at(0) == "abort") abort();
  if (args.at(0) == "crash") return crash();
  if (args.at(0) == "echo") {
    char text[256];
    const ssize_t got = read(0, text, sizeof text);
    if (got > 0 && write(1, text, static_cast<size_t>(got)) != got) return 1;
    if (write(2, "to err\n", 7) != 7) return 1;
    return 7;
  }
  return 1;
}

struct Attack {
  const char* name;
  int (*run)(const Arguments&);
};

inline const std::vector<Attack>& attacks() {
  static const std::vector<Attack> all = {{"loop", loop},
                                          {"sleep", sleep_long},
                                          {"fork_bomb", fork_bomb},
                                          {"memory", memory},
                                          {"output", output},
                                          {"write_outside", write_outside},
                                          {"read_outside", read_outside},
                                          {"network", network},
                                          {"system_call", system_call},
                                          {"refused_calls", refused_calls},
                                          {"shared_memory", shared_memory},
                                          {"touch_judge", touch_judge},
                                          {"kill_group", kill_group},
                                          {"orphan", orphan},
                                          {"inherited", inherited},
                                          {"environment", environment},
                                          {"big_file", big_file},
                                          {"many_files", many_files},
                                          {"busy_family", busy_family},
                                          {"plain", plain}};
  return all;
}

// Call this in a constructor of the test program: [[gnu::constructor]] static void start(int argc, char**
// argv). A program may contain several tests that do so; main() rejects a name that none of them has.
inline void maybe_perform(int argc, char** argv, const std::vector<Attack>& own = {}) {
  if (argc < 3 || strcmp(argv[1], "--child") != 0) return;
  for (const auto* list : {&own, &attacks()})
    for (const Attack& attack : *list)
      if (std::string_view(argv[2]) == attack.name) _exit(attack.run({argv + 3, argv + argc}));
}

}  // namespace hostile
