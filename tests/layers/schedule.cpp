#include <tinytorch/layers/schedule.hpp>

#include <support/errors.hpp>
#include <support/golden_file.hpp>

namespace tt = tinytorch;

namespace {
void check_schedule(const tt::Schedule& schedule, const nlohmann::json& expected) {
  for (size_t step = 0; step < expected.size(); ++step) {
    INFO("step ", step);
    CHECK(schedule(static_cast<int64_t>(step)) ==
          doctest::Approx(expected[step].get<double>()).epsilon(1e-10));
  }
}
}  // namespace

TEST_CASE("schedules match PyTorch at every step") {
  const nlohmann::json golden = read_golden("layers")["schedules"];
  check_schedule(tt::step_decay(0.2, 4, 0.3), golden["step"]);
  check_schedule(tt::cosine(0.2, 12, 0, 0.01), golden["cosine"]);
  check_schedule(tt::cosine(0.2, 20, 5, 0.01), golden["warm_cosine"]);
  check_schedule(tt::one_cycle(0.2, 25), golden["one_cycle"]);
  check_schedule(tt::one_cycle(0.2, 17, {.rising = 0.45, .start_divisor = 7, .end_divisor = 30}),
                 golden["one_cycle_options"]);
}

TEST_CASE("schedules keep their last value after their end") {
  CHECK(tt::cosine(1, 10, 2, 0.25)(10) == doctest::Approx(0.25));
  CHECK(tt::cosine(1, 10, 2, 0.25)(1000) == doctest::Approx(0.25));
  CHECK(tt::one_cycle(1, 10)(9) == doctest::Approx(1 / 25e4));
  CHECK(tt::one_cycle(1, 10)(1000) == tt::one_cycle(1, 10)(9));
  CHECK(tt::constant(0.3)(12345) == 0.3);
}

TEST_CASE("schedules throw for invalid lengths") {
  CHECK(message_of([] { tt::step_decay(1, 0); }).rfind("TT-OPT-08", 0) == 0);
  CHECK(message_of([] { tt::cosine(1, 5, 5); }).rfind("TT-OPT-08", 0) == 0);
  CHECK(message_of([] { tt::one_cycle(1, 1); }).rfind("TT-OPT-08", 0) == 0);
}
