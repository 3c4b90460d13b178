// Leases of jobs: no clock that somebody sets prolongs or ends one, and none outlives the machine's start.
#include <doctest/doctest.h>

#include <support/board.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinymlperf;
using namespace tinymlperf::board;

namespace {

double since_start = 100, wall = 1.8e9;
std::string start_of_machine = "first";
double read_since_start() { return since_start; }
double read_wall() { return wall; }
std::string read_start() { return start_of_machine; }

struct Leased : test::BoardFolder {
  Leased() {
    since_start = 100, wall = 1.8e9, start_of_machine = "first";
    const std::string token = store.add_user("Ada");
    store.submit_baseline(store.user_of(token).value(), test::bundle_bytes("base"));
  }
  std::optional<Claim> claim() {
    for (const char* hardware : {"cpu-mt", "cpu-1t"})
      if (auto found = store.queue().claim(hardware)) return found;
    return std::nullopt;
  }

  Store store{path,
              {.queue = {.lease = 60, .attempts = 3, .monotonic = read_since_start, .epoch = read_start},
               .clock = read_wall}};
};

// One job in the queue.
int64_t add_job(Leased& b) {
  return b.store.queue().add({0, "", "run", 1, 1, "dig", "single_stream", "cpu-mt"}, 1);
}

}  // namespace

TEST_CASE("a worker whose clock is a day ahead holds its job no longer than others") {
  Leased b;
  const int64_t job = add_job(b);
  wall += 86400;
  const auto first = b.claim();
  REQUIRE(first);
  CHECK(first->job == job);
  wall -= 86400;
  since_start += 59;
  CHECK_FALSE(b.claim());
  since_start += 2;
  const auto second = b.claim();
  REQUIRE(second);
  CHECK(second->job == job);
  CHECK_THROWS_AS(b.store.queue().report(*first, 0.5, "late"), LeaseLost);
}

TEST_CASE("a clock that jumps ahead takes no job from its worker, and a report renews the lease") {
  Leased b;
  add_job(b);
  const auto first = b.claim();
  REQUIRE(first);
  wall += 86400;
  CHECK_FALSE(b.claim());
  since_start += 50;
  b.store.queue().report(*first, 0.5, "half");
  since_start += 50;
  CHECK_FALSE(b.claim());
  CHECK_NOTHROW(b.store.queue().report(*first, 0.6, "more"));
}

TEST_CASE("after a restart of the machine no lease is left, though its time since the start is small") {
  Leased b;
  const int64_t job = add_job(b);
  REQUIRE(b.claim());
  start_of_machine = "second", since_start = 5;
  const auto again = b.claim();
  REQUIRE(again);
  CHECK(again->job == job);
  CHECK_FALSE(b.claim());
}

TEST_CASE("the time since the start grows, and its name is the same within a process") {
  const double before = boot_seconds();
  CHECK(before > 0);
  CHECK(boot_seconds() >= before);
  CHECK_FALSE(boot_epoch().empty());
  CHECK(boot_epoch() == boot_epoch());
}
