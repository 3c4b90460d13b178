// The filter's bytecode, run by a small interpreter that decides as the kernel would for each call.
#include <doctest/doctest.h>

#include <fcntl.h>

#include <cstring>
#include <tinymlperf/sandbox/filter.hpp>

using namespace tinymlperf::sandbox;

namespace {

// Interprets the instructions that assemble() uses; any other instruction fails the test.
uint32_t decide(const Program& program, uint32_t call, const std::vector<uint64_t>& arguments = {},
                uint32_t architecture = kArchitecture) {
  seccomp_data data{};
  data.nr = static_cast<int>(call);
  data.arch = architecture;
  for (size_t i = 0; i < arguments.size(); ++i) data.args[i] = arguments[i];
  uint32_t accumulator = 0;
  for (size_t at = 0; at < program.size(); ++at) {
    const sock_filter& now = program[at];
    if (now.code == (BPF_RET | BPF_K)) return now.k;
    if (now.code == (BPF_LD | BPF_W | BPF_ABS)) {
      REQUIRE(now.k + 4 <= sizeof data);
      memcpy(&accumulator, reinterpret_cast<const char*>(&data) + now.k, 4);
      continue;
    }
    bool yes = false;
    if (now.code == (BPF_JMP | BPF_JEQ | BPF_K))
      yes = accumulator == now.k;
    else if (now.code == (BPF_JMP | BPF_JGE | BPF_K))
      yes = accumulator >= now.k;
    else if (now.code == (BPF_JMP | BPF_JSET | BPF_K))
      yes = (accumulator & now.k) != 0;
    else
      FAIL("unexpected instruction: ", now.code);
    at += yes ? now.jt : now.jf;
  }
  FAIL("the program ends without a return instruction");
  return 0;
}

constexpr uint32_t kAllow = SECCOMP_RET_ALLOW, kKill = SECCOMP_RET_KILL_PROCESS;
constexpr uint32_t kPermission = SECCOMP_RET_ERRNO | EPERM, kNoSuchCall = SECCOMP_RET_ERRNO | ENOSYS;

}  // namespace

TEST_CASE("system calls that ordinary programs need are allowed") {
  const Program program = assemble(rules({}));
  CHECK(program.size() < 1000);
  for (const int call : {SYS_read, SYS_write, SYS_openat, SYS_mmap, SYS_futex, SYS_execve, SYS_exit_group,
                         SYS_wait4, SYS_sched_getaffinity, SYS_getrandom, SYS_kill, SYS_tgkill, SYS_fchmodat})
    CHECK(decide(program, static_cast<uint32_t>(call)) == kAllow);
}

TEST_CASE("calls of attacks end the program, other forbidden calls fail with an errno") {
  const Program program = assemble(rules({}));
  for (const int call : {SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_bpf, SYS_kexec_load,
                         SYS_init_module, SYS_finit_module, SYS_reboot, SYS_swapon})
    CHECK(decide(program, static_cast<uint32_t>(call)) == kKill);
  for (const int call : {SYS_keyctl, SYS_add_key, SYS_request_key, SYS_perf_event_open, SYS_userfaultfd,
                         SYS_mount, SYS_umount2, SYS_unshare, SYS_setns, SYS_socket, SYS_memfd_create})
    CHECK(decide(program, static_cast<uint32_t>(call)) == kPermission);
  for (const uint32_t call : {uint32_t{SYS_io_uring_setup}, uint32_t{SYS_io_uring_enter}, detail::kClone3})
    CHECK(decide(program, call) == kNoSuchCall);
}

TEST_CASE("system calls of another architecture are not allowed, since their numbers have other meanings") {
  const Program program = assemble(rules({}));
  for (const uint32_t architecture : {uint32_t{AUDIT_ARCH_I386}, uint32_t{AUDIT_ARCH_ARM}, 0U})
    CHECK(decide(program, SYS_read, {}, architecture) == kKill);
#ifdef __x86_64__
  CHECK(decide(program, 0x40000000 + SYS_read) == kKill);
  CHECK(decide(program, 0xffffffff) == kKill);
#endif
}

TEST_CASE("conditions compare the lower 32 bits of an argument") {
  const Program program = assemble(rules({}));
  const uint64_t garbage = uint64_t{0xdeadbeef} << 32;  // the kernel reads an int there
  CHECK(decide(program, SYS_clone, {17}) == kAllow);
  for (const unsigned flag :
       {0x20000u, 0x02000000u, 0x04000000u, 0x08000000u, 0x10000000u, 0x20000000u, 0x40000000u})
    CHECK(decide(program, SYS_clone, {uint64_t{flag} | 17}) == kPermission);
  CHECK(decide(program, SYS_clone, {0x3d0f00}) == kAllow);  // the flags of a thread
  CHECK(decide(program, SYS_socketpair, {1}) == kAllow);
  CHECK(decide(program, SYS_socketpair, {garbage | 1}) == kAllow);
  CHECK(decide(program, SYS_socketpair, {2}) == kPermission);
  CHECK(decide(program, SYS_prlimit64, {0}) == kAllow);
  CHECK(decide(program, SYS_prlimit64, {1}) == kPermission);
  CHECK(decide(program, SYS_ioctl, {0, TIOCSTI}) == kPermission);
  CHECK(decide(program, SYS_ioctl, {0, garbage | TIOCSTI}) == kPermission);
  CHECK(decide(program, SYS_ioctl, {0, TIOCGWINSZ}) == kAllow);
  CHECK(decide(program, SYS_personality, {0xffffffff}) == kAllow);
  CHECK(decide(program, SYS_personality, {0x40000}) == kPermission);
}

