#include <08_pruning/checks/weights.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/pruning/schedule.hpp>

using namespace course;

namespace {

void expect_near(const std::string& what, double got, double want) {
  expect(what + ": expected " + shown(want) + ", got " + shown(got), std::abs(got - want) <= 1e-12);
}
Numbers cloned(const Linear& net) { return numbers(net.weight); }

}  // namespace

TEST_CASE("8.14 one-shot: nothing before its step, everything from it on") {
  const SparsitySchedule s = one_shot_sparsity(0.7, 5), now = one_shot_sparsity(0.3);
  for (const int64_t step : {int64_t{-1}, int64_t{0}, int64_t{4}})
    expect_near("0.7 at step 5, in step " + shown(step), s(step), 0);
  for (const int64_t step : {int64_t{5}, int64_t{6}, int64_t{1} << 40})
    expect_near("0.7 at step 5, in step " + shown(step), s(step), 0.7);
  expect_near("0.3 from the beginning", now(0), 0.3);
}

TEST_CASE("8.14 cubic: fast first, slow at the end") {
  const SparsitySchedule s = cubic_sparsity(0.1, 0.9, 100, 300);
  double before = 0;
  for (int64_t step = 0; step < 400; ++step) {
    const double t = step < 100 ? 0 : step > 300 ? 1 : static_cast<double>(step - 100) / 200;
    expect_near("0.1 to 0.9 over steps 100 to 300, in step " + shown(step), s(step),
                0.9 - 0.8 * std::pow(1 - t, 3));
    expect("it never falls", s(step) >= before);
    before = s(step);
  }
  expect("the first quarter removes more than half of it", s(150) - s(100) > 0.4);
  const int64_t far = int64_t{1} << 40;
  expect_near("steps beyond 32 bits", cubic_sparsity(0, 0.8, far, far + 1000)(far + 500), 0.7);
  expect_near("a constant", cubic_sparsity(0.4, 0.4, 0, 1)(0), 0.4);
}

TEST_CASE("8.14 rounds: each keeps the same share of what the one before has kept") {
  expect_near("0.75 in 2 rounds: half after the first", sparsity_of_round(0.75, 1, 2), 0.5);
  for (const int64_t rounds : {1, 2, 5, 20}) {
    expect_near("before the first of " + shown(rounds), sparsity_of_round(0.9, 0, rounds), 0);
    expect_near("after the last of " + shown(rounds), sparsity_of_round(0.9, rounds, rounds), 0.9);
    for (int64_t r = 1; r <= rounds; ++r)
      expect_near("the share that round " + shown(r) + " of " + shown(rounds) + " keeps",
                  (1 - sparsity_of_round(0.9, r, rounds)) / (1 - sparsity_of_round(0.9, r - 1, rounds)),
                  std::pow(0.1, 1 / static_cast<double>(rounds)));
  }
}

TEST_CASE("8.14 iterative pruning: train, remove, and so on; training comes first and last") {
  for (const int64_t rounds : {1, 3}) {
    Linear net(20, 10);
    int64_t calls = 0;
    const auto train = [&](PruningMasks& masks) {
      const double want =
          calls == 0
              ? 0
              : std::round(200 *
                           (1 - std::pow(0.2, static_cast<double>(calls) / static_cast<double>(rounds)))) /
                    200;
      expect_near("removed when training " + shown(calls + 1) + " of " + shown(rounds + 1) + " begins",
                  masks.sparsity(), want);
      const NoGrad no_grad;
      net.weight.detach().copy_(net.weight * 1.25);  // "training": larger weights, and zeros stay
      ++calls;
    };
    const Numbers start = cloned(net);
    const PruningMasks masks = iterative_prune(net, {.sparsity = 0.8, .rounds = rounds}, train);
    expect_equal("trainings", calls, rounds + 1);
    const Numbers keep = mask_by_definition(magnitudes(start), 200, 160);
    expect_mask("the mask of the smallest 160 of 200", masks.find("weight"), keep, {10, 20});
    expect_close("kept weights are those of training", cloned(net),
                 times(
                     [&] {
                       Numbers x = start;
                       for (double& v : x) v *= std::pow(1.25, static_cast<double>(rounds + 1));
                       return x;
                     }(),
                     keep),
                 {10, 20}, {.roundings = 8});
  }
}

TEST_CASE("8.14 the smallest weights of today go, not those of the beginning") {
  Linear net(8, 4);
  const auto train = [&](PruningMasks& masks) {
    const NoGrad no_grad;
    Numbers w(32);  // training turns the order around
    for (size_t i = 0; i < 32; ++i)
      w[i] = masks.size() > 0 && numbers(masks.find("weight"))[i] == 0 ? 0 : 40 - static_cast<double>(i);
    net.weight.detach().copy_(of_numbers(w, {4, 8}));
  };
  const PruningMasks masks = iterative_prune(net, {.sparsity = 0.75, .rounds = 2}, train);
  Numbers want(32);
  for (size_t i = 0; i < 8; ++i) want[i] = 1;
  expect_mask("of weights 40, 39, ... the first 8 stay", masks.find("weight"), want, {4, 8});
}

TEST_CASE("8.14 with rewind every training but the first begins with the early values") {
  Linear net(12, 5);
  StateDict early;
  for (const auto& [name, value] : net.state_dict()) early.emplace(name, value.clone());
  const Numbers start = cloned(net);
  int64_t calls = 0;
  const auto train = [&](PruningMasks& masks) {
    if (calls++ > 0)
      expect("training " + shown(calls) + ": kept weights as they were at first",
             cloned(net) == times(start, numbers(masks.find("weight"))));
    const NoGrad no_grad;
    net.weight.detach().copy_(net.weight * 3);
  };
  (void)iterative_prune(net, {.sparsity = 0.9, .rounds = 3, .rewind = early}, train);
  expect_equal("trainings", calls, int64_t{4});
}

TEST_CASE("8.14 settings out of range are refused") {
  expect_throws("TT-PRUNE-02", "one_shot_sparsity(1)", [] { (void)one_shot_sparsity(1); });
  expect_throws("TT-PRUNE-02", "from 0 to 1", [] { (void)cubic_sparsity(0, 1, 0, 10); });
  expect_throws("TT-PRUNE-02", "from -0.1", [] { (void)cubic_sparsity(-0.1, 0.5, 0, 10); });
  expect_throws("TT-PRUNE-02", "from 0.5 to 0.4", [] { (void)cubic_sparsity(0.5, 0.4, 0, 10); });
  expect_throws("TT-PRUNE-02", "a step that ends where it begins",
                [] { (void)cubic_sparsity(0, 0.5, 10, 10); });
  Linear net(4, 4);
  int64_t calls = 0;
  const auto train = [&](PruningMasks&) { ++calls; };
  expect_throws("TT-PRUNE-02", "no rounds",
                [&] { (void)iterative_prune(net, {.sparsity = 0.5, .rounds = 0}, train); });
  expect_throws("TT-PRUNE-02", "sparsity 1", [&] { (void)iterative_prune(net, {.sparsity = 1}, train); });
  expect_equal("nothing was trained", calls, int64_t{0});
}
