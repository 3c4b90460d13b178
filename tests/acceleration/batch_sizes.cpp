// Batch sizes that were not recorded: the bits of the function for any of them, and no entry into the
// function after the first call with one.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <support/random_function.hpp>
#include <tinytorch/acceleration/compile_step.hpp>
#include <tinytorch/acceleration/compiled.hpp>
#include <tinytorch/backend/cpu/reduce.hpp>
#include <tinytorch/layers/layers.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace {
namespace tt = tinytorch;
using tt::Tensor;
using tt::Tensors;

const tt::CompileOptions kInterpreted{.kernels = tt::RegionKernels::interpreted, .strict = true};

// A function, and arguments for it of a batch size.
struct Case {
  const char* name;
  tt::TensorFunction f;
  std::function<Tensors(int64_t)> arguments;
};

struct Networks {
  tt::Linear wide{6, 10}, narrow{10, 6};
  tt::LayerNorm norm{10};
  tt::Conv2d conv{2, 4, 3, {.padding = 1}};
  tt::BatchNorm2d batch_norm{4};
  tt::Embedding table{9, 6};
  tt::Linear qkv{6, 18};
};

std::vector<Case> function_cases(Networks& net) {
  const auto rows = [](int64_t n) { return Tensors{tt::randn({n, 6})}; };
  const auto images = [](int64_t n) { return Tensors{tt::randn({n, 2, 5, 4})}; };
  return {
      {"network",
       [&](const Tensors& x) {
         const Tensor h = net.norm(net.wide(x[0]));
         return Tensors{net.narrow(tt::gelu(h) * h) - x[0]};
       },
       rows},
      {"numbers of the size",
       [](const Tensors& x) {
         const auto n = static_cast<double>(x[0].size(0));
         return Tensors{(x[0] - x[0].sum({0}) * (1 / n)) * (n + 0.5) + tt::clamp(x[0], -1, n)};
       },
       rows},
      {"constants of the size",
       [](const Tensors& x) {
         const int64_t n = x[0].size(0);
         Tensor state = tt::zeros({n, 6}, x[0].dtype());
         for (int t = 0; t < 3; ++t) state = tt::tanh(state * 0.5 + x[0]);
         return Tensors{state + tt::arange(n).to(x[0].dtype()).reshape({n, 1})};
       },
       rows},
      {"views and parts",
       [](const Tensors& x) {
         const Tensor a = x[0].slice(1, 0, 3), b = x[0].slice(1, 3, 6);
         const Tensor both = tt::cat({a, b}, 0);
         return Tensors{tt::matmul(both, a.t()).mean({1}, true) * both,
                        x[0].reshape({-1, 2, 3}).transpose(1, 2)};
       },
       rows},
      {"convolution",
       [&](const Tensors& x) {
         const Tensor h = tt::relu(net.conv(x[0]));
         return Tensors{tt::max_pool2d(h, 2).flatten(1) * 0.5};
       },
       images},
      {"running statistics", [&](const Tensors& x) { return Tensors{net.batch_norm(net.conv(x[0]))}; },
       images},
      {"random numbers", [](const Tensors& x) { return Tensors{tt::dropout(tt::sin(x[0]), 0.4) * x[0]}; },
       rows},
      {"indices that are computed",
       [](const Tensors& x) {
         const Tensor best = tt::argmax(x[0], 1, true);
         return Tensors{tt::gather(x[0], 1, best) * x[0], tt::index_select(x[0], 0, tt::argmax(x[0], 0)) * 2};
       },
       rows},
      {"loss of tokens",
       [&](const Tensors& x) {
         return Tensors{tt::cross_entropy(tt::matmul(net.table(x[0]), net.table.weight.t()), x[1])};
       },
       [](int64_t n) {
         return Tensors{tt::randint(0, 9, {n}), tt::randint(0, 9, {n})};
       }},
      {"attention",
       [&](const Tensors& x) {
         const int64_t n = x[0].size(0), T = x[0].size(1);
         const Tensor all = net.qkv(x[0]).reshape({n, T, 3, 2, 3}).permute({2, 0, 3, 1, 4});
         const Tensor p = tt::softmax(tt::matmul(all.select(0, 0), all.select(0, 1).t()), -1);
         return Tensors{tt::matmul(p, all.select(0, 2)).transpose(1, 2).reshape({n, T, 6}) + x[0]};
       },
       [](int64_t n) {
         return Tensors{tt::randn({n, 4, 6})};
       }},
  };
}

std::vector<double> bits_of(const Tensor& t) {
  return t.defined() ? t.detach().to_vector<double>() : std::vector<double>{-12345};
}

