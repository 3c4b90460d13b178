// Hostile programs in the sandbox: each has the expected outcome, ends within seconds and leaves nothing
// behind.
#include <doctest/doctest.h>

#include <sys/wait.h>

#include <atomic>
#include <set>
#include <support/scene.hpp>
#include <thread>

using namespace tinymlperf::sandbox;

namespace {

char judge_secret[] = "expected values";

// A judge with one sleeping program. The test kills this judge.
int play_judge(const hostile::Arguments& args) {
  Policy policy;
  policy.read_only = system_paths();
  policy.read_only.emplace_back(args.at(0));
  policy.work = args.at(1);
  policy.limit_addresses = !test::kSanitized;
  Offers offers = probe();
  if (args.at(2) == "without namespaces") offers = test::machines().back().offers;
  run({args.at(0), "--child", "hold_pipe"}, policy, offers);
  return 0;
}

int hold_pipe(const hostile::Arguments&) {
  if (fork() != 0) pause();
  setsid();
  open("alive", O_RDWR);
  for (;;) pause();
}

[[gnu::constructor]] void start_as_child(int argc, char** argv) {
  hostile::maybe_perform(argc, argv, {{"play_judge", play_judge}, {"hold_pipe", hold_pipe}});
}

// A named pipe in the work folder, which tells the test whether a process of the run is alive: locks are not
// allowed there.
fs::path make_pipe(const test::Scene& scene) {
  const fs::path path = scene.work / "alive";
  REQUIRE((mkfifo(path.c_str(), 0666) == 0 || errno == EEXIST));
  fs::permissions(path, fs::perms(0666));
  return path;
}

// True if a process has opened the pipe. Waits up to five seconds for the answer `wished`.
bool is_open(const fs::path& path, bool wished) {
  bool opened = !wished;
  for (int i = 0; i < 500 && opened != wished; ++i) {
    const File file(open(path.c_str(), O_WRONLY | O_NONBLOCK));
    opened = static_cast<bool>(file);
    if (opened != wished) usleep(10000);
  }
  return opened;
}

std::set<std::string> open_files() {
  std::set<std::string> out;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const fs::path target = fs::read_symlink(entry.path(), error);
    if (!error && target.string().find("/proc/") == std::string::npos) out.insert(entry.path().filename());
  }
  return out;
}

std::string address_of_secret() {
  char text[32];
  snprintf(text, sizeof text, "%lx", reinterpret_cast<unsigned long>(judge_secret));
  return text;
}

const std::string kJudge = std::to_string(getpid());

// Runs `body(scene, offers)` on each machine; a failure names the machine.
template <class F>
void on_each_machine(F&& body) {
  for (const test::Machine& machine : test::machines()) {
    test::Scene scene;
    scene.machine = machine.name;
    INFO("machine ", machine.name, ": ", to_json(machine.offers).dump());
    body(scene, machine.offers);
  }
}

}  // namespace

TEST_CASE("this machine can isolate an untrusted program, or says why not") {
  const Offers& offers = test::machines()[0].offers;
  MESSAGE(to_json(offers).dump());
  for (const auto& [what, why] : offers.missing.items()) CHECK_FALSE(why.get<std::string>().empty());
  if (offers.level() == Level::none) {
    const test::Scene scene;
    CHECK_THROWS_AS(scene.run({"plain", "echo"}, offers), Unavailable);
  }
  REQUIRE_MESSAGE(offers.level() != Level::none, "the tests below cannot run on this machine");
}

TEST_CASE("an honest program has its input, both outputs, its exit code and its times") {
  on_each_machine([&](const test::Scene& scene, const Offers& offers) {
    const Outcome r = scene.run({"plain", "echo"}, offers, "hello");
    CAPTURE(r.reason);
    CHECK(r.ending == Ending::exited);
    CHECK(r.exit_code == 7);
    CHECK(r.out == "hello");
    CHECK(r.err == "to err\n");
    CHECK(r.output_complete);
    CHECK(r.left_behind == 0);
    CHECK(r.wall_seconds > 0);
    CHECK(r.wall_seconds < 10);
    CHECK(r.peak_bytes > 0);
    CHECK(to_json(r).at("ending") == "exited");
  });
}

