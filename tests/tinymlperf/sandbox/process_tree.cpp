// The processes of a run as the judge sees them: their states, their processor time and their memory.
#include <doctest/doctest.h>

#include <signal.h>
#include <sys/wait.h>

#include <cstring>
#include <tinymlperf/sandbox/process_tree.hpp>

using namespace tinymlperf::sandbox;

namespace {

// A child of this test that does `work` until it is killed; the test is the "keeper" of the walk.
template <class F>
pid_t child_that(F&& work) {
  const pid_t child = fork();
  if (child == 0) {
    work();
    for (;;) pause();
  }
  return child;
}

void end(pid_t child) {
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

const Member* find(const std::vector<Member>& all, pid_t pid) {
  for (const Member& m : all)
    if (m.pid == pid) return &m;
  return nullptr;
}

bool is_found_stopped(pid_t pid) {
  for (int i = 0; i < 500; ++i) {
    const std::vector<Member> all = members_of(getpid());
    if (const Member* m = find(all, pid); m && m->stopped) return true;
    usleep(10000);
  }
  return false;
}

}  // namespace

TEST_CASE("the walk finds children of children, and tells whether they are stopped") {
  const pid_t child = child_that([] {
    if (fork() == 0)
      for (volatile int stop = 0; !stop;) continue;
  });
  size_t below = 0;
  for (int i = 0; i < 500 && below < 2; ++i, usleep(10000)) below = members_of(getpid()).size();
  REQUIRE(below == 2);
  const std::vector<Member> all = members_of(getpid());
  REQUIRE(find(all, child));
  const Member& busy = all[0].pid == child ? all[1] : all[0];
  CHECK_FALSE(busy.stopped);
  kill(busy.pid, SIGSTOP);
  CHECK(is_found_stopped(busy.pid));
  kill(child, SIGSTOP);
  CHECK(is_found_stopped(child));
  kill(busy.pid, SIGKILL);
  end(child);
  CHECK(members_of(getpid()).size() <= 1);  // the orphan is this test's only if it adopts orphans
}

TEST_CASE("processor time is exact, grows while a process runs, and stands still while it is stopped") {
  const pid_t child = child_that([] {
    for (volatile int stop = 0; !stop;) continue;
  });
  const auto now = [&] { return find(members_of(getpid()), child)->own_nanoseconds; };
  const int64_t before = now();
  for (int i = 0; i < 500 && now() < before + 20000000; ++i) usleep(10000);
  CHECK(now() >= before + 20000000);
  kill(child, SIGSTOP);
  REQUIRE(is_found_stopped(child));
  usleep(10000);  // its last steps are counted a moment later
  const int64_t stopped = now();
  usleep(50000);
  CHECK(now() == stopped);
  end(child);
  CHECK(seconds_of(members_of(getpid()), getpid()) >= 0.02);  // it counts after its end, too
}

TEST_CASE("memory is that of the process, its peak stays, and pages that are shared count once in the sum") {
  constexpr size_t kBytes = 64 << 20;
  const pid_t child = child_that([] {
    char* const all = static_cast<char*>(malloc(kBytes));
    memset(all, 1, kBytes);
    if (fork() == 0)
      for (;;) pause();
  });
  std::vector<Member> all;
  for (int i = 0; i < 500 && all.size() < 2; ++i, usleep(10000)) all = members_of(getpid());
  REQUIRE(all.size() == 2);
  CHECK(
      all[0]
          .copied);  // a first child that was not loaded is a copy of the judge, whose memory is not its own
  CHECK(peak_bytes_of(all[0]) == 0);
  all[0].copied = false;
  CHECK(peak_bytes_of(*find(all, child)) >= static_cast<int64_t>(kBytes));
  // The copy of the first is the same pages, which each of them has filled.
  const int64_t filled = filled_bytes_of(all);
  CHECK(filled >= static_cast<int64_t>(2 * kBytes));
  CHECK(filled <= bytes_of(all, int64_t{1} << 40));
  CHECK(bytes_of(all, int64_t{1} << 40) >= static_cast<int64_t>(2 * kBytes));
  const int64_t shared = bytes_of(all, 0);
  CHECK(shared >= static_cast<int64_t>(kBytes));
  CHECK(shared < static_cast<int64_t>(2 * kBytes));
  for (const Member& m : all)
    if (m.pid != child) kill(m.pid, SIGKILL);
  end(child);
}

TEST_CASE("a process that is gone has no members, no time and no memory") {
  const pid_t child = child_that([] {});
  end(child);
  CHECK(members_of(child).empty());
  CHECK(peak_bytes_of({child}) == 0);
  CHECK(filled_bytes_of({{child}}) == 0);
  CHECK(detail::nanoseconds_of(child) == 0);
  CHECK(detail::fields_of_stat(detail::proc(child)).empty());
}