// Everything that a call changes, from equal states of the program before it.
std::vector<std::vector<double>> effects(Networks& net, const tt::StateDict& state, tt::GeneratorState random,
                                         const Tensors& x,
                                         const std::function<Tensors(const Tensors&)>& call) {
  net.batch_norm.load_state_dict(state);
  tt::default_generator().set_state(random);
  const std::vector<Tensor> parameters{net.wide.weight, net.narrow.bias,  net.norm.weight,
                                       net.conv.weight, net.table.weight, net.qkv.weight};
  for (Tensor p : parameters) p.zero_grad();
  for (Tensor a : x) {
    if (a.requires_grad()) a.zero_grad();
  }
  const Tensors y = call(x);
  std::vector<std::vector<double>> all;
  for (const Tensor& t : y) all.push_back(bits_of(t));
  if (y[0].requires_grad()) (y[0] * y[0] + y[0]).sum().backward();
  for (const Tensor& p : parameters) all.push_back(bits_of(p.grad()));
  for (const Tensor& a : x) all.push_back(bits_of(a.requires_grad() ? a.grad() : Tensor()));
  all.push_back(bits_of(net.batch_norm.running_mean)), all.push_back(bits_of(net.batch_norm.running_var));
  all.push_back({static_cast<double>(tt::default_generator().state().next_block)});
  return all;
}
}  // namespace

TEST_CASE("batch sizes: values, derivatives, statistics and random numbers have the bits of the function") {
  const uint64_t seed = test::fresh_seed();
  INFO("TINYTORCH_TEST_SEED=", seed);
  std::mt19937_64 random(seed);
  Networks net;
  for (const Case& c : function_cases(net)) {
    for (const bool grad : {true, false}) {
      CAPTURE(c.name);
      CAPTURE(grad);
      const std::unique_ptr<tt::NoGrad> guard = grad ? nullptr : std::make_unique<tt::NoGrad>();
      int entered = 0;
      tt::TensorFunction counted = [&](const Tensors& x) { return ++entered, c.f(x); };
      auto compiled = tt::compile(counted, kInterpreted);
      std::vector<int64_t> sizes{4, 9, 6};  // recorded
      for (int k = 0; k < 5; ++k) sizes.push_back(2 + static_cast<int64_t>(random() % 60));
      for (const int64_t n : {13, 67, 131, 2, 3, 1}) sizes.push_back(n);
      int64_t recorded = 3;
      for (size_t k = 0; k < sizes.size(); ++k) {
        const int64_t n = sizes[k];
        CAPTURE(n);
        for (int call = 0; call < 2; ++call) {
          Tensors x = c.arguments(n);
          for (Tensor& t : x) {
            if (grad && tt::is_floating(t.dtype())) t.requires_grad_();
          }
          const tt::StateDict state = net.batch_norm.state_dict();
          tt::StateDict before;
          for (const auto& [name, t] : state) before[name] = t.detach().clone();
          const tt::GeneratorState place = tt::default_generator().state();
          const int known = entered;
          const auto got = effects(net, before, place, x, [&](const Tensors& a) { return compiled(a); });
          const int entries = entered - known;
          REQUIRE(got == effects(net, before, place, x, c.f));
          if (k >= 3 && n > 1) REQUIRE(entries <= (call <= 1 ? 1 : 0));  // a rehearsal and a look, then none
        }
        if (n == 1) recorded = 4;  // layouts of one row may take other operations
      }
      const auto reports = compiled.reports();
      const auto own =
          std::ranges::count_if(reports, [](const tt::VariantReport& r) { return r.rehearsed.empty(); });
      CHECK(own >= 3);
      CHECK(own <= recorded);
      CHECK(std::ssize(reports) - own >= 5);
      CHECK(std::ssize(reports) - own <= kInterpreted.most_sizes);
      CHECK(compiled.report().find("any batch size (dimension 0 of argument 0") != std::string::npos);
    }
  }
}

