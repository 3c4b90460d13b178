#include <support/check.hpp>
#include <tinytorch/layers/schedule.hpp>

using namespace course;

namespace {

void expect_rate(const std::string& schedule, const Schedule& f, int64_t step, double want) {
  expect_close(schedule + " at step " + std::to_string(step), {f(step)}, {want}, {},
               {.dtype = f64, .roundings = 16});
}

}  // namespace

TEST_CASE("3.16 half a cosine between two values") {
  const auto check = [](double from, double to, double fraction, double want) {
    expect_close("cosine_between(" + shown(from) + ", " + shown(to) + ", " + shown(fraction) + ")",
                 {cosine_between(from, to, fraction)}, {want}, {}, {.dtype = f64, .roundings = 16});
  };
  check(3, 1, 0, 3);
  check(3, 1, 1, 1);
  check(3, 1, 0.5, 2);
  check(1, 0, 1.0 / 3, 0.75);
  check(-1, 2, 0.25, 2 - 1.5 * (1 + std::sqrt(0.5)));
}

TEST_CASE("3.16 decay in steps") {
  const Schedule f = step_decay(0.8, 10, 0.5);
  for (const auto& [step, want] :
       std::map<int64_t, double>{{0, 0.8}, {9, 0.8}, {10, 0.4}, {19, 0.4}, {20, 0.2}, {99, 0.8 / 512}}) {
    expect_rate("step_decay(0.8, 10, 0.5)", f, step, want);
  }
  expect_throws("TT-OPT-08", "step_decay(0.1, 0)", [] { step_decay(0.1, 0); });
}

TEST_CASE("3.16 warm-up, then a cosine, then the end value") {
  const Schedule f = cosine(0.5, 110, 10, 0.1);
  const std::string name = "cosine(0.5, total 110, warm_up 10, end 0.1)";
  expect_rate(name, f, 0, 0.05);
  expect_rate(name, f, 4, 0.25);
  expect_rate(name, f, 9, 0.5);
  expect_rate(name, f, 10, 0.5);
  expect_rate(name, f, 60, 0.3);
  expect_rate(name, f, 35, 0.3 + 0.2 * std::sqrt(0.5));
  expect_rate(name, f, 110, 0.1);
  expect_rate(name, f, 1000, 0.1);
  const Schedule plain = cosine(1, 4);
  expect_rate("cosine(1, total 4)", plain, 0, 1);
  expect_rate("cosine(1, total 4)", plain, 2, 0.5);
  expect_rate("cosine(1, total 4)", plain, 4, 0);
  expect_throws("TT-OPT-08", "cosine(1, total 10, warm_up 10)", [] { cosine(1, 10, 10); });
  expect_throws("TT-OPT-08", "cosine(1, total 10, warm_up -1)", [] { cosine(1, 10, -1); });
}

TEST_CASE("3.16 one cycle up and down") {
  const Schedule f = one_cycle(1, 21, {.rising = 1.0 / 3, .start_divisor = 10, .end_divisor = 100});
  const std::string name = "one_cycle(1, total 21, rising 1/3, divisors 10 and 100)";
  expect_rate(name, f, 0, 0.1);
  expect_rate(name, f, 3, 0.55);
  expect_rate(name, f, 6, 1);
  expect_rate(name, f, 13, (1 + 0.001) / 2);
  expect_rate(name, f, 20, 0.001);
  expect_rate(name, f, 500, 0.001);
  const Schedule down = one_cycle(1, 10, {.rising = 0.1, .start_divisor = 10, .end_divisor = 100});
  expect_rate("one_cycle(1, total 10, rising 0.1), whose peak is step 0,", down, 0, 1);
  expect_throws("TT-OPT-08", "one_cycle(1, total 1)", [] { one_cycle(1, 1); });
  expect_throws("TT-OPT-08", "one_cycle(1, total 10, rising 1)", [] { one_cycle(1, 10, {.rising = 1}); });
}

TEST_CASE("3.16 a schedule depends on the step alone") {
  for (const Schedule& f : {step_decay(0.8, 3, 0.5), cosine(0.5, 20, 4), one_cycle(1, 20)}) {
    const double before = f(7);
    for (const int64_t step : {19, 0, 12}) f(step);
    const Schedule copy = f;
    expect_equal("the learning rate of step 7, called again after other steps", copy(7), before);
  }
}
