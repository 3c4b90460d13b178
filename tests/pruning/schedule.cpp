#include <tinytorch/pruning/schedule.hpp>

#include <pruning/formats.hpp>
#include <tinytorch/layers/adam.hpp>
#include <tinytorch/layers/linear.hpp>

using namespace test;

TEST_CASE("one-shot and cubic schedules follow their formulas and never fall") {
  const tt::SparsitySchedule shot = tt::one_shot_sparsity(0.7, 5),
                             cubic = tt::cubic_sparsity(0.1, 0.9, 10, 50);
  CHECK(shot(4) == 0);
  CHECK(shot(5) == 0.7);
  double before = 0;
  for (int64_t step = -5; step < 70; ++step) {
    const double t = step < 10 ? 0 : step > 50 ? 1 : static_cast<double>(step - 10) / 40;
    CHECK(cubic(step) == doctest::Approx(0.9 - 0.8 * std::pow(1 - t, 3)));
    CHECK(cubic(step) >= before);
    before = cubic(step);
  }
  CHECK(cubic(20) - cubic(10) > 3 * (cubic(50) - cubic(30)));  // fast first
}

TEST_CASE("rounds keep the same share each, and the last one reaches the target") {
  for (const int64_t rounds : {1, 3, 10}) {
    for (int64_t r = 1; r <= rounds; ++r) {
      const double share =
          (1 - tt::sparsity_of_round(0.9, r, rounds)) / (1 - tt::sparsity_of_round(0.9, r - 1, rounds));
      CHECK(share == doctest::Approx(std::pow(0.1, 1 / static_cast<double>(rounds))));
    }
    CHECK(tt::sparsity_of_round(0.9, rounds, rounds) == doctest::Approx(0.9));
  }
}

TEST_CASE("iterative pruning trains between rounds, rewinds, and ends at the exact count") {
  for (const bool rewind : {false, true}) {
    tt::Generator g(5);
    tt::Linear net(20, 10, true, g);
    tt::StateDict initial;
    for (const auto& [name, tensor] : net.state_dict()) initial.emplace(name, tensor.clone());
    const tt::Tensor x = tt::randn({50, 20}, tt::f32, tt::default_device(), g),
                     y = tt::randn({50, 10}, tt::f32, tt::default_device(), g);
    std::vector<double> seen;
    const auto train = [&](tt::PruningMasks& masks) {
      seen.push_back(masks.sparsity());
      tt::AdamW optimizer(net.named_parameters(), {.lr = 0.01});
      masks.keep_in(optimizer);
      for (int i = 0; i < 4; ++i) {
        optimizer.zero_grad();
        tt::mean(tt::square(net(x) - y)).backward();
        if (rewind && i == 0 && seen.size() > 1) {
          const tt::Tensor mask = masks.find("weight");
          CHECK(same_values(net.weight, tt::masked(initial.at("weight"), mask)));
        }
        optimizer.step();
      }
    };
    const tt::PruningMasks masks = tt::iterative_prune(
        net, {.sparsity = 0.8, .rounds = 4, .rewind = rewind ? initial : tt::StateDict{}}, train);
    CHECK(seen.size() == 5);
    for (size_t r = 0; r < seen.size(); ++r)
      CHECK(seen[r] == doctest::Approx(tt::sparsity_of_round(0.8, static_cast<int64_t>(r), 4)).epsilon(0.02));
    CHECK(nonzero_count(net.weight) == 40);
    CHECK(masks.sparsity() == doctest::Approx(0.8));
  }
}

TEST_CASE("schedules out of range are refused") {
  const auto code = [](auto&& f) { return errors::thrown_by(f).code; };
  CHECK(code([] { tt::one_shot_sparsity(1); }) == "TT-PRUNE-02");
  CHECK(code([] { tt::cubic_sparsity(0.5, 0.2, 0, 10); }) == "TT-PRUNE-02");
  CHECK(code([] { tt::cubic_sparsity(0, 0.2, 10, 10); }) == "TT-PRUNE-02");
  tt::Linear net(2, 2);
  CHECK(code([&] { tt::iterative_prune(net, {.rounds = 0}, [](tt::PruningMasks&) {}); }) == "TT-PRUNE-02");
}
