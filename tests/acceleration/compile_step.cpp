// compile_step(): training as without it, bit by bit.
#include <doctest/doctest.h>

#include <support/errors.hpp>
#include <tinytorch/acceleration/compile_step.hpp>
#include <tinytorch/layers/layers.hpp>
#include <tinytorch/tensor/ops.hpp>
#include <tinytorch/transformer/gpt2.hpp>

namespace {
namespace tt = tinytorch;
using tt::Tensor;

struct StepNet : tt::Module {
  tt::Embedding table{11, 8};
  tt::Linear hidden{8, 24}, unused{3, 3};
  tt::LayerNorm norm{24};
  tt::Linear back{24, 8};
  tt::Dropout drop{0.5};
  StepNet() {
    add("table", table), add("hidden", hidden), add("unused", unused), add("norm", norm), add("back", back);
    add("drop", drop);
    drop.eval();
  }
  Tensor forward(const Tensor& index) override {
    const Tensor h = hidden(table(index)), z = norm(tt::silu(h) * h + 0.5);
    return tt::matmul(drop(back(z)), table.weight.t());  // the weight is tied
  }
};
Tensor entropy_of(const Tensor& y, const Tensor& t) { return tt::cross_entropy(y, t); }
Tensor classes(int64_t n) { return tt::randint(0, 11, {n}); }

const tt::StepCompileOptions kStrict{.compile = {.kernels = tt::RegionKernels::interpreted, .strict = true}};
}  // namespace

TEST_CASE("weights after some steps have the bits of eager training, for batches of two sizes") {
  for (const double clip : {0.0, 0.5}) {
    CAPTURE(clip);
    StepNet net, plain;
    plain.load_state_dict(net.state_dict());
    tt::AdamW one(net.named_parameters(), {.lr = 1e-2}), two(plain.named_parameters(), {.lr = 1e-2});
    tt::StepCompileOptions options = kStrict;
    options.clip_norm = clip;
    auto step = tt::compile_step(net, one, entropy_of, options);
    for (int k = 0; k < 14; ++k) {
      const int64_t n = k % 3 == 2 ? 5 : 16;
      const Tensor x = classes(n), t = classes(n);
      const Tensor loss = step(x, t);
      two.zero_grad();
      const Tensor want = entropy_of(plain(x), t);
      want.backward();
      if (clip > 0) tt::clip_gradient_norm(two.parameters(), clip);
      two.step();
      REQUIRE(loss.item() == want.item());
      CHECK(!loss.requires_grad());
      const auto p = net.named_parameters(), q = plain.named_parameters();
      for (size_t i = 0; i < p.size(); ++i) {
        CAPTURE(p[i].name);
        REQUIRE(p[i].tensor.to_vector() == q[i].tensor.to_vector());
        REQUIRE(p[i].tensor.grad().defined() == q[i].tensor.grad().defined());
      }
    }
    REQUIRE(step.reports().size() == 2);
    const tt::VariantReport r = step.reports()[0];
    CHECK(r.kernels < r.kernels_captured);
    CHECK(r.planned <= r.peak_captured + 64 * r.kernels_captured);  // small blocks are rounded up
  }
}

TEST_CASE("gradients of the user and of other batches do not count") {
  tt::Linear net(2, 1);
  tt::SGD sgd(net.named_parameters(), {.lr = 0});
  auto step = tt::compile_step(
      net, sgd, [](const Tensor& y, const Tensor& t) { return tt::mse_loss(y, t); }, kStrict);
  const Tensor x = tt::ones({4, 2}), t = tt::zeros({4, 1});
  step(x, t);
  const std::vector<float> first = net.weight.grad().to_vector();
  for (int k = 0; k < 5; ++k) {
    (net(x).sum() * 100).backward();
    step(x, t);
    CHECK(net.weight.grad().to_vector() == first);
  }
}

TEST_CASE("dropout draws the numbers of eager training, and leaves the generator where that leaves it") {
  StepNet net, plain;
  net.drop.train(), plain.drop.train();
  plain.load_state_dict(net.state_dict());
  tt::SGD one(net.named_parameters(), {.lr = 0.1}), two(plain.named_parameters(), {.lr = 0.1});
  auto step = tt::compile_step(net, one, entropy_of, kStrict);
  for (int k = 0; k < 9; ++k) {
    if (k == 6) tt::manual_seed(77);  // another stream of numbers
    const Tensor x = classes(16), t = classes(16);
    const tt::GeneratorState before = tt::default_generator().state();
    const Tensor loss = step(x, t);
    const tt::GeneratorState after = tt::default_generator().state();
    CHECK(after.next_block > before.next_block);
    tt::default_generator().set_state(before);
    two.zero_grad();
    const Tensor want = entropy_of(plain(x), t);
    want.backward();
    two.step();
    CAPTURE(k);
    REQUIRE(loss.item() == want.item());
    REQUIRE(net.hidden.weight.to_vector() == plain.hidden.weight.to_vector());
    CHECK(tt::default_generator().state() == after);
  }
  CHECK(step.reports().size() == 1);
  CHECK(step.reports()[0].calls == 9);
}

