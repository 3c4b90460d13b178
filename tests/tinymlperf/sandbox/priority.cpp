// Scheduling priority during a measurement: the judge runs first, then the measured program, then all others.
#include <doctest/doctest.h>

#include <sched.h>

#include <support/scene.hpp>
#include <thread>

using namespace tinymlperf::sandbox;

namespace {

// Returns 10 times the program's schedule plus its level, or 100 if it could raise its own priority.
int tell_schedule(const hostile::Arguments&) {
  sched_param level{};
  sched_getparam(0, &level);
  const int found = 10 * sched_getscheduler(0) + level.sched_priority;
  const sched_param higher{kJudgeLevel};
  return sched_setscheduler(0, SCHED_RR, &higher) == 0 ? 100 : found;
}

[[gnu::constructor]] void start_as_child(int argc, char** argv) {
  hostile::maybe_perform(argc, argv, {{"tell_schedule", tell_schedule}});
}

Offers with_real_time() {
  Offers offers = probe();
  probe_real_time(offers);
  return offers;
}

}  // namespace

TEST_CASE("real-time priority is available or a reason is given, and is used only on request") {
  const Offers offers = with_real_time();
  MESSAGE(to_json(offers).dump());
  CHECK(offers.missing.contains("real_time") != offers.real_time);
  CHECK(to_json(offers).at("real_time") == offers.real_time);
  CHECK_FALSE(probe().real_time);
  test::Scene scene;
  CHECK(scene.run({"tell_schedule"}, offers).exit_code == 10 * SCHED_OTHER);
}

TEST_CASE("TINYMLPERF_REAL_TIME=0 in the environment forbids real-time priority") {
  const char* const before = getenv("TINYMLPERF_REAL_TIME");
  const std::string kept = before ? before : "";
  setenv("TINYMLPERF_REAL_TIME", "0", 1);
  const Offers offers = with_real_time();
  before ? setenv("TINYMLPERF_REAL_TIME", kept.c_str(), 1) : unsetenv("TINYMLPERF_REAL_TIME");
  CHECK_FALSE(offers.real_time);
  CHECK(offers.missing.at("real_time") == "TINYMLPERF_REAL_TIME=0 in the environment");
}

TEST_CASE("a program with real-time priority has a lower level than the judge and cannot raise it") {
  const Offers offers = with_real_time();
  test::Scene scene;
  scene.policy.real_time = true;
  const Outcome outcome = scene.run({"tell_schedule"}, offers);
  CHECK_MESSAGE(outcome.ending == Ending::exited, outcome.reason);
  CHECK(outcome.exit_code == (offers.real_time ? 10 * SCHED_RR + kProgramLevel : 10 * SCHED_OTHER));
}

TEST_CASE(
    "the judge's priority is raised while a RaisedPriority is alive, and its new threads do not inherit it") {
  const Offers offers = with_real_time();
  CHECK(sched_getscheduler(0) == SCHED_OTHER);
  {
    const RaisedPriority one(offers.real_time);
    const int now = offers.real_time ? SCHED_RR | SCHED_RESET_ON_FORK : SCHED_OTHER;
    CHECK(sched_getscheduler(0) == now);
    int of_thread = -1;
    std::thread([&] { of_thread = sched_getscheduler(0); }).join();
    CHECK(of_thread == SCHED_OTHER);
    { const RaisedPriority two(offers.real_time); }
    CHECK(sched_getscheduler(0) == now);
    { const RaisedPriority none(false); }
    CHECK(sched_getscheduler(0) == now);
  }
  CHECK(sched_getscheduler(0) == SCHED_OTHER);
}

TEST_CASE("endless loops and fork bombs with real-time priority are ended, too") {
  const Offers offers = with_real_time();
  test::Scene scene;
  scene.policy.real_time = true;
  scene.policy.wall_seconds = 0.5;
  for (const char* attack : {"loop", "fork_bomb"}) {
    CAPTURE(attack);
    const Outcome outcome = scene.run({attack}, offers);
    CHECK((outcome.ending == Ending::time || outcome.ending == Ending::processes));
    CHECK(outcome.wall_seconds < 10);
  }
  CHECK(sched_getscheduler(0) == SCHED_OTHER);
}
