// composed_attention is compared with plain loops: masks, windows, groups, more keys than queries, and its
// derivative.
#include <tinytorch/transformer/composed_attention.hpp>

#include <support/errors.hpp>
#include <support/values.hpp>
#include <tinytorch/autograd/gradcheck.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

namespace {

struct Sizes {
  int64_t B, H, G, T, S, D;
};

std::vector<double> oracle(const Sizes& n, const tt::Tensor& q, const tt::Tensor& k, const tt::Tensor& v,
                           const tt::AttentionOptions& o) {
  const auto qs = q.to_vector<double>(), ks = k.to_vector<double>(), vs = v.to_vector<double>();
  const auto at = [](int64_t i) { return static_cast<size_t>(i); };
  const double scale = o.scale != 0 ? o.scale : 1 / std::sqrt(static_cast<double>(n.D));
  std::vector<double> out;
  for (int64_t bh = 0; bh < n.B * n.H; ++bh) {
    const int64_t group = bh / n.H * n.G + bh % n.H / (n.H / n.G);
    for (int64_t t = 0; t < n.T; ++t) {
      std::vector<double> p;
      double sum = 0;
      for (int64_t s = 0; s < n.S; ++s) {
        const int64_t behind = t + n.S - n.T - s;
        const bool seen = (!o.causal || behind >= 0) && (o.window == 0 || std::abs(behind) < o.window);
        double score = 0;
        for (int64_t d = 0; d < n.D; ++d)
          score += qs[at((bh * n.T + t) * n.D + d)] * ks[at((group * n.S + s) * n.D + d)];
        p.push_back(seen ? std::exp(scale * score) : 0);
        sum += p.back();
      }
      for (int64_t d = 0; d < n.D; ++d) {
        double value = 0;
        for (int64_t s = 0; s < n.S; ++s) value += p[at(s)] * vs[at((group * n.S + s) * n.D + d)];
        out.push_back(sum > 0 ? value / sum : 0);
      }
    }
  }
  return out;
}

struct Inputs {
  tt::Tensor q, k, v;
};
Inputs inputs_of(const Sizes& n, tt::DType dtype) {
  tt::Generator g(7);
  const auto make = [&](int64_t heads, int64_t rows) {
    return tt::randn({n.B, heads, rows, n.D}, dtype, tt::default_device(), g);
  };
  tt::Tensor q = make(n.H, n.T), k = make(n.G, n.S), v = make(n.G, n.S);
  return {q, k, v};
}

}  // namespace

TEST_CASE("composed attention matches plain loops") {
  const std::vector<Sizes> sizes = {{1, 1, 1, 1, 1, 1}, {2, 3, 3, 5, 5, 4}, {2, 6, 2, 4, 7, 3},
                                    {1, 4, 1, 1, 9, 5}, {1, 2, 1, 6, 4, 2}, {2, 3, 1, 17, 17, 7}};
  const std::vector<tt::AttentionOptions> options = {{},
                                                     {.causal = true},
                                                     {.causal = true, .window = 3},
                                                     {.window = 2},
                                                     {.causal = true, .scale = 0.3},
                                                     {.causal = true, .window = 1}};
  for (const Sizes& n : sizes) {
    for (const tt::AttentionOptions& o : options) {
      CAPTURE(n.T);
      CAPTURE(n.S);
      CAPTURE(o.causal);
      CAPTURE(o.window);
      const Inputs x = inputs_of(n, tt::f64);
      const tt::Tensor y = tt::composed_attention(x.q, x.k, x.v, o);
      CHECK(y.shape() == tt::Shape{n.B, n.H, n.T, n.D});
      check_values(y.to_vector<double>(), oracle(n, x.q, x.k, x.v, o), 1e-12);
    }
  }
}

TEST_CASE("a query without keys gives zero values and gradients, in every dtype") {
  for (const tt::DType dtype : {tt::f32, tt::f64, tt::bf16, tt::f16}) {
    Inputs x = inputs_of({1, 1, 1, 4, 2, 3}, dtype);  // queries at positions -2, -1, 0, 1
    x.q.requires_grad_(), x.k.requires_grad_();
    const tt::Tensor y = tt::composed_attention(x.q, x.k, x.v, {.causal = true});
    const std::vector<double> values = y.to_vector<double>();
    for (size_t i = 0; i < 6; ++i) CHECK(values[i] == 0);
    CHECK(values[6] != 0);
    tt::sum(y * y).backward();
    for (const double g : x.q.grad().to_vector<double>()) CHECK(std::isfinite(g));
    for (const double g : x.k.grad().to_vector<double>()) CHECK(std::isfinite(g));
    CHECK(x.q.grad().to_vector<double>()[0] == 0);
  }
}

TEST_CASE("the derivatives of composed attention match finite differences") {
  const Inputs x = inputs_of({1, 4, 2, 3, 4, 2}, tt::f64);
  for (const tt::AttentionOptions& o :
       {tt::AttentionOptions{}, tt::AttentionOptions{.causal = true, .window = 2}}) {
    const auto f = [&](const tt::Tensors& in) { return tt::composed_attention(in[0], in[1], in[2], o); };
    tt::Tensors in = {x.q.clone().requires_grad_(), x.k.clone().requires_grad_(),
                      x.v.clone().requires_grad_()};
    const auto result = tt::gradcheck(f, in);
    CHECK_MESSAGE(result.passed, result.message);
  }
}

TEST_CASE("dropout keeps the expected value and draws from the default generator") {
  const int64_t S = 4000;
  tt::Tensor q = tt::zeros({1, 1, 1, 2}), k = tt::zeros({1, 1, S, 2}), v = tt::ones({1, 1, S, 2});
  tt::manual_seed(3);
  const float first = tt::composed_attention(q, k, v, {.dropout = 0.25}).to_vector()[0];
  CHECK(first == doctest::Approx(1).epsilon(0.05));
  CHECK(first != 1);
  CHECK(tt::composed_attention(q, k, v, {.dropout = 0.25}).to_vector()[0] != first);
  tt::manual_seed(3);
  CHECK(tt::composed_attention(q, k, v, {.dropout = 0.25}).to_vector()[0] == first);
}

TEST_CASE("shapes that do not match throw and are named") {
  const auto text = [](const tt::Shape& q, const tt::Shape& k, const tt::Shape& v) {
    return message_of([&] { tt::composed_attention(tt::zeros(q), tt::zeros(k), tt::zeros(v)); });
  };
  CHECK(text({1, 2, 3, 4}, {1, 1, 5, 4}, {1, 1, 5, 4}) == "");
  for (const std::string& message :
       {text({1, 3, 3, 4}, {1, 2, 5, 4}, {1, 2, 5, 4}), text({1, 2, 3, 4}, {1, 2, 5, 3}, {1, 2, 5, 3}),
        text({1, 2, 3, 4}, {2, 2, 5, 4}, {2, 2, 5, 4}), text({1, 2, 3, 4}, {1, 2, 5, 4}, {1, 2, 6, 4}),
        text({2, 3, 4}, {2, 3, 4}, {2, 3, 4}), text({1, 2, 3, 4}, {1, 0, 5, 4}, {1, 0, 5, 4})}) {
    CHECK(message.starts_with("TT-SHAPE-02: attention"));
    CHECK(message.find("rule: q [B, H, T, D]") != std::string::npos);
  }
}