TEST_CASE("a program that asks for SIGCONT, which would continue it while it is held, is ended or refused") {
  const Program program = assemble(rules({}));
  constexpr uint64_t kContinue = 18, kStop = 19;
  for (const auto& [call, argument] : {std::pair{uint32_t{SYS_kill}, 1},
                                       {uint32_t{SYS_tkill}, 1},
                                       {uint32_t{SYS_tgkill}, 2},
                                       {uint32_t{SYS_rt_sigqueueinfo}, 1},
                                       {uint32_t{SYS_rt_tgsigqueueinfo}, 2},
                                       {detail::kPidfdSendSignal, 1}}) {
    std::vector<uint64_t> arguments(3, 0);
    arguments[static_cast<size_t>(argument)] = kContinue;
    CHECK(decide(program, call, arguments) == kKill);
    arguments[static_cast<size_t>(argument)] = kStop;
    CHECK(decide(program, call, arguments) == kAllow);
  }
  constexpr uint64_t kShared = 0x100;  // CLONE_VM
  for (const uint64_t flags : {uint64_t{0}, kShared}) {
    CHECK(decide(program, SYS_clone, {flags | kContinue}) == kKill);
    CHECK(decide(program, SYS_clone, {flags | 17}) == kAllow);  // SIGCHLD
    CHECK(decide(program, SYS_clone, {flags}) == kAllow);       // a thread has no signal
  }
  CHECK(decide(program, SYS_prctl, {1, kContinue}) == kPermission);
  CHECK(decide(program, SYS_prctl, {15}) == kAllow);  // the name of a thread
  CHECK(decide(program, SYS_setpgid, {0, 0}) == kPermission);
  CHECK(decide(program, SYS_setsid) == kAllow);
  CHECK(decide(assemble(rules({.guard_processes = true})), SYS_setsid) == kPermission);
}

TEST_CASE("two contenders cannot signal each other by locks of files that both may open") {
  const Program program = assemble(rules({})), with_gpu = assemble(rules({.may_gpu = true}));
  constexpr uint32_t kNoLocks = SECCOMP_RET_ERRNO | ENOLCK;
  CHECK(decide(program, SYS_flock) == kNoLocks);
  for (const int command : {F_SETLK, F_SETLKW, F_OFD_SETLK, F_OFD_SETLKW, F_SETLEASE, F_NOTIFY})
    CHECK(decide(program, SYS_fcntl, {0, static_cast<uint64_t>(command)}) == kNoLocks);
  for (const int command : {F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC, F_SETPIPE_SZ})
    CHECK(decide(program, SYS_fcntl, {0, static_cast<uint64_t>(command)}) == kAllow);
  CHECK(decide(program, SYS_inotify_init1) == kPermission);
  CHECK(decide(program, SYS_sendmsg) == kPermission);  // it could hide open files in a socket
  CHECK(decide(with_gpu, SYS_flock) == kAllow);
  CHECK(decide(with_gpu, SYS_sendmsg) == kAllow);
}

TEST_CASE("options allow the calls of a GPU driver and replace a missing PID namespace or read-only mount") {
  const Program with_gpu = assemble(rules({.may_gpu = true}));
  CHECK(decide(with_gpu, SYS_memfd_create) == kAllow);
  constexpr uint64_t kUnix = 1, kInternet = 2, kNetlink = 16;
  CHECK(decide(with_gpu, SYS_socket, {kUnix}) == kAllow);
  CHECK(decide(with_gpu, SYS_socket, {kInternet}) == kPermission);
  CHECK(decide(with_gpu, SYS_socket, {kNetlink}) == kPermission);
  const Program guarded = assemble(rules({.guard_processes = true, .guard_metadata = true, .own_pid = 77}));
  CHECK(decide(guarded, SYS_kill, {0, 9}) == kAllow);
  CHECK(decide(guarded, SYS_kill, {static_cast<uint64_t>(-1), 9}) == kPermission);
  CHECK(decide(guarded, SYS_kill, {1234, 9}) == kPermission);
  CHECK(decide(guarded, SYS_tgkill, {77, 78, 6}) == kAllow);
  CHECK(decide(guarded, SYS_tgkill, {76, 76, 6}) == kPermission);
  CHECK(decide(guarded, SYS_setpriority, {0, 0, 5}) == kAllow);
  CHECK(decide(guarded, SYS_setpriority, {0, 1234, 19}) == kPermission);
  CHECK(decide(guarded, SYS_fchmodat) == kPermission);
}
