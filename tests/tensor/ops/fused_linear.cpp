// Fused operations equal their composition: the same values (rounded less often) and the same gradients.
#include <doctest/doctest.h>

#include <support/errors.hpp>
#include <support/few.hpp>
#include <support/fused.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using namespace test;
using tt::Activation;
using tt::Tensor;

TEST_CASE("linear_activation equals its composition" * test::long_on_emulator()) {
  for (const tt::DType t : {tt::f32, tt::f64, tt::bf16, tt::f16}) {
    for (const int64_t n : {0, 1, 5, 33}) {
      for (const Activation fn : kActivations) {
        const Tensor x = random({3, n, 7}, t, 1), w = random({5, 7}, t, 3), c = random({5}, t, 4);
        CHECK(distance(tt::linear_activation(x, w, c, fn), test::activated(tt::linear(x, w, c), fn)) <=
              2 * tolerance(t));
        CHECK(distance(tt::linear_activation(x, w, {}, fn), test::activated(tt::linear(x, w), fn)) <=
              2 * tolerance(t));
      }
    }
  }
  expect_error("TT-SHAPE-02", "linear", [] {
    tt::linear_activation(tt::ones({2, 3}), tt::ones({2, 4}), {}, Activation::relu);
  });
}

TEST_CASE("linear_residual equals linear and a sum in double precision, rounded once") {
  for (const tt::DType t : {tt::f32, tt::f64, tt::bf16, tt::f16}) {
    for (const int64_t n : {0, 1, 5, 33}) {
      const Tensor x = random({3, n, 7}, t, 1), w = random({5, 7}, t, 2), b = random({5}, t, 3),
                   r = random({3, n, 5}, t, 4), turned = random({n, 3, 5}, t, 5).transpose(0, 1);
      const auto expected = [&](const Tensor& bias, const Tensor& residual) {
        const Tensor wide = bias.defined() ? bias.to(tt::f64) : bias;
        return residual.to(tt::f64) + tt::linear(x.to(tt::f64), w.to(tt::f64), wide);
      };
      const double allowed = (tt::size_of(t) == 2 ? 0.51 : 8) * tt::epsilon_of(t);
      CHECK(distance(tt::linear_residual(x, w, b, r), expected(b, r)) <= allowed);
      CHECK(distance(tt::linear_residual(x, w, {}, r), expected({}, r)) <= allowed);
      CHECK(distance(tt::linear_residual(x, w, b, turned), expected(b, turned)) <= allowed);
    }
  }
  CHECK(tt::linear_residual(tt::ones({3}), tt::ones({2, 3}), {}, tt::ones({2})).shape() == tt::Shape{2});
  const auto refused = [](const tt::Shape& x, const tt::Shape& w, const tt::Shape& r) {
    return [=] { tt::linear_residual(tt::ones(x), tt::ones(w), {}, tt::ones(r)); };
  };
  expect_error("TT-SHAPE-02", "residual [..., N]", refused({2, 3}, {4, 3}, {4}));
  expect_error("TT-SHAPE-02", "residual [..., N]", refused({2, 3, 3}, {4, 3}, {6, 4}));
  expect_error("TT-SHAPE-02", "linear", refused({2, 3}, {4, 5}, {2, 4}));
  expect_error("TT-SHAPE-04", "weight", refused({2, 3}, {3}, {2, 3}));
  expect_error("TT-SHAPE-04", "linear_residual", refused({}, {4, 3}, {4}));
  expect_error("TT-DTYPE-03", "linear_residual", [] {
    tt::linear_residual(tt::ones({2, 3}), tt::ones({4, 3}), {}, tt::ones({2, 4}, tt::f64));
  });
}