TEST_CASE("crashes and aborts are reported with their signals") {
  on_each_machine([&](const test::Scene& scene, const Offers& offers) {
    CHECK(scene.run({"plain", "crash"}, offers).signal == SIGSEGV);
    const Outcome r = scene.run({"plain", "abort"}, offers);
    CHECK(r.ending == Ending::signalled);
    CHECK(r.signal == SIGABRT);
  });
}

TEST_CASE(
    "an endless loop ends at the limit on CPU time, a sleeper and busy children at that on wall-clock time") {
  on_each_machine([&](const test::Scene& scene, const Offers& offers) {
    Policy policy = scene.policy;
    policy.cpu_seconds = 1;
    Outcome r = run(scene.child({"loop"}), policy, offers);
    CHECK(r.ending == Ending::time);
    CHECK(r.cpu_seconds > 0.8);
    policy.cpu_seconds = 60;
    policy.wall_seconds = 0.5;
    r = run(scene.child({"sleep"}), policy, offers);
    CHECK(r.ending == Ending::time);
    CHECK(r.wall_seconds > 0.49);
    CHECK(r.wall_seconds < 5);
    CHECK(r.reason.find("0.5 s of wall-clock time") != std::string::npos);
    r = run(scene.child({"busy_family"}), policy, offers);
    CHECK(r.ending == Ending::time);
    CHECK(r.left_behind == 4);
  });
}

TEST_CASE("a fork bomb reaches the limit on processes, and none of them remains") {
  on_each_machine([&](const test::Scene& scene, const Offers& offers) {
    Policy policy = scene.policy;
    policy.wall_seconds = 1;
    policy.processes = 32;
    const Outcome r = run(scene.child({"fork_bomb"}), policy, offers);
    CAPTURE(r.reason);
    CHECK(r.ending == Ending::processes);
    CHECK(r.left_behind <= 33);
    CHECK(r.wall_seconds < 10);
    CHECK(scene.run({"plain", "echo"}, offers).exit_code == 7);  // new processes are possible again
  });
}

TEST_CASE("more memory than the limit is refused, at once and piece by piece") {
  if (test::kSanitized) {
    MESSAGE("skipped: a sanitizer reserves more addresses than any limit allows");
    return;
  }
  on_each_machine([&](const test::Scene& scene, const Offers& offers) {
    Policy policy = scene.policy;
    policy.memory_bytes = 256 << 20;
    for (const char* way : {"once", "slowly"}) {
      const Outcome r = run(scene.child({"memory", way}), policy, offers);
      CAPTURE(way);
      CAPTURE(r.err);
      CHECK(r.ending == Ending::memory);
      CHECK(r.peak_bytes <= policy.memory_bytes + (1 << 26));
    }
  });
}

TEST_CASE(
    "endless text on standard output or error ends the program, and the judge keeps no more than the limit") {
  on_each_machine([&](const test::Scene& scene, const Offers& offers) {
    for (const char* stream : {"out", "err"}) {
      const Outcome r = scene.run({"output", stream}, offers);
      CHECK(r.ending == Ending::output);
      CHECK_FALSE(r.output_complete);
      CHECK(static_cast<int64_t>(r.out.size() + r.err.size()) == scene.policy.output_bytes);
    }
  });
}

TEST_CASE("one file that is too large ends the program, and so do many that are too large together") {
  on_each_machine([&](const test::Scene& scene, const Offers& offers) {
    Policy policy = scene.policy;
    policy.file_bytes = 2 << 20;
    policy.work_bytes = 64 << 20;
    const Outcome r = run(scene.child({"big_file"}), policy, offers);
    CHECK(r.ending == Ending::files);
    CHECK(fs::file_size(scene.work / "big") == 2u << 20);
    policy.wall_seconds = 10;
    CHECK(run(scene.child({"many_files"}), policy, offers).ending == Ending::files);
  });
}

