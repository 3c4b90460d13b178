// Products on a GPU, or in the emulator, for the checks of the kernels of this module.
#pragma once

#include <numeric>
#include <support/counted.hpp>
#include <tinytorch/backend/cuda/kernels/ladder/steps.hpp>

namespace course {

struct ProductCase {
  int64_t M = 1, N = 1, K = 1;
  Layout a = Layout::contiguous, b = Layout::contiguous, out = Layout::contiguous;
  int64_t skipped = 0;  // columns of each matrix that come before it in its rows
  int64_t behind = 0;   // columns of a and b behind the matrix, which are NaN
  DType dtype = f32, result = f32;
  bool upside_down = false;  // negative row strides
};

// A matrix that begins behind `skipped` columns of a larger one, perhaps with the last row first.
struct Part {
  Values all;
  int64_t skipped, cols;
  bool upside_down;
  Part(Values v, const ProductCase& c, int64_t behind = 0)
      : all(std::move(v).on_device()),
        skipped(c.skipped),
        cols(all.shape()[1] - c.skipped - behind),
        upside_down(c.upside_down) {}
  static Values drawn(const ProductCase& c, int64_t rows, int64_t width, Layout layout) {
    Numbers x;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < c.skipped + width; ++j) x.push_back(uniform(-1, 1));
      x.insert(x.end(), static_cast<size_t>(c.behind), std::numeric_limits<double>::quiet_NaN());
    }
    return Values::of(c.dtype, {rows, c.skipped + width + c.behind}, x, layout);
  }
  View view() {
    View v = all.view();
    const auto bytes = static_cast<int64_t>(size_of(v.dtype));
    v.data = static_cast<char*>(v.data) + skipped * v.strides[1] * bytes;
    v.shape[1] = cols;
    if (upside_down) {
      v.data = static_cast<char*>(v.data) + (v.shape[0] - 1) * v.strides[0] * bytes;
      v.strides[0] = -v.strides[0];
    }
    return v;
  }
  Numbers numbers() {
    const Numbers x = all.numbers();
    const int64_t rows = all.shape()[0], width = all.shape()[1];
    Numbers own;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < cols; ++j)
        own.push_back(x[static_cast<size_t>((upside_down ? rows - 1 - i : i) * width + skipped + j)]);
    return own;
  }
};

inline Numbers ladder_sums(const Numbers& a, const Numbers& b, int64_t M, int64_t N, int64_t K) {
  Numbers want(static_cast<size_t>(M * N));
  for (int64_t m = 0; m < M; ++m)
    for (int64_t k = 0; k < K; ++k)
      for (int64_t n = 0; n < N; ++n)
        want[static_cast<size_t>(m * N + n)] +=
            a[static_cast<size_t>(m * K + k)] * b[static_cast<size_t>(k * N + n)];
  return want;
}

template <class F>
void check_ladder(const char* name, const ProductCase& c, F&& gemm) {
  Part a(Part::drawn(c, c.M, c.K, c.a), c, c.behind), b(Part::drawn(c, c.K, c.N, c.b), c, c.behind),
      out(Values(c.result, {c.M, c.skipped + c.N}, c.out), c);
  const Numbers want = ladder_sums(a.numbers(), b.numbers(), c.M, c.N, c.K);
  gemm(out.view(), a.view(), b.view());
  expect_close(
      std::string(name) + " of [" + std::to_string(c.M) + ", " + std::to_string(c.K) + "] (" +
          name_of_layout(c.a) + ") and [" + std::to_string(c.K) + ", " + std::to_string(c.N) + "] (" +
          name_of_layout(c.b) + ") to " + name_of(c.result) + " (" + name_of_layout(c.out) + ")" +
          (c.skipped > 0 ? ", from column " + std::to_string(c.skipped) + " of each matrix on" : "") +
          (c.upside_down ? ", the last row first" : "") + (c.behind > 0 ? ", with NaN behind the rows" : ""),
      out.numbers(), want, {c.M, c.N},
      {.dtype = c.result, .roundings = 8, .scale = 1 + static_cast<double>(c.K) / 2});
  const Numbers all = out.all.numbers();
  for (size_t i = 0; i < all.size(); ++i) {
    if (static_cast<int64_t>(i) % (c.skipped + c.N) < c.skipped)
      expect_equal("the columns before the result are as they were", all[i], Values::unwritten(c.result));
  }
}

// Counts of one product of contiguous matrices.
template <class F>
Counted count_ladder(int64_t M, int64_t N, int64_t K, DType dtype, F&& gemm) {
  Values a = Values::random(dtype, {M, K}).on_device(), b = Values::random(dtype, {K, N}).on_device(),
         out = Values(f32, {M, N}).on_device();
  const View to = out.view(), left = a.view(), right = b.view();
  return counted([&] { gemm(to, left, right); });
}

template <class F>
void check_ladder_refusals(DType dtype, F&& gemm) {
  Values a = Values::random(dtype, {3, 4}).on_device(), b = Values::random(dtype, {5, 6}).on_device(),
         out = Values(f32, {3, 6}).on_device(), wide = Values(f64, {4, 4}).on_device(),
         flat = Values::random(dtype, {4}).on_device();
  expect_throws("TT-SHAPE-02", "[3, 4] times [5, 6]", [&] { gemm(out.view(), a.view(), b.view()); });
  expect_throws("TT-DTYPE-02", "f64", [&] { gemm(wide.view(), wide.view(), wide.view()); });
  expect_throws("TT-SHAPE-04", "a vector", [&] { gemm(out.view(), a.view(), flat.view()); });
}

}  // namespace course
