// compile(): replays against the function itself, derivatives, guards, second looks and refusals.
#include <doctest/doctest.h>

#include <support/errors.hpp>
#include <support/random_function.hpp>
#include <tinytorch/acceleration/compiled.hpp>
#include <tinytorch/autograd/gradcheck.hpp>
#include <tinytorch/layers/layers.hpp>

namespace {
namespace tt = tinytorch;
using tt::Tensor;
using tt::Tensors;

const tt::CompileOptions kInterpreted{.kernels = tt::RegionKernels::interpreted, .strict = true};

struct Net : tt::Module {
  tt::Linear a{6, 16}, b{16, 3};
  tt::LayerNorm norm{16};
  Net() { add("a", a), add("b", b), add("norm", norm); }
  Tensor forward(const Tensor& x) override {
    const Tensor h = a(x);
    return b(norm(tt::gelu(h) * h + tt::exp(-h * h)));
  }
};

// Sum of all results times fixed weights, so that each has another gradient.
Tensor weighted(const Tensors& results) {
  Tensor sum = tt::zeros({});
  for (size_t k = 0; k < results.size(); ++k) sum = sum + (results[k] * (0.3 + static_cast<double>(k))).sum();
  return sum;
}
}  // namespace

TEST_CASE("random functions and their derivatives: the bits of the function itself") {
  const uint64_t seed = test::fresh_seed();
  INFO("TINYTORCH_TEST_SEED=", seed);
  for (uint64_t k = 0; k < 25; ++k) {
    CAPTURE(k);
    const test::RandomFunction f(seed + k, 1 + static_cast<int>(k % 5) * 12, true);
    auto compiled = tt::compile(f, kInterpreted);
    const int64_t n = 2 + static_cast<int64_t>((seed + k) % 23);
    for (int call = 0; call < 5; ++call) {
      Tensors x, y;
      for (int i = 0; i < 2; ++i) {
        x.push_back(tt::rand({n, n}) - 0.5);
        y.push_back(x.back().clone());
        if (i == 0 || k % 2 == 0) x.back().requires_grad_(), y.back().requires_grad_();
      }
      const Tensors got = compiled(x), want = f(y);
      for (size_t r = 0; r < want.size(); ++r) {
        REQUIRE(got[r].to_vector() == want[r].to_vector());
        REQUIRE(got[r].requires_grad() == want[r].requires_grad());
      }
      const Tensor loss_got = weighted(got), loss_want = weighted(want);
      REQUIRE(loss_got.requires_grad() == loss_want.requires_grad());
      if (!loss_want.requires_grad()) continue;
      loss_got.backward();
      loss_want.backward();
      for (size_t i = 0; i < 2; ++i) {
        REQUIRE(x[i].grad().defined() == y[i].grad().defined());
        if (!y[i].grad().defined()) continue;
        const std::vector<double> a = x[i].grad().to_vector<double>(), b = y[i].grad().to_vector<double>();
        double largest = 1;  // gradients of several results are added in another order, and may cancel
        for (const double g : b) largest = std::max(largest, std::abs(g));
        for (size_t e = 0; e < a.size(); ++e) REQUIRE(std::abs(a[e] - b[e]) <= 1e-5 * largest);
      }
    }
  }
}

TEST_CASE("gradcheck through a compiled function") {
  auto f = tt::compile(
      [](const Tensor& x, const Tensor& w) { return tt::tanh(tt::matmul(x, w)) * tt::exp(x); }, kInterpreted);
  Tensor x = tt::randn({3, 3}, tt::f64), w = tt::randn({3, 3}, tt::f64);
  x.requires_grad_(), w.requires_grad_();
  CHECK(tt::gradcheck([&](const Tensors& in) { return f(in[0], in[1]); }, {x, w}).passed);
}