TEST_CASE("attacks on files outside of the work folder, on the network and on the judge fail") {
  on_each_machine([&](const test::Scene& scene, const Offers& offers) {
    const std::string base = scene.base.string(), group = std::to_string(getpgrp());
    using Arguments = std::vector<std::string>;
    for (const Arguments& attack :
         {Arguments{"write_outside", base}, Arguments{"read_outside", base, kJudge}, Arguments{"network"},
          Arguments{"refused_calls"}, Arguments{"touch_judge", kJudge, group}, Arguments{"inherited"}}) {
      const File leak(open((scene.base / "secret").c_str(), O_RDWR));  // without O_CLOEXEC
      const Outcome r = scene.run(attack, offers);
      CAPTURE(attack[0]);
      CAPTURE(r.reason);
      CHECK(r.ending == Ending::exited);
      CHECK(r.exit_code == 0);
    }
    std::string secret;
    std::getline(std::ifstream(scene.base / "secret"), secret);
    CHECK(secret == "expected values");
    CHECK_FALSE(fs::exists(scene.base / "made"));
  });
}

TEST_CASE("shared memory is in the work folder, or it cannot be created") {
  on_each_machine([&](const test::Scene& scene, const Offers& offers) {
    const std::string name = "/tinymlperf_" + std::to_string(getpid());
    const Outcome r = scene.run({"shared_memory", name}, offers);
    CHECK(r.ending == Ending::exited);
    CHECK(r.exit_code == (offers.read_only_root ? 0 : 1));
    CHECK_FALSE(fs::exists("/dev/shm" + name));
  });
}

TEST_CASE("system calls that no submission needs end the program") {
  on_each_machine([&](const test::Scene& scene, const Offers& offers) {
    std::vector<std::string> names = {"ptrace", "process_vm_readv", "process_vm_writev", "bpf", "reboot"};
#ifdef __x86_64__
    names.emplace_back("x32");
#endif
    for (const std::string& name : names) {
      const Outcome r = scene.run({"system_call", name, kJudge, address_of_secret()}, offers);
      CAPTURE(name);
      CHECK(r.ending == Ending::syscalls);
      CHECK(r.signal == SIGSYS);
    }
    CHECK(std::string(judge_secret) == "expected values");
  });
}

TEST_CASE("a program that kills its process group ends no other process") {
  on_each_machine([&](const test::Scene& scene, const Offers& offers) {
    const Outcome r = scene.run({"kill_group"}, offers);
    CHECK(r.ending == Ending::signalled);
    CHECK(r.signal == SIGKILL);
  });
}

TEST_CASE("a grandchild in a session of its own does not outlive the run") {
  on_each_machine([&](const test::Scene& scene, const Offers& offers) {
    const fs::path pipe = make_pipe(scene);
    const Outcome r = scene.run({"orphan"}, offers);
    CHECK(r.good());
    CHECK(r.left_behind == 1);
    CHECK_FALSE(is_open(pipe, false));
  });
}

TEST_CASE("when the judge is killed, all processes that it started are killed") {
  on_each_machine([&](const test::Scene& scene, const Offers&) {
    const fs::path pipe = make_pipe(scene);
    const pid_t judge = fork();
    REQUIRE(judge >= 0);
    if (judge == 0) {
      execl(scene.program.c_str(), "program", "--child", "play_judge", scene.program.c_str(),
            scene.work.c_str(), scene.machine.c_str(), nullptr);
      _exit(1);
    }
    CHECK(is_open(pipe, true));
    kill(judge, SIGKILL);
    waitpid(judge, nullptr, 0);
    CHECK_FALSE(is_open(pipe, false));
  });
}