TEST_CASE("batch sizes: a branch, a number or a setting that depends on the size is never wrong") {
  const std::vector<tt::TensorFunction> functions = {
      [](const Tensors& x) { return Tensors{x[0].size(0) > 100 ? tt::relu(x[0]) : tt::tanh(x[0])}; },
      [](const Tensors& x) { return Tensors{x[0].size(0) % 7 == 0 ? x[0] * 2 : x[0] + 2}; },
      [](const Tensors& x) { return Tensors{x[0] * (x[0].size(0) == 11 ? 3 : 2)}; },
      [](const Tensors& x) { return Tensors{tt::softmax(x[0], x[0].size(0) < 20 ? 0 : 1)}; },
      [](const Tensors& x) {
        return Tensors{tt::layer_norm(x[0], tt::ones({6}), tt::zeros({6}), x[0].size(0) > 20 ? 1.0 : 1e-5)};
      },
      [](const Tensors& x) { return Tensors{tt::topk(x[0], std::min<int64_t>(5, x[0].size(0)), 0).values}; },
      [](const Tensors& x) { return Tensors{x[0].slice(0, 0, std::min<int64_t>(8, x[0].size(0))) + 1}; },
      [](const Tensors& x) {
        Tensors y{tt::exp(x[0]), tt::sin(x[0])};
        return Tensors{y[x[0].size(0) == 13 ? 0 : 1]};  // the same steps, another result
      },
  };
  for (size_t f = 0; f < functions.size(); ++f) {
    CAPTURE(f);
    auto compiled = tt::compile(functions[f], kInterpreted);
    for (const int64_t n : {8, 9, 10, 11, 12, 13, 14, 1, 2, 21, 28, 101, 128, 11, 13, 3}) {
      CAPTURE(n);
      for (int call = 0; call < 2; ++call) {
        const Tensor x = tt::randn({n, 6});
        REQUIRE(compiled(Tensors{x})[0].to_vector() == functions[f]({x})[0].to_vector());
      }
    }
    CHECK(compiled.eager_reason().empty());
  }
}

TEST_CASE("batch sizes: what changes from call to call, or depends on elements unseen, is recorded") {
  int calls = 0;
  const std::vector<tt::TensorFunction> functions = {
      [&](const Tensors& x) { return Tensors{x[0] * ++calls}; },
      [](const Tensors& x) {  // a kernel that no operation calls
        Tensor sum = tt::empty({}, tt::f32, tt::cpu);
        bool all[tt::kMaxRank] = {true, true};
        tt::backend::cpu::reduce(tt::backend::ReduceFn::sum, sum.view_of(), x[0].view_of(), all, 1);
        return Tensors{x[0] * sum};
      },
  };
  for (const tt::TensorFunction& f : functions) {
    auto compiled = tt::compile(f, tt::CompileOptions{.kernels = tt::RegionKernels::interpreted});
    for (const int64_t n : {3, 4, 5, 6}) compiled(Tensors{tt::rand({n, 2}, tt::f32, tt::cpu) + 1});
    for (const tt::VariantReport& r : compiled.reports()) CHECK(r.rehearsed.empty());
    CHECK(compiled.report().find("not followed: without kernels, step 0") != std::string::npos);
  }
}

TEST_CASE("batch sizes: plans are kept for the sizes used last, and derivatives outlive their plan") {
  tt::CompileOptions options = kInterpreted;
  options.most_sizes = 2;
  int entered = 0;
  auto f = tt::compile([&](const Tensor& x) { return ++entered, tt::exp(x) * x; }, options);
  const auto call = [&](int64_t n) {
    const int before = entered;
    const Tensor x = tt::randn({n, 2});
    REQUIRE(f(x).to_vector() == (tt::exp(x) * x).to_vector());
    return entered - before;
  };
  for (const int64_t n : {2, 3, 4}) call(n);
  for (const int64_t n : {5, 6, 7})  // another need of gradients: another family
    f(tt::randn({n, 2}).requires_grad_());
  const Tensor kept = tt::randn({40, 2}).requires_grad_(), same = kept.detach().clone().requires_grad_();
  const Tensor y = f(kept);
  CHECK(call(8) == 1);
  CHECK(call(8) == 1);  // a look at what was rehearsed
  CHECK(call(9) == 1);  // the plan of 40 goes
  CHECK(call(8) == 0);
  CHECK(call(10) == 1);  // that of 9 goes
  CHECK(call(8) == 0);
  CHECK(call(9) == 1);
  y.sum().backward();
  (tt::exp(same) * same).sum().backward();
  CHECK(kept.grad().to_vector() == same.grad().to_vector());
  CHECK(f.reports().size() == 8);
  CHECK(f.report().find("rehearsed without kernels, after the recordings of f32 [4, 2]") !=
        std::string::npos);

  options.most_sizes = 0, options.most_variants = 4, options.strict = false;
  auto recorded = tt::compile([](const Tensor& t) { return t + 1; }, options);
  for (int64_t n = 1; n < 7; ++n) CHECK(recorded(tt::zeros({n})).to_vector() == tt::ones({n}).to_vector());
  CHECK(recorded.eager_reason().find("TT-COMPILE-07") != std::string::npos);
}