TEST_CASE("a network trains as without compile(), bit by bit, and its hooks on parameters run") {
  Net compiled_net, plain;
  plain.load_state_dict(compiled_net.state_dict());
  auto f = tt::compile([&](const Tensor& x, const Tensor& t) { return tt::mse_loss(compiled_net(x), t); },
                       kInterpreted);
  int hooks = 0;
  compiled_net.a.weight.register_hook([&](const Tensor& g) {
    ++hooks;
    return g;
  });
  tt::SGD one(compiled_net.named_parameters(), {.lr = 0.1}), two(plain.named_parameters(), {.lr = 0.1});
  for (int step = 0; step < 8; ++step) {
    const Tensor x = tt::randn({5, 6}), t = tt::randn({5, 3});
    one.zero_grad(), two.zero_grad();
    const Tensor a = f(x, t), b = tt::mse_loss(plain(x), t);
    REQUIRE(a.item() == b.item());
    a.backward(), b.backward();
    one.step(), two.step();
    const auto p = compiled_net.named_parameters(), q = plain.named_parameters();
    for (size_t k = 0; k < p.size(); ++k) REQUIRE(p[k].tensor.to_vector() == q[k].tensor.to_vector());
  }
  CHECK(hooks == 8);
  REQUIRE(f.reports().size() == 1);
  const tt::VariantReport r = f.reports()[0];
  CHECK(r.calls == 8);
  CHECK(r.kernels < r.kernels_captured);
  CHECK(r.bytes_moved < r.bytes_moved_captured);
  CHECK(r.planned <= r.peak_captured);
  CHECK(f.report().find("not fused: linear") != std::string::npos);
}

TEST_CASE("fused steps as compiled code give the same bits") {
  auto f = tt::compile([](const Tensor& x) { return tt::gelu(x * 2 + 1) * x - tt::tanh(x); },
                       {.kernels = tt::RegionKernels::compiled, .strict = true});
  for (const int64_t n : {1, 7, 1000, 70001}) {
    const Tensor x = tt::randn({n});
    for (int k = 0; k < 4; ++k)
      REQUIRE(f(x).to_vector() == (tt::gelu(x * 2 + 1) * x - tt::tanh(x)).to_vector());
  }
}

TEST_CASE("other shapes, dtypes, layouts, needs of gradients and modes are other variants") {
  tt::Linear layer(4, 4);
  auto f = tt::compile([&](const Tensor& x) { return tt::relu(layer(x)) * 2; }, kInterpreted);
  const auto check = [&](const Tensor& x) {
    REQUIRE(f(x).to_vector() == (tt::relu(layer(x)) * 2).to_vector());
  };
  for (int round = 0; round < 4; ++round) {
    check(tt::randn({2, 4}));
    check(tt::randn({3, 4}));
    check(tt::randn({4, 2}).t());
    check(tt::randn({2, 4}).requires_grad_());
    const tt::NoGrad guard;
    check(tt::randn({2, 4}));
  }
  CHECK(f.reports().size() == 5);
}

TEST_CASE("after too many variants the function runs eagerly, and says which they are") {
  auto f = tt::compile([](const Tensor& x) { return x + 1; },
                       {.kernels = tt::RegionKernels::interpreted, .most_variants = 3});
  for (int64_t n = 1; n < 7; ++n) CHECK(f(tt::zeros({2, n})).to_vector() == tt::ones({2, n}).to_vector());
  CHECK(f.eager_reason().find("TT-COMPILE-07") != std::string::npos);
  CHECK(f.eager_reason().find("f32 [2, 3] on " + tt::zeros({1}).device().str()) != std::string::npos);
  CHECK(f.eager_reason().find("argument 0: shape [2, 4], captured with [2, 3]") != std::string::npos);
}