namespace {

// Largest difference in units of the largest value (at least 1), because gradients of weights are long sums.
double spread(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  const std::vector<double> u = a.to_vector<double>(), v = b.to_vector<double>();
  double worst = 0, largest = 1;
  for (size_t i = 0; i < u.size(); ++i) {
    worst = std::max(worst, std::abs(u[i] - v[i]));
    largest = std::max(largest, std::abs(v[i]));
  }
  return worst / largest;
}

// The composition in double precision on the same values.
Tensor composed_mlp(const tt::Tensors& in, Activation fn) {
  return tt::linear(test::activated(tt::linear(in[0], in[1], in[2]), fn), in[3], in[4]);
}

struct MlpCase {
  tt::DType dtype;
  Activation fn;
  int64_t n, F = 16;
  bool up_bias = true, down_bias = true, strided = false;
};

void check_mlp(const MlpCase& c) {
  INFO(std::string(tt::name_of(c.dtype)), " n=", c.n, " F=", c.F, " activation ", static_cast<int>(c.fn),
       " biases ", c.up_bias, c.down_bias, " strided ", c.strided);
  const auto operand = [&](int64_t rows, int64_t columns, uint64_t seed) {
    return c.strided ? random({columns, rows}, c.dtype, seed).t() : random({rows, columns}, c.dtype, seed);
  };
  Tensor x = random({3, c.n, 8}, c.dtype, 1);
  if (c.strided) x = random({c.n, 3, 8}, c.dtype, 1).transpose(0, 1);
  tt::Tensors in{x, operand(c.F, 8, 2), c.up_bias ? random({c.F}, c.dtype, 3) : Tensor(), operand(24, c.F, 4),
                 c.down_bias ? random({24}, c.dtype, 5) : Tensor()};
  tt::Tensors wide;
  for (Tensor& t : in) {
    wide.push_back(t.defined() ? t.to(tt::f64).clone().requires_grad_() : t);
    if (t.defined()) t.requires_grad_();
  }
  const Tensor seed =
      c.strided ? random({24, c.n, 3}, c.dtype, 6).permute({2, 1, 0}) : random({3, c.n, 24}, c.dtype, 6);
  const auto run = [&](const tt::Tensors& t) { return tt::mlp(t[0], t[1], t[2], t[3], t[4], c.fn); };
  const Tensor y = run(in), expected = composed_mlp(wide, c.fn);
  tt::sum(y * seed).backward();
  tt::sum(expected * seed.to(tt::f64)).backward();
  // For 16-bit types, z, h and the gradients of both are rounded in between.
  const double allowed = (tt::size_of(c.dtype) == 2 ? 4 : 32) * tt::epsilon_of(c.dtype);
  CHECK(spread(y, expected) <= allowed);
  for (size_t k = 0; k < in.size(); ++k) {
    INFO("operand ", k);
    if (in[k].defined()) CHECK(spread(in[k].grad(), wide[k].grad()) <= allowed);
  }
  tt::NoGrad no_grad;  // then h and z are not kept
  CHECK(spread(run(in), expected) <= allowed);
}

}  // namespace

TEST_CASE("mlp equals linear, activation, linear in double precision, and so do its gradients" *
          test::long_on_emulator()) {
  for (const tt::DType t : {tt::f32, tt::f64, tt::bf16, tt::f16}) {
    for (const Activation fn : kActivations) {
      for (const int64_t n : {0, 1, 11}) check_mlp({t, fn, n});
      check_mlp({.dtype = t, .fn = fn, .n = 4, .F = 13});
      check_mlp({.dtype = t, .fn = fn, .n = 4, .up_bias = false});
      check_mlp({.dtype = t, .fn = fn, .n = 4, .down_bias = false});
      check_mlp({.dtype = t, .fn = fn, .n = 4, .up_bias = false, .down_bias = false});
      check_mlp({.dtype = t, .fn = fn, .n = 4, .strided = true});
    }
  }
}

TEST_CASE("mlp: sizes that do not fit are errors that state the rule") {
  const auto mlp = [](const tt::Shape& x, const tt::Shape& up, const tt::Shape& b, const tt::Shape& down,
                      const tt::Shape& c) {
    return tt::mlp(tt::ones(x), tt::ones(up), tt::ones(b), tt::ones(down), tt::ones(c), Activation::relu);
  };
  CHECK(mlp({3}, {5, 3}, {5}, {2, 5}, {2}).shape() == tt::Shape{2});
  expect_error("TT-SHAPE-02", "w_up [F, K]", [&] { mlp({2, 3}, {5, 4}, {5}, {2, 5}, {2}); });
  expect_error("TT-SHAPE-02", "w_up [F, K]", [&] { mlp({2, 3}, {5, 3}, {3}, {2, 5}, {2}); });
  expect_error("TT-SHAPE-02", "w_up [F, K]", [&] { mlp({2, 3}, {5, 3}, {5}, {5, 2}, {5}); });
  expect_error("TT-SHAPE-02", "w_up [F, K]", [&] { mlp({2, 3}, {5, 3}, {5}, {2, 5}, {5}); });
  expect_error("TT-SHAPE-04", "mlp", [&] { mlp({}, {5, 3}, {5}, {2, 5}, {2}); });
  expect_error("TT-SHAPE-04", "w_down [N, F]", [&] { mlp({2, 3}, {5, 3}, {5}, {5}, {2}); });
  expect_error("TT-DTYPE-03", "mlp", [&] {
    tt::mlp(tt::ones({2, 3}), tt::ones({5, 3}, tt::f64), {}, tt::ones({2, 5}), {}, Activation::relu);
  });
}
