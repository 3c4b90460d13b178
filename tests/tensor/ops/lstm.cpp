#include <tinytorch/tensor/ops/lstm.hpp>

#include <doctest/doctest.h>

#include <support/errors.hpp>
#include <support/lstm_reference.hpp>
#include <support/values.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using test::Doubles;
using tt::Tensor, tt::Shape;

// Gradients are in tests/tensor/vjp/lstm.cpp, and PyTorch's values in tests/layers/recurrent.cpp.

namespace {

struct Sizes {
  int64_t T, B, I, H;
};
Tensor random(const Shape& shape, uint64_t seed, tt::DType dtype) {
  tt::Generator generator(seed);
  return (tt::randn(shape, tt::f64, tt::cpu, generator) * 0.7).to(dtype).to(tt::default_device());
}

// A pass in double precision, by loops.
struct Pass {
  Doubles output, hidden, cell;
};
Pass reference(const Sizes& s, const Doubles& x, const Doubles& w, const Doubles& bias, const Doubles& u,
               Pass state, bool reverse, const Doubles& inside) {
  const auto T = static_cast<size_t>(s.T), B = static_cast<size_t>(s.B), I = static_cast<size_t>(s.I),
             H = static_cast<size_t>(s.H);
  state.output.assign(T * B * H, 0);
  for (size_t k = 0; k < T; ++k) {
    const size_t t = reverse ? T - 1 - k : k;
    Doubles gates(B * 4 * H);
    for (size_t b = 0; b < B; ++b) {
      for (size_t n = 0; n < 4 * H; ++n) {
        double sum = bias.empty() ? 0 : bias[n];
        for (size_t i = 0; i < I; ++i) sum += x[(t * B + b) * I + i] * w[n * I + i];
        for (size_t i = 0; i < H; ++i) sum += state.hidden[b * H + i] * u[n * H + i];
        gates[b * 4 * H + n] = sum;
      }
    }
    Doubles in;
    for (size_t b = 0; b < B && !inside.empty(); ++b) in.push_back(inside[t * B + b]);
    const test::LstmCellReference r = test::lstm_cell_reference(gates, state.cell, in, state.hidden, H);
    state.hidden = r.hidden, state.cell = r.cell;
    std::copy(r.output.begin(), r.output.end(), state.output.begin() + static_cast<long>(t * B * H));
  }
  return state;
}

void check_pass(const Sizes& s, tt::DType dtype, bool reverse, bool with_bias, bool rests, double tolerance) {
  INFO("T ", s.T, " B ", s.B, " I ", s.I, " H ", s.H, " ", tt::name_of(dtype), " reverse ", reverse);
  const Tensor x = random({s.T, s.I, s.B}, 1, dtype).transpose(1, 2);  // not contiguous
  const tt::LstmWeights w{random({4 * s.H, s.I}, 2, dtype), random({4 * s.H, s.H}, 3, dtype),
                          with_bias ? random({4 * s.H}, 4, dtype) : Tensor(),
                          with_bias ? random({4 * s.H}, 5, dtype) : Tensor()};
  const tt::LstmStep start{random({s.B, s.H}, 6, dtype), random({s.B, s.H}, 7, dtype)};
  const Tensor inside = rests ? random({s.T, s.B}, 8, dtype) > 0 : Tensor();
  const auto values = [](const Tensor& t) {
    return t.defined() ? t.contiguous().to_vector<double>() : Doubles();
  };
  Doubles bias = values(w.input_bias);
  for (size_t k = 0; k < bias.size(); ++k) bias[k] += values(w.hidden_bias)[k];
  const Pass want = reference(s, values(x), values(w.input), bias, values(w.hidden),
                              {{}, values(start.hidden), values(start.cell)}, reverse,
                              rests ? values(inside.to(tt::f64)) : Doubles());
  const tt::LstmSequence got = tt::lstm_pass(x, w, start, reverse, inside);
  CHECK(got.output.shape() == Shape{s.T, s.B, s.H});
  CHECK(got.output.dtype() == dtype);
  check_values(values(got.output), want.output, tolerance);
  check_values(values(got.hidden), want.hidden, tolerance);
  check_values(values(got.cell), want.cell, tolerance);
  const Tensor leaf =
      x.detach().requires_grad_();  // the recorded pass keeps its gates, and gives the same bits
  const tt::LstmSequence recorded = tt::lstm_pass(leaf, w, start, reverse, inside);
  CHECK(values(recorded.output.detach()) == values(got.output));
  CHECK(values(recorded.hidden.detach()) == values(got.hidden));
  CHECK(values(recorded.cell.detach()) == values(got.cell));
}

}  // namespace