TEST_CASE("a change that no guard sees is found by the second look, and the function is captured again") {
  double factor = 1;
  auto f = tt::compile([&](const Tensor& x) { return x * factor; }, kInterpreted);
  const Tensor x = tt::ones({2});
  f(x);
  factor = 3;
  CHECK(f(x).to_vector() == std::vector<float>{3, 3});  // the second call looks
  CHECK(f(x).to_vector() == std::vector<float>{3, 3});  // captured again
  int calls = 0;
  auto restless = tt::compile([&](const Tensor& t) { return ++calls % 2 ? t + 1 : t * 2; },
                              {.kernels = tt::RegionKernels::interpreted, .most_variants = 2});
  for (int k = 0; k < 20 && restless.eager_reason().empty(); ++k) restless(x);
  CHECK(restless.eager_reason().find("TT-COMPILE-05") != std::string::npos);
}

TEST_CASE("train() and eval() are noticed") {
  tt::Dropout drop(0.5);
  drop.eval();
  auto f =
      tt::compile([&](const Tensor& x) { return drop(x) + 1; }, {.kernels = tt::RegionKernels::interpreted});
  const Tensor x = tt::ones({64});
  for (int k = 0; k < 6; ++k) CHECK(f(x).to_vector() == tt::full({64}, 2).to_vector());
  drop.train();
  const std::vector<float> dropped = f(x).to_vector();
  CHECK(std::ranges::count(dropped, 1.0f) > 5);
}

TEST_CASE("a module that moves to another dtype is captured again") {
  tt::Linear layer(2, 2);
  auto f = tt::compile([&](const Tensor& x) { return layer(x); }, kInterpreted);
  for (int k = 0; k < 5; ++k) f(tt::ones({1, 2}));
  layer.to(tt::f64);
  const Tensor x = tt::ones({1, 2}, tt::f64);
  CHECK(f(x).to_vector<double>() == layer(x).to_vector<double>());
}

TEST_CASE("what cannot be captured runs eagerly, or throws if strict") {
  const auto branch = [](const Tensor& x) { return x.sum().item() > 0 ? x : -x; };
  auto lenient = tt::compile(branch);
  CHECK(lenient(tt::full({2}, -1)).to_vector() == std::vector<float>{1, 1});
  CHECK(lenient.eager_reason().find("TT-COMPILE-03") != std::string::npos);
  CHECK(lenient.report().find("runs eagerly") != std::string::npos);
  auto strict = tt::compile(branch, kInterpreted);
  CHECK(errors::thrown_by([&] { strict(tt::ones({2})); }).code == "TT-COMPILE-03");

  const Tensor w = tt::ones({2}).requires_grad_();
  const Tensor outside = w * 2;
  auto uses = tt::compile([&](const Tensor& x) { return x * outside; }, kInterpreted);
  CHECK(errors::thrown_by([&] { uses(tt::ones({2})); }).text.find("pass it as an argument") !=
        std::string::npos);
  auto hooked = tt::compile(
      [&](const Tensor& x) {
        Tensor y = x * w;
        y.register_hook([](const Tensor& g) { return g; });
        return y.sum();
      },
      kInterpreted);
  CHECK(errors::thrown_by([&] { hooked(tt::ones({2})); }).text.find("hook") != std::string::npos);
  CHECK(!w.grad().defined());
}

