#include <support/array.hpp>

#include <functional>
#include <support/references.hpp>
#include <tinytorch/backend/cpu/pool.hpp>

using namespace test;
using tinytorch::backend::Window2d;
namespace kernels = tinytorch::backend::cpu;

namespace {
// The results of channels-last images are channels-last.
Layout layout_of_results(Layout images) { return images == Layout::channels_last ? images : Layout::dense; }
}  // namespace

TEST_CASE("max_pool2d and its gradient equal the definition") {
  for (const PoolCase& c : kPoolCases) {
    const Window2d window{c.kernel, c.kernel, c.stride, c.padding, 1};
    const int64_t OH = backend::window_outputs(c.H, c.kernel, window);
    const int64_t OW = backend::window_outputs(c.W, c.kernel, window);
    for (DType dtype : kFloating) {
      for (Layout layout : {Layout::dense, Layout::gaps, Layout::channels_last}) {
        Array x =
            Array::random(dtype, {c.N, c.C, c.H, c.W}, 1, -9, -1, layout);  // padding must not count as 0
        const Layout results = layout_of_results(layout);
        Array y(dtype, {c.N, c.C, OH, OW}, results), index(i32, {c.N, c.C, OH, OW}, results),
            dx(dtype, x.shape(), results);
        Array dy = Array::random(dtype, y.shape(), 2, -1, 1, layout);
        kernels::max_pool2d(y.view(), index.view(), x.view(), window);
        kernels::max_pool2d_grad(dx.view(), dy.view(), index.view(), window);
        const std::vector<double> in = x.values(), grad = dy.values();
        std::vector<double> best(grad.size(), -INFINITY), want_dx(in.size(), 0.0);
        std::vector<int64_t> at(grad.size(), -1);
        visit_windows(c, OH, OW, [&](size_t o, int64_t i) {
          if (i < 0 || in[static_cast<size_t>(i)] <= best[o]) return;
          best[o] = in[static_cast<size_t>(i)];
          at[o] = i;
        });
        for (size_t o = 0; o < grad.size(); ++o) want_dx[static_cast<size_t>(at[o])] += grad[o];
        CHECK(y.values() == best);
        check_close(dx.values(), want_dx, dtype, 16);
      }
    }
  }
}

TEST_CASE(
    "max_pool2d returns NaN if a window has one, and the position of a window of -inf is inside the image") {
  Array x = Array::from(f32, {1, 1, 2, 4}, {1, NAN, -INFINITY, -INFINITY, 5, 2, -INFINITY, -INFINITY});
  Array y(f32, {1, 1, 1, 2}), index(i32, {1, 1, 1, 2});
  kernels::max_pool2d(y.view(), index.view(), x.view(), {2, 2, 2, 0, 1});
  CHECK(std::isnan(y.values()[0]));
  CHECK(y.values()[1] == -INFINITY);
  CHECK(index.values() == std::vector<double>{1, 2});
}

TEST_CASE("max_pool2d takes the first of equal values, in blocks of outputs and in the remainder") {
  for (const PoolCase& c : {PoolCase{2, 1, 9, 45, 2, 2, 0},
                            {1, 2, 7, 45, 3, 1, 1},
                            {1, 1, 11, 70, 3, 3, 1},
                            {1, 1, 8, 33, 2, 1, 0}}) {
    const Window2d window{c.kernel, c.kernel, c.stride, c.padding, 1};
    const int64_t OH = backend::window_outputs(c.H, c.kernel, window);
    const int64_t OW = backend::window_outputs(c.W, c.kernel, window);
    Array x = Array::random(f32, {c.N, c.C, c.H, c.W}, 3);
    float* const values = x.view().as<float>();
    for (int64_t i = 0; i < c.N * c.C * c.H * c.W; ++i) values[i] = std::round(values[i]);  // -1, 0 and 1
    Array y(f32, {c.N, c.C, OH, OW}), index(i32, {c.N, c.C, OH, OW});
    kernels::max_pool2d(y.view(), index.view(), x.view(), window);
    const std::vector<double> in = x.values();
    std::vector<double> best(y.values().size(), -INFINITY), at(best.size(), -1);
    visit_windows(c, OH, OW, [&](size_t o, int64_t i) {
      if (i < 0 || in[static_cast<size_t>(i)] <= best[o]) return;
      best[o] = in[static_cast<size_t>(i)];
      at[o] = static_cast<double>(i % (c.H * c.W));
    });
    CHECK(y.values() == best);
    CHECK(index.values() == at);
  }
}

