// The load of other programs: what the system counts as busy, without what this process and its children
// used.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>

#include <ctime>
#include <tinymlperf/support/machine_load.hpp>

using namespace tinymlperf;

namespace {

// Uses the processor for this long, as the processor counts.
void burn(double seconds) {
  const std::clock_t until = std::clock() + static_cast<std::clock_t>(seconds * CLOCKS_PER_SEC);
  volatile double x = 1;
  while (std::clock() < until)
    for (int i = 0; i < 1000; ++i) x = x * 1.0000001;
}

}  // namespace

TEST_CASE("busy time is what is neither idle nor waits for a disk, and what a host takes counts") {
  CHECK(busy_seconds("cpu  100 20 30 9000 400 5 6 7 8 9", 100) == doctest::Approx(1.68));
  CHECK(busy_seconds("cpu 100 0 0 0", 100) == 1);  // an old kernel has fewer numbers
  CHECK(busy_seconds("intr 1 2 3", 100) == 0);
  CHECK(busy_seconds("", 100) == 0);
}

TEST_CASE("others are what is left of the busy time, never less than nothing") {
  CHECK(others_between({0, 100, 10}, {10, 120, 20}) == 1);
  CHECK(others_between({0, 100, 10}, {10, 105, 20}) == 0);  // two clocks differ by a little
  CHECK(others_between({5, 100, 10}, {5, 120, 20}) == 0);
  CHECK(others_between({0, 0, 10}, {10, 0, 20}) == 0);  // /proc is not there
}

TEST_CASE("a child that was waited for counts as our own, and a stranger as another") {
  const LoadReading before = read_load();
  REQUIRE(before.busy > 0);
  const pid_t child = fork();
  if (child == 0) burn(0.2), _exit(0);
  waitpid(child, nullptr, 0);
  const LoadReading after = read_load();
  CHECK(after.own - before.own >= 0.19);
  CHECK(after.busy - before.busy >= 0.1);

  const LoadMeter meter;
  const pid_t stranger = fork();  // not waited for while it is measured
  if (stranger == 0) burn(60), _exit(0);
  for (int i = 0; i < 50; ++i) usleep(20000);
  CHECK(meter.others() > 0.3);  // other programs of this machine only make it more
  kill(stranger, SIGKILL);
  waitpid(stranger, nullptr, 0);
}

TEST_CASE("other load is noted from a tenth of a processor on, and told in words") {
  Json machine = {{"cpu", "a processor"}};
  note_other_load(machine, 0.09);
  CHECK_FALSE(machine.contains(kOtherLoad));
  CHECK(other_load_text(machine).empty());
  note_other_load(machine, 1.2345);
  CHECK(machine.at(kOtherLoad) == 1.23);
  CHECK(other_load_text(machine) ==
        "played beside other load: other programs used 1.23 processors meanwhile");
  CHECK(other_load_text(Json()).empty());
  CHECK(other_load_text({{kOtherLoad, "<b>"}}).empty());
  Json none;
  note_other_load(none, 2);
  CHECK(none.at(kOtherLoad) == 2);
}