TEST_CASE("writes in place: the bits of the function, in values, derivatives and tensors of the program") {
  const Tensor w = tt::randn({4, 6}).requires_grad_();
  const Tensor seen = tt::zeros({6}), count = tt::zeros({}, tt::i64);
  const std::vector<std::function<Tensor(const Tensor&)>> functions = {
      [&](const Tensor& x) {  // a sum that grows
        Tensor h = tt::sin(x);
        for (int k = 0; k < 3; ++k) h += tt::tanh(x * w) * 0.5;
        return h;
      },
      [&](const Tensor& x) {  // the factors of a product are kept
        Tensor h = tt::sin(x);
        h *= w;
        h.masked_fill_(h > 1, 0.25);
        return h * h;
      },
      [&](const Tensor& x) {  // statistics of the program
        {
          const tt::NoGrad guard;
          Tensor(seen).mul_(0.5).add_(x.detach().sum(0), 0.25);
          Tensor(count).add_(tt::ones({}, tt::i64));
        }
        return x * w + seen;
      },
      [&](const Tensor& x) {  // no derivative, whole tensors
        const tt::NoGrad guard;
        Tensor h = tt::zeros({4, 6});
        h.add_(x.detach(), 3);
        h.fill_(2);
        h.mul_(3).add_(w.detach());
        h.copy_(h * x.detach());
        return h;
      },
  };
  for (size_t f = 0; f < functions.size(); ++f) {
    CAPTURE(f);
    auto compiled = tt::compile(functions[f], kInterpreted);
    for (int k = 0; k < 6; ++k) {
      CAPTURE(k);
      const Tensor x = tt::randn({4, 6}).requires_grad_();
      const auto run = [&](auto&& call) {
        std::vector<std::vector<float>> found;
        const Tensor y = call(x);
        found.push_back(y.to_vector());
        if (y.requires_grad()) {
          (y * y).sum().backward();
          found.push_back(x.grad().to_vector()), found.push_back(w.grad().to_vector());
        }
        Tensor(x).zero_grad(), Tensor(w).zero_grad();
        found.push_back(seen.to_vector());
        found.push_back({static_cast<float>(count.item<int64_t>())});
        return found;
      };
      const Tensor seen_before = seen.clone(), count_before = count.clone();
      const auto got = run(compiled);
      Tensor(seen).copy_(seen_before), Tensor(count).copy_(count_before);
      REQUIRE(got == run(functions[f]));
    }
    CHECK(compiled.reports().size() == 1);
    CHECK(compiled.reports()[0].calls == 6);
  }
}

TEST_CASE("batch norm in training: running statistics and their count are those of eager calls") {
  tt::BatchNorm2d norm(3), plain(3);
  auto compiled = tt::compile([&](const Tensor& x) { return norm(x); }, kInterpreted);
  for (int k = 0; k < 5; ++k) {
    const Tensor x = tt::randn({4, 3, 2, 2});
    CHECK(compiled(x).to_vector() == plain(x).to_vector());
    CHECK(norm.running_mean.to_vector() == plain.running_mean.to_vector());
    CHECK(norm.running_var.to_vector() == plain.running_var.to_vector());
  }
}

TEST_CASE("dropout: the numbers of eager calls, also in derivatives and if calls overlap") {
  const auto f = [](const Tensor& x) { return tt::dropout(tt::sin(x) * 2, 0.5) * x; };
  auto compiled = tt::compile(f, kInterpreted);
  for (int k = 0; k < 5; ++k) {
    const Tensor a = tt::randn({3, 5}).requires_grad_(), b = tt::randn({3, 5}).requires_grad_();
    const auto run = [&](auto&& call) {
      const Tensor y = call(a), z = call(b);  // both forward passes are before both backward passes
      y.sum().backward(), z.sum().backward();
      std::vector<std::vector<float>> found{y.to_vector(), z.to_vector(), a.grad().to_vector(),
                                            b.grad().to_vector()};
      Tensor(a).zero_grad(), Tensor(b).zero_grad();
      return found;
    };
    const tt::GeneratorState before = tt::default_generator().state();
    const auto got = run(compiled);
    const tt::GeneratorState after = tt::default_generator().state();
    tt::default_generator().set_state(before);
    CHECK(got == run(f));
    CHECK(tt::default_generator().state() == after);
  }
}

TEST_CASE("a compiled function inside of another capture is a part of it") {
  auto inner = tt::compile([](const Tensor& x) { return tt::exp(x) * 2; }, kInterpreted);
  auto outer = tt::compile([&](const Tensor& x) { return inner(x) + 1; }, kInterpreted);
  const Tensor x = tt::randn({3}).requires_grad_();
  for (int k = 0; k < 4; ++k) CHECK(outer(x).to_vector() == (tt::exp(x) * 2 + 1).to_vector());
}