TEST_CASE("GPT-2 with dropout in attention, branches and embedding: the loss curve of eager training") {
  const tt::Gpt2Config config{.vocabulary = 19, .context = 9, .features = 16, .layers = 2, .heads = 2};
  for (const tt::DType dtype : {tt::f32, tt::bf16}) {
    CAPTURE(tt::name_of(dtype));
    tt::Gpt2 model(config), plain(config);
    plain.load_state_dict(model.state_dict());
    model.to(dtype), plain.to(dtype);
    tt::AdamW one(model.named_parameters(), {.lr = 1e-2}), two(plain.named_parameters(), {.lr = 1e-2});
    tt::StepCompileOptions options = kStrict;
    options.clip_norm = 1;
    auto step = tt::compile_step(
        one, [&](const Tensor& x, const Tensor& t) { return model.loss(x, t); }, options);
    for (int k = 0; k < 7; ++k) {
      const Tensor x = tt::randint(0, 19, {3, 9}), t = tt::randint(0, 19, {3, 9});
      const tt::GeneratorState before = tt::default_generator().state();
      const Tensor loss = step(x, t);
      tt::default_generator().set_state(before);
      two.zero_grad();
      const Tensor want = plain.loss(x, t);
      want.backward();
      tt::clip_gradient_norm(two.parameters(), 1);
      two.step();
      CAPTURE(k);
      REQUIRE(loss.item() == want.item());
    }
    const auto p = model.named_parameters(), q = plain.named_parameters();
    for (size_t i = 0; i < p.size(); ++i) CHECK(p[i].tensor.to_vector() == q[i].tensor.to_vector());
    CHECK(step.reports().size() == 1);
  }
}

TEST_CASE("a probability of dropout that changes is seen by the second look") {
  tt::Linear net(4, 1);
  tt::SGD sgd(net.named_parameters(), {.lr = 0});
  double p = 0.5;
  const auto loss_of = [&](const Tensor& x, const Tensor& t) {
    return tt::mse_loss(net(tt::dropout(x, p)), t);
  };
  auto step = tt::compile_step(sgd, loss_of, kStrict);
  const Tensor x = tt::ones({8, 4}), t = tt::zeros({8, 1});
  step(x, t);
  p = 0.25;
  step(x, t);  // the second look: another loss than that of a replay
  const tt::GeneratorState before = tt::default_generator().state();
  const Tensor loss = step(x, t);
  tt::default_generator().set_state(before);
  CHECK(loss.item() == loss_of(x, t).item());
}

TEST_CASE("random numbers of another generator, and a loss that is no single element") {
  StepNet net;
  tt::Generator own(3);
  tt::SGD sgd(net.named_parameters(), {.lr = 0.1});
  const Tensor x = classes(4), t = classes(4);
  const auto drops = [&](const Tensor& y, const Tensor& target) {
    return entropy_of(tt::dropout(y, 0.5, own), target);
  };
  auto strict = tt::compile_step(net, sgd, drops, kStrict);
  const tt::GeneratorState before = tt::default_generator().state();
  CHECK(errors::thrown_by([&] { strict(x, t); }).code == "TT-COMPILE-04");
  CHECK(tt::default_generator().state() == before);
  auto lenient = tt::compile_step(net, sgd, drops);
  const std::vector<float> weight = net.hidden.weight.to_vector();
  lenient(x, t);
  CHECK(lenient.eager_reason().find("random") != std::string::npos);
  CHECK(net.hidden.weight.to_vector() != weight);  // it trained all the same
  auto wide = tt::compile_step(
      net, sgd, [](const Tensor& y, const Tensor&) { return y * 2; }, kStrict);
  CHECK(errors::thrown_by([&] { wide(x, t); }).code == "TT-GRAD-08");
}

TEST_CASE("a batch of another kind too many runs eagerly") {
  tt::Linear net(2, 1);
  tt::SGD sgd(net.named_parameters(), {.lr = 0.1});
  tt::StepCompileOptions options = kStrict;
  options.compile.most_variants = 1;
  options.compile.strict = false;
  auto step = tt::compile_step(
      net, sgd, [](const Tensor& y, const Tensor& t) { return tt::mse_loss(y, t); }, options);
  for (int64_t n = 1; n < 4; ++n) step(tt::ones({n, 2}), tt::zeros({n, 1}));
  CHECK(step.eager_reason().find("TT-COMPILE-07") != std::string::npos);
}

TEST_CASE("a gradient of the step before, which is in the arena, may be an argument") {
  struct Two : tt::Module {
    tt::Linear first{3, 3}, second{3, 3};
    Two() { add("first", first), add("second", second); }
    Tensor forward(const Tensor& x) override { return second(tt::tanh(first(x))); }
  };
  Two net, plain;
  tt::SGD sgd(net.named_parameters(), {.lr = 0});
  const auto loss = [](const Tensor& y, const Tensor& t) { return tt::mse_loss(y, t); };
  auto step = tt::compile_step(net, sgd, loss, kStrict);
  const Tensor target = tt::randn({3, 3});
  plain.load_state_dict(net.state_dict());
  for (int k = 0; k < 7; ++k) {
    CAPTURE(k);
    // The backward pass of a step writes the gradient of the second layer before it reads x.
    const Tensor x = k < 4 ? tt::randn({3, 3}) : net.second.weight.grad();
    const Tensor copy = x.detach().clone();
    step(x, target);
    plain.zero_grad();
    loss(plain(copy), target).backward();
    CHECK(net.first.weight.grad().to_vector() == plain.first.weight.grad().to_vector());
    CHECK(net.second.weight.grad().to_vector() == plain.second.weight.grad().to_vector());
  }
}
