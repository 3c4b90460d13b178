#include <support/check.hpp>
#include <tinytorch/profiling/ablation.hpp>

using namespace course;
using namespace profiling;

namespace {

// A simulated machine with its own clock. The time of a step is length(switches) times a slowdown that grows
// with each step.
struct Machine {
  std::vector<bool> on;
  std::function<double(const std::vector<bool>&)> length;
  double now = 0, slower_by = 0;  // slower_by: growth of the slowdown per step
  std::vector<std::vector<bool>> steps;

  void step() {
    steps.push_back(on);
    now += length(on) * (1 + slower_by * static_cast<double>(steps.size()));
  }
  std::vector<Optimization> optimizations(const std::vector<std::string>& names) {
    on.assign(names.size(), false);
    std::vector<Optimization> all;
    for (size_t i = 0; i < names.size(); ++i)
      all.push_back({names[i], [this, i](bool value) { on[i] = value; }});
    return all;
  }
  Ablation run(const std::vector<std::string>& names, const AblationOptions& options) {
    return ablate(
        optimizations(names), [this] { step(); }, options, [this] { return now; });
  }
};

using Names = std::vector<std::string>;
Names names_of(const Ablation& a) {
  Names names;
  for (const AblationRow& row : a.rows) names.push_back(row.name);
  return names;
}
// A step takes 12 s; `a` subtracts 6 s, `b` halves the time, `c` does nothing.
double three(const std::vector<bool>& on) { return (12 - (on[0] ? 6 : 0)) * (on[1] ? 0.5 : 1); }
std::string setting(const std::vector<bool>& on) {
  std::string text;
  for (const bool o : on) text += o ? '1' : '0';
  return text;
}
void expect_close_to(const std::string& what, double got, double want, const std::string& guess = "") {
  expect(what + ": " + shown(want) + ", got " + shown(got), std::abs(got - want) <= 1e-9 * want, guess);
}

}  // namespace

TEST_CASE("5.9 the measured settings: none, each alone, all but one, all") {
  Machine m{.length = three};
  expect_equal("rows for a, b, c", names_of(m.run({"a", "b", "c"}, {.blocks = 6})),
               Names{"none", "a", "b", "c", "all but a", "all but b", "all but c", "all"});
  Machine two{.length = [](const auto&) { return 1.0; }};
  expect_equal("rows for a, b, where `all but a` would be b again",
               names_of(two.run({"a", "b"}, {.blocks = 6})), Names{"none", "a", "b", "all"});
  Machine one{.length = [](const auto&) { return 1.0; }};
  expect_equal("rows for a alone", names_of(one.run({"a"}, {.blocks = 6})), Names{"none", "a"});
  expect_throws("TT-PROF-05", "ablate without optimizations", [] { ablate({}, [] {}); });
  expect_throws("TT-PROF-06", "ablate in 5 blocks, too few for an interval", [] {
    ablate({{"a", [](bool) {}}}, [] {}, {.blocks = 5});
  });
}

TEST_CASE("5.9 each row has its setting and its speedup over none") {
  Machine m{.length = three};
  const Ablation result = m.run({"a", "b", "c"}, {.blocks = 7});
  const Numbers seconds{12, 6, 6, 12, 6, 6, 3, 3};
  for (size_t i = 0; i < 8; ++i) {
    const AblationRow& row = result.rows[i];
    expect_equal("samples of " + row.name + " in 7 blocks", row.samples.size(), size_t{7});
    for (const double s : row.samples) expect_close_to("a sample of " + row.name, s, seconds[i]);
    expect_close_to("seconds of " + row.name, row.seconds.estimate, seconds[i]);
    expect_close_to("speedup of " + row.name, row.speedup.estimate, 12 / seconds[i],
                    "divide the time of none by the time of the row: above 1 is faster");
  }
}

TEST_CASE("5.9 expected is the product of the speedups of each alone") {
  Machine m{.length = three};
  expect_close_to("expected of a (2), b (2), c (1)", m.run({"a", "b", "c"}, {.blocks = 6}).expected, 4,
                  "use only the rows with one optimization, each compared with none");
  // Each alone reduces 20 s to 5 s; both together reduce it to 10 s.
  Machine rivals{.length = [](const std::vector<bool>& on) {
    return on[0] && on[1] ? 10.0 : on[0] || on[1] ? 5.0 : 20.0;
  }};
  const Ablation result = rivals.run({"a", "b"}, {.blocks = 6});
  expect_close_to("expected of two optimizations that hinder each other", result.expected, 16);
  expect_close_to("speedup of both together", result.rows[3].speedup.estimate, 2);
}

