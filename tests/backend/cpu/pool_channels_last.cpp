// Pooling of channels-last images: more channels than a task takes, equality with channels-first images,
// windows seen from outputs and from pixels, long sums. The definitions are tested in pool.cpp.
#include <support/array.hpp>

#include <support/references.hpp>
#include <tinytorch/backend/cpu/pool.hpp>
#include <tinytorch/backend/cpu/pool_channels_last.hpp>

using namespace test;
using tinytorch::backend::Window2d;
namespace kernels = tinytorch::backend::cpu;

namespace {

constexpr int64_t kManyChannels[] = {1, 3, kernels::kChannelBlock, 2 * kernels::kChannelBlock + 5};

struct Both {
  Array rows, pixels;
  Both(DType dtype, const Shape& shape) : rows(dtype, shape), pixels(dtype, shape, Layout::channels_last) {}
  Both(const Shape& shape, uint64_t seed)
      : rows(Array::random(f32, shape, seed)),
        pixels(Array::random(f32, shape, seed, -1, 1, Layout::channels_last)) {}
};

}  // namespace

TEST_CASE("max_pool2d, its positions and its gradient equal those of channels-first images bit by bit") {
  for (const int64_t C : kManyChannels) {
    for (const auto& [kernel, stride, padding] :
         {std::array<int64_t, 3>{2, 2, 0}, {3, 2, 1}, {3, 1, 1}, {5, 3, 2}}) {
      const Window2d w{kernel, kernel, stride, padding, 1};
      const int64_t OH = backend::window_outputs(7, kernel, w), OW = backend::window_outputs(10, kernel, w);
      Both x({2, C, 7, 10}, 1), y(f32, {2, C, OH, OW}), index(i32, {2, C, OH, OW}), dy({2, C, OH, OW}, 2),
          dx(f32, {2, C, 7, 10});
      x.pixels.view().as<float>()[3] = NAN;  // pixel 0 or 3, depending on C
      x.rows = Array::from(f32, x.pixels.shape(), x.pixels.values());
      kernels::max_pool2d(y.rows.view(), index.rows.view(), x.rows.view(), w);
      kernels::max_pool2d(y.pixels.view(), index.pixels.view(), x.pixels.view(), w);
      const std::vector<double> rows = y.rows.values(), pixels = y.pixels.values();
      for (size_t i = 0; i < rows.size(); ++i)
        CHECK((rows[i] == pixels[i] || (std::isnan(rows[i]) && std::isnan(pixels[i]))));
      CHECK(index.rows.values() == index.pixels.values());
      kernels::max_pool2d_grad(dx.rows.view(), dy.rows.view(), index.rows.view(), w);
      kernels::max_pool2d_grad(dx.pixels.view(), dy.pixels.view(), index.pixels.view(), w);
      CHECK(dx.rows.values() == dx.pixels.values());
      // A channels-first gradient with channels-last positions.
      Array from_rows(f32, dx.rows.shape(), Layout::channels_last);
      kernels::max_pool2d_grad(from_rows.view(), dy.rows.view(), index.pixels.view(), w);
      CHECK(from_rows.values() == dx.rows.values());
    }
  }
}

TEST_CASE("averages and their gradients equal those of channels-first images") {
  for (const int64_t C : kManyChannels) {
    for (const auto& [kernel, stride, padding] : {std::array<int64_t, 3>{2, 2, 0}, {3, 2, 1}, {4, 5, 0}}) {
      const Window2d w{kernel, kernel, stride, padding, 1};
      const int64_t OH = backend::window_outputs(9, kernel, w), OW = backend::window_outputs(8, kernel, w);
      Both x({2, C, 9, 8}, 1), y(f32, {2, C, OH, OW}), dy({2, C, OH, OW}, 2), dx(f32, {2, C, 9, 8});
      for (Array Both::*a : {&Both::rows, &Both::pixels}) {
        kernels::avg_pool2d((y.*a).view(), (x.*a).view(), w);
        kernels::avg_pool2d_grad((dx.*a).view(), (dy.*a).view(), w);
      }
      check_close(y.pixels.values(), y.rows.values(), f32, 16);
      check_close(dx.pixels.values(), dx.rows.values(), f32, 16);
    }
  }
}

TEST_CASE("images of one pixel have both layouts: the mean of whole images is the same in both") {
  Both x({3, 130, 11, 13}, 4);
  Array of_rows(f32, {3, 130, 1, 1}), of_pixels(f32, {3, 130, 1, 1});
  kernels::adaptive_avg_pool2d(of_rows.view(), x.rows.view());
  kernels::adaptive_avg_pool2d(of_pixels.view(), x.pixels.view());
  check_close(of_pixels.values(), of_rows.values(), f32, 16);
}

TEST_CASE("long sums continue in double") {
  constexpr int64_t kHeight = 300'000;
  Array x = Array::random(f32, {1, 3, kHeight, 2}, 1, 0, 1, Layout::channels_last), y(f32, {1, 3, 1, 1});
  kernels::adaptive_avg_pool2d(y.view(), x.view());
  const std::vector<double> in = x.values(), got = y.values();
  for (size_t c = 0; c < 3; ++c) {
    double sum = 0;
    for (size_t i = 0; i < 2 * kHeight; ++i) sum += in[c * 2 * kHeight + i];
    CHECK(std::abs(got[c] - sum / (2 * kHeight)) <= 2e-7 * sum / (2 * kHeight));
  }
}

TEST_CASE("pool_windows_over lists exactly the windows that contain a pixel") {
  for (const auto& [kernel, stride, padding, size] :
       {std::array<int64_t, 4>{2, 2, 0, 7}, {3, 2, 1, 8}, {5, 3, 2, 11}, {2, 4, 0, 9}, {3, 1, 1, 1}}) {
    const int64_t outputs = backend::window_outputs(size, kernel, {kernel, kernel, stride, padding, 1});
    for (int64_t o = 0; o < outputs; ++o) {
      for (int64_t i = 0; i < size; ++i) {
        const auto under = kernels::pool_window_inside(o, kernel, stride, padding, size);
        const auto over = kernels::pool_windows_over(i, kernel, stride, padding, outputs);
        CHECK((under.first <= i && i < under.last) == (over.first <= o && o < over.last));
      }
    }
  }
}
