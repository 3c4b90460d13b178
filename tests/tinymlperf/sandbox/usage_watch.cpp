// The limits on the disk, the memory and the processor time hold for all processes of a run together, on
// machines with and without cgroups.
#include <doctest/doctest.h>

#include <sys/wait.h>

#include <support/scene.hpp>

using namespace tinymlperf::sandbox;

namespace {

constexpr size_t kPart = 48 << 20;

// Each of these processes is below a limit that all of them exceed.
int memory_family(const hostile::Arguments&) {
  for (int i = 0; i < 7; ++i)
    if (fork() == 0) break;
  memset(new char[kPart], 1, kPart);
  return hostile::sleep_long({});
}

// Pages of one process that others share, which do not count again.
int sharing_family(const hostile::Arguments&) {
  memset(new char[kPart], 1, kPart);
  for (int i = 0; i < 7; ++i)
    if (fork() == 0) break;
  usleep(600000);
  return 0;
}

int files_without_name(const hostile::Arguments& args) {
  for (int i = 0; i < 8; ++i) {
    const int file = open("part", O_CREAT | O_RDWR, 0644);
    unlink("part");
    if (posix_fallocate(file, 0, 16 << 20) != 0) return 1;
    if (args.at(0) == "mapped") {
      if (mmap(nullptr, 16 << 20, PROT_READ, MAP_SHARED, file, 0) == MAP_FAILED) return 2;
      close(file);
    }
  }
  return hostile::sleep_long({});
}

// Processes that each end before the limit on processor time.
int one_after_another(const hostile::Arguments&) {
  for (;;) {
    if (fork() == 0) {
      const auto start = Clock::now();
      while (seconds_since(start) < 0.2) continue;
      _exit(0);
    }
    wait(nullptr);
  }
}

// Has `args[0]` MiB for a moment, as `args[1]` processes, and tells when it has them.
int known_memory(const hostile::Arguments& args) {
  const size_t bytes = static_cast<size_t>(hostile::number(args, 0)) << 20;
  for (int i = 1; i < hostile::number(args, 1); ++i)
    if (fork() == 0) break;
  char* const all = static_cast<char*>(malloc(bytes));
  memset(all, 1, bytes);
  usleep(500000);
  free(all);
  usleep(300000);
  return 0;
}

[[gnu::constructor]] void start_as_child(int argc, char** argv) {
  hostile::maybe_perform(argc, argv,
                         {{"memory_family", memory_family},
                          {"sharing_family", sharing_family},
                          {"files_without_name", files_without_name},
                          {"one_after_another", one_after_another},
                          {"known_memory", known_memory}});
}

}  // namespace

TEST_CASE("memory is limited for all processes together, and what they share counts once" *
          doctest::skip(test::kSanitized)) {
  for (const test::Machine& machine : test::machines()) {
    CAPTURE(machine.name);
    test::Scene scene;
    scene.policy.memory_bytes = 256 << 20;
    Outcome r = run(scene.child({"memory_family"}), scene.policy, machine.offers);
    CHECK(r.ending == Ending::memory);
    CHECK(r.wall_seconds < 10);
    r = run(scene.child({"sharing_family"}), scene.policy, machine.offers);
    CHECK_MESSAGE(r.good(), r.reason);
  }
}

TEST_CASE("files that were deleted but are kept open or mapped count toward the limit of the work folder") {
  for (const test::Machine& machine : test::machines())
    for (const char* kept : {"open", "mapped"}) {
      if (std::string(kept) == "mapped" && geteuid() != 0) continue;  // the system tells it to root alone
      CAPTURE(machine.name);
      CAPTURE(kept);
      test::Scene scene;
      scene.policy.work_bytes = 64 << 20;
      CHECK(run(scene.child({"files_without_name", kept}), scene.policy, machine.offers).ending ==
            Ending::files);
      scene.policy.work_bytes = 256 << 20, scene.policy.wall_seconds = 0.5;
      CHECK(run(scene.child({"files_without_name", kept}), scene.policy, machine.offers).ending ==
            Ending::time);
    }
}

TEST_CASE("processor time is limited for all processes together, with those that have ended") {
  for (const test::Machine& machine : test::machines()) {
    CAPTURE(machine.name);
    test::Scene scene;
    scene.policy.cpu_seconds = 1;
    const Outcome r = run(scene.child({"one_after_another"}), scene.policy, machine.offers);
    CHECK(r.ending == Ending::time);
    CHECK(r.cpu_seconds > 0.9);
    CHECK(r.wall_seconds < scene.policy.wall_seconds);
  }
}

TEST_CASE("the peak is that of the program, and of all its processes, not of the judge" *
          doctest::skip(test::kSanitized)) {
  // The judge is large now, and the program begins as its copy.
  std::vector<char> judge(size_t{400} << 20, 1);
  for (const test::Machine& machine : test::machines())
    for (const auto& [megabytes, processes] : {std::pair{8, 1}, {64, 1}, {192, 1}, {64, 3}}) {
      CAPTURE(machine.name);
      CAPTURE(megabytes);
      CAPTURE(processes);
      const test::Scene scene;
      const Outcome r =
          scene.run({"known_memory", std::to_string(megabytes), std::to_string(processes)}, machine.offers);
      CHECK_MESSAGE(r.good(), r.reason);
      CHECK_FALSE(r.peak_is_bound);
      const int64_t known = int64_t{megabytes} * processes << 20, most = int64_t{24 * processes} << 20;
      CHECK(r.peak_bytes >= known);
      CHECK(r.peak_bytes <= known + most);
    }
  CHECK(judge.back() == 1);
}