TEST_CASE("5.9 a turn sets the switches, warms up, and takes one sample") {
  Machine m{.length = [](const std::vector<bool>& on) { return on[0] ? 4.0 : 8.0; }};
  const Ablation result = m.run({"a", "b", "c"}, {.blocks = 6, .warm_up = 3});
  expect_equal("steps in 6 blocks of 8 settings, with 3 warm-up steps", m.steps.size(), size_t{6 * 8 * 4});
  for (size_t i = 0; i < m.steps.size(); i += 4) {
    for (size_t k = 1; k < 4; ++k)
      expect_equal("setting of step " + std::to_string(k) + " of a turn, the same as in its first step",
                   setting(m.steps[i + k]), setting(m.steps[i]));
  }
  for (const double s : result.rows[0].samples)
    expect_close_to("a sample is the time of one step, without the warm-up steps", s, 8);
  Machine none{.length = three};
  none.run({"a", "b", "c"}, {.blocks = 6, .warm_up = 0});
  expect_equal("steps without warm-up", none.steps.size(), size_t{48});
}

TEST_CASE("5.9 every setting once in every block, in an order that changes") {
  Machine m{.length = three};
  m.run({"a", "b", "c"}, {.blocks = 12, .warm_up = 0, .seed = 3});
  std::set<std::string> orders;
  for (size_t block = 0; block < 12; ++block) {
    std::set<std::string> seen;
    std::string order;
    for (size_t i = 0; i < 8; ++i) {
      const std::string s = setting(m.steps[8 * block + i]);
      seen.insert(s), order += s + " ";
    }
    expect("block " + std::to_string(block) + " has each of the 8 settings once: " + order, seen.size() == 8,
           "if all samples of one setting are taken in a row, the setting that ran while the machine was "
           "fast wins");
    orders.insert(order);
  }
  expect("12 blocks must have at least 8 different orders, got " + std::to_string(orders.size()),
         orders.size() >= 8, "use benchmarking::random_blocks");
  Machine again{.length = three}, other{.length = three};
  again.run({"a", "b", "c"}, {.blocks = 12, .warm_up = 0, .seed = 3});
  other.run({"a", "b", "c"}, {.blocks = 12, .warm_up = 0, .seed = 4});
  expect("the seed determines the order", again.steps == m.steps && other.steps != m.steps,
         "use options.seed");
}

TEST_CASE("5.9 a machine that becomes slower favours no setting") {
  Machine m{.length = three, .slower_by = 1e-3};  // at the end it takes twice as long
  const Ablation result = m.run({"a", "b", "c"}, {.blocks = 40, .seed = 1});
  for (size_t i = 0; i < 8; ++i) {
    const AblationRow& row = result.rows[i];
    const double want =
        12 / three({i == 1 || i == 5 || i == 6 || i == 7, i == 2 || i == 4 || i == 6 || i == 7, false});
    expect("speedup of " + row.name + " about " + shown(want) + ", got " + shown(row.speedup.estimate),
           std::abs(row.speedup.estimate / want - 1) < 0.06);
    expect("the interval of " + row.name + " contains the estimate: " + shown(row.speedup.low) + " to " +
               shown(row.speedup.high),
           row.speedup.low <= row.speedup.estimate && row.speedup.estimate <= row.speedup.high);
  }
}

TEST_CASE("5.9 ratios are computed within each block") {
  // Each block takes twice as long as the one before it; within a block the settings differ by a factor
  // of 1.2.
  int64_t steps = 0;
  Machine m{.length = [&](const std::vector<bool>& on) {
    return std::exp2(static_cast<double>(steps++ / 2)) * (on[0] ? 1.0 : 1.2);
  }};
  const Ablation result = m.run({"a"}, {.blocks = 8, .warm_up = 0});
  const statistics::Interval& speedup = result.rows[1].speedup;
  expect("speedup 1.2 in each of 8 blocks, got " + shown(speedup.estimate) + " from " + shown(speedup.low) +
             " to " + shown(speedup.high),
         std::abs(speedup.estimate - 1.2) < 1e-9 && std::abs(speedup.low - 1.2) < 1e-9 &&
             std::abs(speedup.high - 1.2) < 1e-9,
         "use statistics::paired_ratio: a slow block slows both settings, so the ratio does not change");
}

TEST_CASE("5.9 all switches are off afterwards") {
  Machine m{.length = three};
  auto optimizations = m.optimizations({"a", "b", "c"});
  m.on = {true, true, true};
  ablate(
      optimizations, [&] { m.step(); }, {.blocks = 6}, [&] { return m.now; });
  expect_equal("switches a, b, c after ablate()", setting(m.on), std::string("000"));
}
