// Products of 8-bit codes for the checks of both kernels, with the exact sums.
#pragma once

#include <support/counted.hpp>

namespace course {

using backend::Activation;

struct ProductCase {
  int64_t M = 1, N = 1, K = 16;
  DType out = i32;
  Layout layout = Layout::contiguous;    // of the codes
  bool extremes = false;                 // codes of -128 and 127 only
  int64_t skipped = 0;                   // codes of each row that are no part of the operands
  bool bias = false, one_scale = false;  // for out of floats
  Activation fn = Activation::none;

  std::string text() const {
    return "x [" + std::to_string(M) + ", " + std::to_string(K) + "], weight [" + std::to_string(N) + ", " +
           std::to_string(K) + "], result " + name_of(out) + ", codes " + name_of_layout(layout) +
           (skipped > 0 ? ", from code " + std::to_string(skipped) + " of each row on" : "");
  }
};

// An operand [rows, K], which begins behind `skipped` codes of each row.
struct Codes {
  Values all;
  int64_t skipped, K;
  Codes(const ProductCase& c, int64_t rows)
      : all(Values::of(i8, {rows, c.skipped + c.K}, drawn(c, rows), c.layout).on_device()),
        skipped(c.skipped),
        K(c.K) {}
  View view() {
    View v = all.view();
    v.data = static_cast<char*>(v.data) + skipped * v.strides[1];
    v.shape[1] = K;
    return v;
  }
  Numbers numbers() {
    const Numbers x = all.numbers();
    const auto width = static_cast<size_t>(skipped + K);
    Numbers own;
    for (size_t i = 0; i < x.size(); ++i)
      if (i % width >= static_cast<size_t>(skipped)) own.push_back(x[i]);
    return own;
  }

 private:
  static Numbers drawn(const ProductCase& c, int64_t rows) {
    Numbers codes(static_cast<size_t>(rows * (c.skipped + c.K)));
    for (double& v : codes)
      v = c.extremes ? (uniform(0, 1) < 0.97 ? -128 : 127) : std::floor(uniform(-128, 128));
    return codes;
  }
};

inline void check_product(const ProductCase& c) {
  const auto placed = [](Values v) { return std::move(v).on_device(); };
  Codes x(c, c.M), w(c, c.N);
  Values out = placed(Values(c.out, {c.M, c.N}));
  Values x_scale = placed(Values::random(f32, {c.one_scale ? 1 : c.M}, Layout::contiguous, 0.02, 0.06)),
         w_scale = placed(Values::random(f32, {c.one_scale ? 1 : c.N}, Layout::contiguous, 0.02, 0.06)),
         bias = placed(Values::random(f32, {c.N}, Layout::contiguous, -50, 50));
  const bool floats = c.out != i32;
  backend::cuda::linear_int8(out.view(), x.view(), w.view(), floats ? x_scale.view() : View{},
                             floats ? w_scale.view() : View{}, c.bias ? bias.view() : View{}, c.fn);
  const Numbers a = x.numbers(), b = w.numbers(), row = x_scale.numbers(), column = w_scale.numbers(),
                added = bias.numbers();
  const auto N = static_cast<size_t>(c.N), K = static_cast<size_t>(c.K);
  Numbers want(static_cast<size_t>(c.M) * N);
  double size = 1;
  for (size_t i = 0; i < want.size(); ++i) {
    const double *p = a.data() + i / N * K, *q = b.data() + i % N * K;
    double sum = 0;  // exact: below 2^53
    for (size_t k = 0; k < K; ++k) sum += p[k] * q[k];
    if (floats)
      sum =
          sum * row[c.one_scale ? 0 : i / N] * column[c.one_scale ? 0 : i % N] + (c.bias ? added[i % N] : 0);
    size = std::max(size, std::abs(sum));
    want[i] = c.fn == Activation::relu ? std::max(sum, 0.0) : sum;
  }
  expect_close("linear_int8: " + c.text(), out, want,
               {.dtype = c.out, .roundings = 4, .scale = floats ? size : 0});
}

}  // namespace course