TEST_CASE("avg_pool2d and its gradient equal the definition") {
  for (const PoolCase& c : kPoolCases) {
    const Window2d window{c.kernel, c.kernel, c.stride, c.padding, 1};
    const int64_t OH = backend::window_outputs(c.H, c.kernel, window);
    const int64_t OW = backend::window_outputs(c.W, c.kernel, window);
    for (DType dtype : kFloating) {
      for (Layout layout : {Layout::dense, Layout::gaps, Layout::channels_last}) {
        Array x = Array::random(dtype, {c.N, c.C, c.H, c.W}, 1, -1, 1, layout);
        const Layout results = layout_of_results(layout);
        Array y(dtype, {c.N, c.C, OH, OW}, results), dx(dtype, x.shape(), results);
        Array dy = Array::random(dtype, y.shape(), 2, -1, 1, layout);
        kernels::avg_pool2d(y.view(), x.view(), window);
        kernels::avg_pool2d_grad(dx.view(), dy.view(), window);
        const std::vector<double> in = x.values(), grad = dy.values();
        std::vector<double> want(grad.size(), 0.0), want_dx(in.size(), 0.0);
        const double count = static_cast<double>(c.kernel * c.kernel);
        visit_windows(c, OH, OW, [&](size_t o, int64_t i) {
          if (i < 0) return;
          want[o] += in[static_cast<size_t>(i)] / count;
          want_dx[static_cast<size_t>(i)] += grad[o] / count;
        });
        check_close(y.values(), want, dtype, 30);
        check_close(dx.values(), want_dx, dtype, 30);
      }
    }
  }
}

TEST_CASE("adaptive_avg_pool2d and its gradient equal the definition") {
  const int64_t sizes[][4] = {{1, 1, 1, 1}, {7, 5, 1, 1},   {8, 8, 4, 4}, {7, 11, 3, 4},
                              {3, 3, 5, 7}, {33, 65, 2, 3}, {9, 6, 4, 1}, {9, 6, 1, 4}};
  for (const auto& [H, W, OH, OW] : sizes) {
    for (DType dtype : kFloating) {
      for (Layout layout : {Layout::gaps, Layout::channels_last}) {
        const Layout results = layout_of_results(layout);
        Array x = Array::random(dtype, {2, 3, H, W}, 1, -1, 1, layout);
        Array y(dtype, {2, 3, OH, OW}, results), dx(dtype, x.shape(), results);
        Array dy = Array::random(dtype, y.shape(), 2, -1, 1, results);
        kernels::adaptive_avg_pool2d(y.view(), x.view());
        kernels::adaptive_avg_pool2d_grad(dx.view(), dy.view());
        const PoolExpected want = expected_adaptive_avg_pool(H, W, OH, OW, x.values(), dy.values());
        check_close(y.values(), want.y, dtype, 100);
        check_close(dx.values(), want.dx, dtype, 30);
      }
    }
  }
}

TEST_CASE("averages of very long windows are accurate to a few epsilons") {
  constexpr int64_t kHeight = 400'000;
  for (const int64_t outputs : {1, 3}) {  // whole contiguous rows, and columns
    Array x = Array::random(f32, {1, 1, kHeight, 3}, 1, 0, 1), y(f32, {1, 1, 1, outputs});
    kernels::adaptive_avg_pool2d(y.view(), x.view());
    const std::vector<double> in = x.values(), got = y.values();
    for (int64_t o = 0; o < outputs; ++o) {
      double sum = 0;
      for (int64_t i = 0; i < 3 * kHeight; ++i)
        if (outputs == 1 || i % 3 == o) sum += in[static_cast<size_t>(i)];
      const double mean = sum / static_cast<double>(outputs == 1 ? 3 * kHeight : kHeight);
      CHECK(std::abs(got[static_cast<size_t>(o)] - mean) <= 2e-7 * mean);
    }
  }
}
