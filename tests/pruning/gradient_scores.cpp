#include <tinytorch/pruning/gradient_scores.hpp>

#include <pruning/formats.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/layers/sgd.hpp>
#include <tinytorch/pruning/masks.hpp>
#include <tinytorch/pruning/shrink.hpp>

using namespace test;

namespace {

struct Net : tt::Module {
  tt::Generator g{3};
  tt::Linear hidden{5, 12, true, g}, out{12, 2, true, g};
  Net() { add("hidden", hidden), add("out", out); }
  tt::Tensor forward(const tt::Tensor& x) override { return out(tt::relu(hidden(x))); }
};

tt::Tensor random(const tt::Shape& shape, uint64_t seed) {
  tt::Generator g(seed);
  return tt::randn(shape, tt::f32, tt::cpu, g).to(tt::default_device());
}

}  // namespace

TEST_CASE("movement is - sum of w g, Taylor the sum of (w g)^2, over batches and in double") {
  for (const tt::DType t : {tt::f32, tt::f64, tt::bf16}) {
    for (const auto kind : {tt::GradientScore::movement, tt::GradientScore::taylor}) {
      Net net;
      net.to(t);
      tt::GradientScores scores(tt::prunable(net), kind);
      tt::SGD optimizer(net.named_parameters(), {.lr = 0.05});
      std::vector<double> expected(60, 0.0);
      for (uint64_t batch = 0; batch < 3; ++batch) {
        optimizer.zero_grad();
        tt::sum(tt::square(net(random({4, 5}, batch).to(t)) - 1)).backward();
        const std::vector<double> w = net.hidden.weight.to_vector<double>(),
                                  g = net.hidden.weight.grad().to_vector<double>();
        for (size_t i = 0; i < w.size(); ++i)
          expected[i] += kind == tt::GradientScore::movement ? -w[i] * g[i] : w[i] * g[i] * w[i] * g[i];
        scores.add();
        optimizer.step();
      }
      const std::vector<double> got = scores.of("hidden.weight").to_vector<double>();
      REQUIRE(got.size() == expected.size());
      for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(expected[i]).epsilon(1e-12));
      CHECK(scores.of("hidden.weight").dtype() == tt::f64);
      CHECK(scores.batches() == 3);
    }
  }
}

TEST_CASE("movement keeps a small weight that grows, and removes a large one that shrinks") {
  // L = sum of (w - goal)^2 / 2: the gradient is w - goal.
  tt::Tensor w = tt::from_data(std::vector<float>{0.1f, 2.0f, 0.2f, 1.0f}, {2, 2}, tt::cpu);
  const tt::Tensor goal = tt::from_data(std::vector<float>{1.0f, 0.5f, 0.1f, 1.5f}, {2, 2}, tt::cpu);
  w.requires_grad_();
  tt::GradientScores scores({{"w", w}}, tt::GradientScore::movement);
  (tt::sum(tt::square(w - goal)) * 0.5).backward();
  scores.add();
  const tt::Tensor keep = scores.masks(0.5)[0];
  CHECK(keep.to(tt::f32).to_vector<double>() == std::vector<double>{1, 0, 0, 1});
  CHECK(tt::magnitude_mask(w, 0.5).to(tt::f32).to_vector<double>() == std::vector<double>{0, 1, 0, 1});
}

TEST_CASE("global masks share one threshold with exact counts, and do not empty a parameter") {
  Net net;
  tt::GradientScores scores(tt::prunable(net), tt::GradientScore::taylor);
  tt::sum(tt::square(net(random({6, 5}, 9)))).backward();
  scores.add();
  const tt::Tensors masks = scores.masks(0.5, tt::MaskScope::global);
  REQUIRE(masks.size() == 2);
  CHECK(masks[0].shape() == tt::Shape{12, 5});
  CHECK(masks[0].device() == net.hidden.weight.device());
  CHECK(nonzero_count(masks[0].to(tt::f32)) + nonzero_count(masks[1].to(tt::f32)) == 42);
  double removed = 0, kept = 1e300;  // the largest that went, and the least that stays
  for (size_t m = 0; m < 2; ++m) {
    const std::vector<double> s = scores.of(m == 0 ? "hidden.weight" : "out.weight").to_vector<double>(),
                              k = masks[m].to(tt::f32).to_vector<double>();
    for (size_t i = 0; i < s.size(); ++i)
      k[i] == 0 ? removed = std::max(removed, s[i]) : kept = std::min(kept, s[i]);
  }
  CHECK(removed <= kept);
}

TEST_CASE("Taylor scores rank channels: one whose outputs are not read goes first, whatever its size") {
  Net net;
  {
    const tt::NoGrad no_grad;
    net.hidden.weight.slice(0, 3, 4).fill_(5);  // a large channel
    net.out.weight.slice(1, 3, 4).fill_(1e-6);  // that is hardly read
  }
  const tt::Tensor x = random({16, 5}, 11);
  tt::GradientScores scores(tt::prunable(net), tt::GradientScore::taylor);
  tt::sum(tt::square(net(x) - 1)).backward();
  scores.add();
  tt::ShrinkOptions o{.sparsity = 0.08, .multiple = 1};  // one of 12
  CHECK(tt::plan_shrink(net, x, o).removed.at("hidden.weight").at(0) != std::vector<int64_t>{3});
  o.scores = scores.all();
  const tt::ShrinkPlan plan = tt::plan_shrink(net, x, o);
  // Groups of dead units (no gradient at all) would go first, too; with these seeds all units are alive.
  CHECK(plan.removed.at("hidden.weight").at(0) == std::vector<int64_t>{3});
  CHECK(plan.removed.at("out.weight").at(1) == std::vector<int64_t>{3});
  o.scores["hidden.weight"] = tt::ones({12});
  CHECK(errors::thrown_by([&] { tt::plan_shrink(net, x, o); }).code == "TT-PRUNE-03");
}

TEST_CASE("scores without gradients, of other shapes and of unknown names are refused") {
  Net net;
  const auto code = [](auto&& f) { return errors::thrown_by(f).code; };
  tt::GradientScores scores(tt::prunable(net), tt::GradientScore::movement);
  CHECK(code([&] { scores.add(); }) == "TT-PRUNE-03");
  CHECK(code([&] { (void)scores.of("nobody"); }) == "TT-PRUNE-03");
  CHECK(code([&] { (void)scores.masks(1); }) == "TT-PRUNE-02");
  tt::sum(net(random({2, 5}, 1))).backward();
  scores.add();
  tt::ShrinkPlan plan;
  plan.removed["hidden.weight"][0] = {1}, plan.removed["hidden.bias"][0] = {1};
  plan.removed["out.weight"][1] = {1};
  tt::shrink(net, plan);
  tt::sum(net(random({2, 5}, 1))).backward();
  CHECK(code([&] { scores.add(); }) == "TT-PRUNE-03");
  const tt::Tensor a = tt::zeros({2, 2});
  tt::GradientScores zeros({{"a", a}, {"b", tt::ones({8, 8})}}, tt::GradientScore::movement);
  CHECK(code([&] { (void)zeros.masks(0.5, tt::MaskScope::global); }) == "TT-PRUNE-04");
}
