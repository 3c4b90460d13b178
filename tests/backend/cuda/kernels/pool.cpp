#include <support/device_array.hpp>
#include <support/references.hpp>

using namespace test;

#if TINYTORCH_WITH_CUDA

TEST_CASE("max_pool2d and its gradient equal the definition" * needs_devices()) {
  for (const PoolCase& c : kPoolCases) {
    const Window2d window{c.kernel, c.kernel, c.stride, c.padding, 1};
    const int64_t OH = backend::window_outputs(c.H, c.kernel, window);
    const int64_t OW = backend::window_outputs(c.W, c.kernel, window);
    for (DType dtype : kFloating) {
      for (Layout layout : {Layout::dense, Layout::gaps}) {
        DeviceArray x =
            // All values are negative, so a padding of zeros would be the maximum.
            DeviceArray::random(dtype, {c.N, c.C, c.H, c.W}, 1, -9, -1, layout);
        DeviceArray y(dtype, {c.N, c.C, OH, OW}), index(i32, {c.N, c.C, OH, OW}, layout),
            dx(dtype, x.shape(), layout);
        DeviceArray dy = DeviceArray::random(dtype, y.shape(), 2, -1, 1, layout);
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

TEST_CASE("max_pool2d propagates NaN, and a window of -inf alone gives a position inside the image" *
          needs_devices()) {
  DeviceArray x =
      DeviceArray::from(f32, {1, 1, 2, 4}, {1, NAN, -INFINITY, -INFINITY, 5, 2, -INFINITY, -INFINITY});
  DeviceArray y(f32, {1, 1, 1, 2}), index(i32, {1, 1, 1, 2});
  kernels::max_pool2d(y.view(), index.view(), x.view(), {2, 2, 2, 0, 1});
  CHECK(std::isnan(y.values()[0]));
  CHECK(y.values()[1] == -INFINITY);
  CHECK(index.values() == std::vector<double>{1, 2});
}

TEST_CASE("avg_pool2d and its gradient equal the definition" * needs_devices()) {
  for (const PoolCase& c : kPoolCases) {
    const Window2d window{c.kernel, c.kernel, c.stride, c.padding, 1};
    const int64_t OH = backend::window_outputs(c.H, c.kernel, window);
    const int64_t OW = backend::window_outputs(c.W, c.kernel, window);
    for (DType dtype : kFloating) {
      for (Layout layout : {Layout::dense, Layout::gaps}) {
        DeviceArray x = DeviceArray::random(dtype, {c.N, c.C, c.H, c.W}, 1, -1, 1, layout);
        DeviceArray y(dtype, {c.N, c.C, OH, OW}, layout), dx(dtype, x.shape(), layout);
        DeviceArray dy = DeviceArray::random(dtype, y.shape(), 2, -1, 1, layout);
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

TEST_CASE("adaptive_avg_pool2d and its gradient equal the definition" * needs_devices()) {
  const int64_t sizes[][4] = {{1, 1, 1, 1},  {7, 5, 1, 1}, {8, 8, 4, 4},
                              {7, 11, 3, 4}, {3, 3, 5, 7}, {33, 65, 2, 3}};
  for (const auto& [H, W, OH, OW] : sizes) {
    for (DType dtype : kFloating) {
      DeviceArray x = DeviceArray::random(dtype, {2, 3, H, W}, 1, -1, 1, Layout::gaps);
      DeviceArray y(dtype, {2, 3, OH, OW}), dx(dtype, x.shape());
      DeviceArray dy = DeviceArray::random(dtype, y.shape(), 2);
      kernels::adaptive_avg_pool2d(y.view(), x.view());
      kernels::adaptive_avg_pool2d_grad(dx.view(), dy.view());
      const PoolExpected want = expected_adaptive_avg_pool(H, W, OH, OW, x.values(), dy.values());
      check_close(y.values(), want.y, dtype, 100);
      check_close(dx.values(), want.dx, dtype, 30);
    }
  }
}

#else
TEST_CASE("without CUDA there are no kernels to test" * doctest::skip()) {}
#endif