TEST_CASE("a run leaves no open file and no zombie process in the judge") {
  on_each_machine([&](const test::Scene& scene, const Offers& offers) {
    const auto before = open_files();
    make_pipe(scene);
    scene.run({"plain", "echo"}, offers);
    scene.run({"orphan"}, offers);
    CHECK(open_files() == before);
    CHECK(waitpid(-1, nullptr, WNOHANG) == -1);
    CHECK(errno == ECHILD);
  });
}

TEST_CASE("programs start correctly while the judge is starting threads") {
  std::atomic<bool> enough{false};
  std::thread starter([&] {
    while (!enough) std::thread([] {}).join();
  });
  on_each_machine([&](const test::Scene& scene, const Offers& offers) {
    Policy policy = scene.policy;
    policy.wall_seconds = 20;
    for (int i = 0; i < 30; ++i) CHECK(run(scene.child({"plain", "echo"}), policy, offers).exit_code == 7);
  });
  enough = true;
  starter.join();
}

TEST_CASE("a program sees only the environment that the judge defines") {
  on_each_machine([&](const test::Scene& scene, const Offers& offers) {
    setenv("TINYMLPERF_TEST_SECRET", "x", 1);
    Policy policy = scene.policy;
    policy.environment = {"OMP_NUM_THREADS=1"};
    const Outcome r = run(scene.child({"environment"}), policy, offers);
    CHECK(r.out == "PATH=/usr/local/bin:/usr/bin:/bin\nHOME=" + scene.work.string() +
                       "\nTMPDIR=" + scene.work.string() + "\nLANG=C.UTF-8\nOMP_NUM_THREADS=1\n");
  });
}

TEST_CASE("the reason of a program that cannot be started says why and what to do") {
  on_each_machine([&](const test::Scene& scene, const Offers& offers) {
    const Outcome missing = run({"/usr/no/such/program"}, scene.policy, offers);
    CHECK(missing.ending == Ending::not_started);
    CHECK(missing.reason.find("cannot start the program /usr/no/such/program: No such file") !=
          std::string::npos);
    Policy policy = scene.policy;
    policy.read_only.pop_back();  // the program itself
    const Outcome unseen = run(scene.child({"plain", "echo"}), policy, offers);
    CHECK(unseen.ending == Ending::not_started);
    CHECK(unseen.reason.find("it must lie below") != std::string::npos);
    CHECK_THROWS_WITH_AS(run({"sh"}, scene.policy, offers), doctest::Contains("by its absolute path"),
                         Unavailable);
    policy.read_only.emplace_back("/no/such/folder");
    CHECK_THROWS_WITH_AS(run({"/bin/sh"}, policy, offers), doctest::Contains("/no/such/folder"), Unavailable);
    policy.work = "relative";
    CHECK_THROWS_WITH_AS(run({"/bin/sh"}, policy, offers), doctest::Contains("work folder"), Unavailable);
  });
}

TEST_CASE("a compiler works in the sandbox, and the program that it creates runs") {
  const std::string compiler = "/usr/bin/c++";
  if (!fs::exists(compiler)) MESSAGE("no compiler at " << compiler << ": only its absence is tested");
  on_each_machine([&](const test::Scene& scene, const Offers& offers) {
    std::ofstream(scene.work / "hello.cpp") << "#include <cstdio>\nint main() { std::puts(\"hello\"); }\n";
    const Outcome r = run({compiler, "hello.cpp", "-o", "hello"}, scene.policy, offers);
    CAPTURE(r.err);
    CHECK(r.good() == fs::exists(compiler));
    if (!r.good()) return;
    // If the sandbox forbids changes of modes, the linker cannot make the program executable.
    fs::permissions(scene.work / "hello", fs::perms(0755));
    CHECK(run({(scene.work / "hello").string()}, scene.policy, offers).out == "hello\n");
  });
}