TEST_CASE("an axis that changes is seen by the second look, though all shapes are equal") {
  int64_t axis = 0;
  auto f = tt::compile([&](const Tensor& x) { return tt::softmax(x, static_cast<int>(axis)); }, kInterpreted);
  const Tensor x = tt::randn({4, 4});
  f(x);
  axis = 1;
  for (int k = 0; k < 3; ++k) CHECK(f(x).to_vector() == tt::softmax(x, 1).to_vector());
}

TEST_CASE("errors of the function are those of the function") {
  auto f = tt::compile([](const Tensor& a, const Tensor& b) { return a + b; }, kInterpreted);
  CHECK(errors::thrown_by([&] { f(tt::ones({2}), tt::ones({3})); }).code == "TT-SHAPE-02");
  CHECK(errors::thrown_by([&] { f(tt::ones({2}), Tensor()); }).code == "TT-TENSOR-01");
  CHECK(f(tt::ones({2}), tt::ones({2})).to_vector() == std::vector<float>{2, 2});
}

TEST_CASE("gradients that were there before a capture stay, and are added to") {
  const Tensor w = tt::ones({2}).requires_grad_();
  (w * 5).sum().backward();
  auto f = tt::compile([&](const Tensor& x) { return (x * w).sum(); }, kInterpreted);
  f(tt::full({2}, 3)).backward();
  CHECK(w.grad().to_vector() == std::vector<float>{8, 8});
}

TEST_CASE("an argument in the memory of a tensor that the function writes is not read after the write") {
  const Tensor seen = tt::ones({4});
  const auto f = [&](const Tensor& x) {
    const tt::NoGrad guard;
    const Tensor before = tt::exp(x);
    Tensor(seen).add_(tt::ones({4}));
    return before + seen;
  };
  auto strict = tt::compile(f, kInterpreted);
  for (int k = 0; k < 5; ++k) strict(tt::ones({4}));
  CHECK(errors::thrown_by([&] { strict(seen); }).text.find("argument 0") != std::string::npos);
  auto lenient = tt::compile(f, {.kernels = tt::RegionKernels::interpreted});
  for (int k = 0; k < 5; ++k) {
    const Tensor start = seen.clone();
    const std::vector<float> got = lenient(k == 0 ? tt::ones({4}) : seen).to_vector(),
                             after = seen.to_vector();
    Tensor(seen).copy_(start);
    CHECK(got == f(k == 0 ? tt::ones({4}) : seen).to_vector());
    CHECK(after == seen.to_vector());
  }
  CHECK(lenient.eager_reason().find("TT-COMPILE-04") != std::string::npos);
}

TEST_CASE("batch sizes on this device: computed indices and random numbers have the bits of the function") {
  tt::Linear layer(4, 6);
  const auto f = [&](const Tensor& x) {
    const Tensor h = tt::dropout(tt::tanh(layer(x)), 0.25);
    return tt::gather(h, 1, tt::argmax(h, 1, true)) * h + 1.0 / static_cast<double>(x.size(0));
  };
  auto compiled = tt::compile(f, kInterpreted);
  for (const int64_t n : {2, 3, 4, 5, 17, 5}) {
    CAPTURE(n);
    const Tensor x = tt::randn({n, 4}).requires_grad_(), y = x.detach().clone().requires_grad_();
    const tt::GeneratorState place = tt::default_generator().state();
    const Tensor got = compiled(x);
    got.sum().backward();
    tt::default_generator().set_state(place);
    const Tensor want = f(y);
    want.sum().backward();
    REQUIRE(got.to_vector() == want.to_vector());
    REQUIRE(x.grad().to_vector() == y.grad().to_vector());
  }
  CHECK(compiled.reports().size() == 5);
  CHECK(!compiled.reports().back().rehearsed.empty());
}
