#include <tinytorch/pruning/masks.hpp>

#include <pruning/formats.hpp>
#include <tinytorch/layers/adam.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/layers/sgd.hpp>
#include <tinytorch/pruning/magnitude.hpp>

using namespace test;

namespace {

struct Net : tt::Module {
  tt::Generator g{3};
  tt::Linear hidden{6, 8, true, g}, out{8, 2, true, g};
  Net() { add("hidden", hidden), add("out", out); }
  tt::Tensor forward(const tt::Tensor& x) override { return out(tt::relu(hidden(x))); }
};

void backward(Net& net, tt::Optimizer& optimizer, uint64_t seed) {
  tt::Generator g(seed);
  const tt::Tensor x = tt::randn({10, 6}, tt::f32, tt::cpu, g).to(net.hidden.weight.device());
  optimizer.zero_grad();
  tt::sum(tt::square(net(x.to(net.hidden.weight.dtype())) - 1)).backward();
}

bool zeros_stay(const tt::Tensor& w, const tt::Tensor& mask) {
  const std::vector<double> values = w.to_vector<double>(), keep = mask.to(tt::f32).to_vector<double>();
  bool stay = true;
  for (size_t i = 0; i < values.size(); ++i) stay = stay && (keep[i] != 0 || values[i] == 0);
  return stay;
}

}  // namespace

TEST_CASE("zeros stay zero through Adam and SGD with momentum and decay, and kept weights move as before") {
  for (const int kind : {0, 1, 2}) {
    Net net;
    if (kind == 2) net.to(tt::bf16);
    std::unique_ptr<tt::Optimizer> optimizer;
    if (kind == 1) {
      tt::SgdOptions o;
      o.lr = 0.01, o.momentum = 0.9, o.weight_decay = 0.1;
      optimizer = std::make_unique<tt::SGD>(net.named_parameters(), o);
    } else {
      tt::AdamOptions o;
      o.lr = 0.05;
      optimizer = std::make_unique<tt::AdamW>(net.named_parameters(), o);
    }
    for (uint64_t i = 0; i < 3; ++i) backward(net, *optimizer, i), optimizer->step();  // momentum builds up
    tt::PruningMasks masks;
    for (const tt::NamedTensor& p : tt::prunable(net)) masks.prune(p, tt::magnitude_mask(p.tensor, 0.5));
    CHECK(masks.size() == 2);
    CHECK(masks.sparsity() == doctest::Approx(0.5));
    masks.keep_in(*optimizer);
    const std::vector<double> before = net.hidden.weight.to_vector<double>();
    for (uint64_t i = 0; i < 5; ++i) {
      backward(net, *optimizer, 10 + i);
      i % 2 == 0 ? optimizer->step() : (void)optimizer->step_clipped(1);
      CHECK(zeros_stay(net.hidden.weight, masks.find("hidden.weight")));
      CHECK(zeros_stay(net.out.weight, masks.find("out.weight")));
    }
    CHECK(net.hidden.weight.to_vector<double>() != before);
    for (const auto& [name, tensor] : optimizer->state_dict())
      if (name.starts_with("hidden.weight.") && tensor.rank() == 2)
        CHECK(zeros_stay(tensor, masks.find("hidden.weight")));
  }
}

TEST_CASE("without masks in the step, momentum moves a weight whose gradient is masked") {
  Net net;
  tt::AdamW optimizer(net.named_parameters(), {.lr = 0.05});
  backward(net, optimizer, 1), optimizer.step();
  const tt::Tensor mask = tt::magnitude_mask(net.hidden.weight, 0.5);
  tt::PruningMasks masks;
  masks.prune({"hidden.weight", net.hidden.weight}, mask);
  backward(net, optimizer, 2);
  {
    const tt::NoGrad no_grad;
    net.hidden.weight.grad().copy_(tt::masked(net.hidden.weight.grad(), mask));
  }
  optimizer.step();
  CHECK_FALSE(zeros_stay(net.hidden.weight, mask));
  masks.apply();
  CHECK(zeros_stay(net.hidden.weight, mask));
}

TEST_CASE("masks only shrink, and rewinding gives kept weights their old values") {
  Net net;
  tt::StateDict initial;
  for (const auto& [name, tensor] : net.state_dict()) initial.emplace(name, tensor.clone());
  tt::PruningMasks masks;
  const tt::NamedTensor w{"hidden.weight", net.hidden.weight};
  tt::Generator g(4);
  const tt::Tensor a = tt::random_mask({8, 6}, 0.5, g), b = tt::random_mask({8, 6}, 0.5, g);
  masks.prune(w, a), masks.prune(w, b);
  const std::vector<double> x = a.to(tt::f32).to_vector<double>(), y = b.to(tt::f32).to_vector<double>(),
                            both = masks.find("hidden.weight").to(tt::f32).to_vector<double>();
  for (size_t i = 0; i < both.size(); ++i) CHECK(both[i] == x[i] * y[i]);
  {
    const tt::NoGrad no_grad;
    net.hidden.weight.fill_(7);
  }
  masks.rewind(initial);
  CHECK(same_values(net.hidden.weight, tt::masked(initial.at("hidden.weight"), masks.find("hidden.weight"))));
}

TEST_CASE("masks of other shapes, and optimizers without the parameter, are refused") {
  Net net;
  tt::PruningMasks masks;
  const auto code = [](auto&& f) { return errors::thrown_by(f).code; };
  const tt::NamedTensor w{"hidden.weight", net.hidden.weight};
  CHECK(code([&] { masks.prune(w, tt::ones({6, 8}) != 0); }) == "TT-PRUNE-03");
  CHECK(code([&] { masks.prune(w, tt::ones({8, 6})); }) == "TT-PRUNE-03");
  masks.prune(w, tt::ones({8, 6}) != 0);
  tt::AdamW other({{"x", net.out.weight}});
  CHECK(code([&] { masks.keep_in(other); }) == "TT-PRUNE-03");
  CHECK(code([&] { masks.rewind({}); }) == "TT-NN-04");
  CHECK_FALSE(masks.find("nobody").defined());
}
