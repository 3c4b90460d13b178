// Scheduling priority of a match: it runs before all ordinary programs of the machine, and in it the judge
// runs before the contenders that it measures.
//
// On a machine with other work, a p90 measures how often that work interrupted the program. With other work
// for two cores, blocks of one program differed by 3 to 15 %, so a difference of 3 % between programs was
// invisible. Under the kernel's real-time round-robin schedule (SCHED_RR) the other work waits, and the
// blocks differ by 2 to 3 %, their medians by 0.4 %. The kernel keeps 5 % of each second for ordinary
// programs (sched_rt_runtime_us), whatever a contender does.
#pragma once

#include <sched.h>

#include <cstdlib>
#include <string_view>
#include <tinymlperf/sandbox/probe.hpp>

namespace tinymlperf::sandbox {

constexpr int kProgramLevel = 1, kJudgeLevel = 2;

// Determines whether the judge may raise the priority of programs: root may, and so may users with a limit on
// "rtprio". TINYMLPERF_REAL_TIME=0 in the environment forbids it, for machines on which something else is
// timed.
inline void probe_real_time(Offers& offers) {
  if (const char* const wish = std::getenv("TINYMLPERF_REAL_TIME"); wish && std::string_view(wish) == "0") {
    offers.missing["real_time"] = "TINYMLPERF_REAL_TIME=0 in the environment";
    return;
  }
  const std::string why_not = detail::tried(Namespaces::none, [&] {
    const Failure failure = steps::raise_priority(kJudgeLevel);
    return failure || !offers.own_user ? failure : steps::become(65000);
  });
  // The keeper raises its priority inside its namespaces, and in a user namespace it has no right to do so.
  offers.real_time = why_not.empty() && offers.namespaces != Namespaces::user;
  if (!offers.real_time)
    offers.missing["real_time"] =
        (why_not.empty() ? std::string("a process in a user namespace may not raise its priority")
                         : why_not) +
        "; run as root, or add the line \"USER - rtprio 2\" to /etc/security/limits.conf";
}

// Raises the priority of the calling thread as long as one of these objects is alive in it. Threads and
// processes that it starts have the ordinary priority.
class RaisedPriority {
 public:
  explicit RaisedPriority(bool wanted) : wanted_(wanted) {
    if (wanted_ && depth()++ == 0) set(SCHED_RR | SCHED_RESET_ON_FORK, kJudgeLevel);
  }
  ~RaisedPriority() {
    if (wanted_ && --depth() == 0) set(SCHED_OTHER, 0);
  }
  RaisedPriority(const RaisedPriority&) = delete;
  RaisedPriority& operator=(const RaisedPriority&) = delete;

 private:
  static int& depth() {
    thread_local int depth = 0;
    return depth;
  }
  // Errors are ignored: with the ordinary priority the judge works, but other programs may interrupt it.
  static void set(int schedule, int level) {
    const sched_param wished{level};
    (void)sched_setscheduler(0, schedule, &wished);
  }

  bool wanted_;
};

}  // namespace tinymlperf::sandbox