TEST_CASE("batch sizes: several arguments follow one size; modes, and a failed second look, are noticed") {
  tt::Dropout drop(0.5);
  drop.eval();
  const tt::TensorFunction f = [&](const Tensors& x) { return Tensors{(drop(x[0]) + x[1]) * x[2]}; };
  auto compiled = tt::compile(f, kInterpreted);
  const auto check = [&](int64_t n, int64_t m) {
    const Tensors x{tt::randn({n, 3}), tt::randn({m, 1}), tt::randn({3})};
    const tt::GeneratorState place = tt::default_generator().state();
    const std::vector<float> got = compiled(x)[0].to_vector();
    tt::default_generator().set_state(place);
    REQUIRE(got == f(x)[0].to_vector());
  };
  for (const int64_t n : {2, 3, 4, 5, 6, 77}) check(n, n);
  const auto rehearsed = [&] {
    const auto all = compiled.reports();
    return std::ranges::count_if(all, [](const tt::VariantReport& r) { return !r.rehearsed.empty(); });
  };
  CHECK(rehearsed() == 3);
  check(5, 1);  // two sizes: a recording
  CHECK(rehearsed() == 3);
  drop.train();
  check(6, 6);  // found by the look that follows a change of mode; nothing that was learnt is used any more
  check(8, 8), check(77, 77), check(2, 2);
  CHECK(rehearsed() == 0);
}

TEST_CASE(
    "batch sizes of training steps: weights have the bits of eager training, and one rehearsal per size") {
  struct Model : tt::Module {
    tt::Embedding table{11, 8};
    tt::Linear hidden{8, 24}, back{24, 11};
    tt::Dropout drop{0.3};
    Model() { add("table", table), add("hidden", hidden), add("back", back), add("drop", drop); }
    Tensor forward(const Tensor& x) override { return back(drop(tt::silu(hidden(table(x))))); }
  };
  const uint64_t seed = test::fresh_seed();
  INFO("TINYTORCH_TEST_SEED=", seed);
  std::mt19937_64 random(seed);
  Model net, plain;
  plain.load_state_dict(net.state_dict());
  tt::AdamW one(net.named_parameters(), {.lr = 1e-2}), two(plain.named_parameters(), {.lr = 1e-2});
  int entered = 0;
  auto step = tt::compile_step(
      net, one, [&](const Tensor& y, const Tensor& t) { return ++entered, tt::cross_entropy(y, t); },
      {.compile = kInterpreted});
  std::vector<int64_t> sizes{16, 5, 8};
  for (int k = 0; k < 12; ++k) sizes.push_back(1 + static_cast<int64_t>(random() % 40));
  for (const int64_t n : {97, 97, 1, 1, 97}) sizes.push_back(n);
  for (size_t k = 0; k < sizes.size(); ++k) {
    CAPTURE(sizes[k]);
    const Tensor x = tt::randint(0, 11, {sizes[k]}), t = tt::randint(0, 11, {sizes[k]});
    const tt::GeneratorState place = tt::default_generator().state();
    const int before = entered;
    const Tensor loss = step(x, t);
    if (k >= 3 && sizes[k] > 1) CHECK(entered - before <= 1);
    if (k + 1 == sizes.size()) CHECK(entered == before);
    tt::default_generator().set_state(place);
    two.zero_grad();
    const Tensor want = tt::cross_entropy(plain(x), t);
    want.backward();
    two.step();
    REQUIRE(loss.item() == want.item());
    const auto p = net.named_parameters(), q = plain.named_parameters();
    for (size_t i = 0; i < p.size(); ++i) REQUIRE(p[i].tensor.to_vector() == q[i].tensor.to_vector());
  }
  CHECK(step.report().find("any batch size (dimension 0 of argument 0 1)") != std::string::npos);
}

TEST_CASE("tables that a function makes once and keeps have their elements, also if a rehearsal made them") {
  std::map<int64_t, Tensor> tables;
  const auto f = [&](const Tensor& x) {
    Tensor& t = tables[x.size(0)];
    if (!t.defined()) t = tt::sin(tt::arange(x.size(0)).to(tt::f32)).reshape({x.size(0), 1});
    return x + t;
  };
  auto compiled = tt::compile(f, kInterpreted);
  for (const int64_t n : {2, 3, 4, 5, 7, 11}) {
    for (int call = 0; call < 4; ++call) {
      CAPTURE(n);
      const Tensor x = tt::randn({n, 3});
      const Tensor want = x + tt::sin(tt::arange(n).to(tt::f32)).reshape({n, 1});
      CHECK(compiled(x).to_vector() == want.to_vector());
      CHECK(f(x).to_vector() == want.to_vector());
    }
  }
}

TEST_CASE("without room for a variant a call runs eagerly and says so") {
  tt::CompileOptions options = kInterpreted;
  options.most_variants = 0, options.strict = false;
  auto compiled = tt::compile([](const Tensor& x) { return x * 2; }, options);
  CHECK(compiled(tt::ones({2})).to_vector() == std::vector<float>{2, 2});
  CHECK(compiled.eager_reason().find("TT-COMPILE-07") != std::string::npos);
}