TEST_CASE("a pass equals loops in double precision") {
  for (const Sizes& s :
       {Sizes{1, 1, 1, 1}, {1, 3, 2, 7}, {5, 1, 7, 33}, {4, 33, 5, 7}, {3, 9, 1, 33}, {3, 0, 2, 4}}) {
    for (const bool reverse : {false, true}) {
      for (const bool rests : {false, true}) {
        check_pass(s, tt::f64, reverse, true, rests, 1e-12);
        check_pass(s, tt::f32, reverse, false, rests, 1e-5);
      }
      check_pass(s, tt::bf16, reverse, true, reverse, 0.1);
      check_pass(s, tt::f16, reverse, true, reverse, 0.02);
    }
  }
}

TEST_CASE("the cell equals its definition") {
  for (const tt::DType dtype : {tt::f64, tt::f32, tt::bf16, tt::f16}) {
    const Tensor gates = random({28, 5}, 1, dtype).t(), cell = random({5, 7}, 2, dtype);
    const test::LstmCellReference want = test::lstm_cell_reference(gates.contiguous().to_vector<double>(),
                                                                   cell.to_vector<double>(), {}, {}, 7);
    const tt::LstmStep got = tt::lstm_cell(gates, cell);
    const double tolerance = dtype == tt::f64 ? 1e-13 : dtype == tt::f32 ? 1e-6 : 0.01;
    check_values(got.hidden.to_vector<double>(), want.hidden, tolerance);
    check_values(got.cell.to_vector<double>(), want.cell, tolerance);
  }
  CHECK(tt::lstm_cell(tt::zeros({0, 8}), tt::zeros({0, 2})).hidden.shape() == Shape{0, 2});
}

TEST_CASE("sizes and dtypes that do not fit are refused") {
  const Tensor x = tt::zeros({2, 3, 4}), w = tt::zeros({20, 4}), u = tt::zeros({20, 5}),
               state = tt::zeros({3, 5});
  const auto pass = [&](const Tensor& sequence, const tt::LstmWeights& weights, const Tensor& inside = {}) {
    tt::lstm_pass(sequence, weights, {state, state}, false, inside);
  };
  pass(x, {w, u});
  test::expect_error("TT-SHAPE-02", "lstm_pass", [&] { pass(tt::zeros({2, 3, 5}), {w, u}); });
  test::expect_error("TT-SHAPE-02", "lstm_pass", [&] { pass(tt::zeros({0, 3, 4}), {w, u}); });
  test::expect_error("TT-SHAPE-02", "lstm_pass", [&] { pass(tt::zeros({2, 4, 4}), {w, u}); });
  test::expect_error("TT-SHAPE-02", "lstm_pass", [&] { pass(x, {w, u, tt::zeros({20})}); });
  test::expect_error("TT-SHAPE-02", "lstm_pass", [&] { pass(x, {w, u}, tt::zeros({2, 3})); });
  test::expect_error("TT-DTYPE-03", "lstm_pass", [&] { pass(x, {w, u.to(tt::f64)}); });
  test::expect_error("TT-SHAPE-02", "lstm_cell", [&] { tt::lstm_cell(tt::zeros({3, 16}), state); });
  test::expect_error("TT-SHAPE-04", "lstm_cell", [&] { tt::lstm_cell(tt::zeros({20}), tt::zeros({5})); });
  test::expect_error("TT-DTYPE-02", "lstm_cell", [&] {
    tt::lstm_cell(tt::zeros({3, 20}, tt::i64), tt::zeros({3, 5}, tt::i64));
  });
}
