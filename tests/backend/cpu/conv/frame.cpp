// The shifts of a frame read the pixels of the definition of convolution, and zeros outside the image.
#include <doctest/doctest.h>

#include <tinytorch/backend/cpu/conv/frame.hpp>

using namespace tinytorch;
using namespace tinytorch::backend::cpu;

namespace {

struct Geometry {
  int64_t H, W, KH, KW, stride, padding, dilation, channels, samples;
  int64_t outputs(int64_t side, int64_t kernel) const {
    return (side + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
  }
};

}  // namespace

TEST_CASE("every tap of every output reads its pixel, or a zero in the padding") {
  for (const Geometry& g : {Geometry{5, 7, 3, 3, 1, 1, 1, 2, 3},
                            {6, 5, 3, 2, 2, 1, 1, 3, 2},
                            {9, 8, 3, 3, 2, 2, 2, 1, 2},
                            {11, 10, 7, 7, 2, 3, 1, 2, 1},
                            {4, 4, 4, 4, 1, 0, 1, 1, 2},
                            {7, 7, 1, 1, 3, 0, 1, 2, 2},
                            {3, 6, 3, 2, 1, 3, 2, 1, 1},
                            {1, 1, 1, 1, 1, 0, 1, 1, 1}}) {
    const int64_t OH = g.outputs(g.H, g.KH), OW = g.outputs(g.W, g.KW);
    std::vector<Tap> taps;
    for (int64_t kh = 0; kh < g.KH; ++kh)
      for (int64_t kw = 0; kw < g.KW; ++kw)
        taps.push_back({kh * g.dilation - g.padding, kw * g.dilation - g.padding});
    const FrameShape shape(g.H, g.W, OH, OW, g.stride, taps);
    CHECK(shape.taps() == g.KH * g.KW);
    CHECK(shape.splits() <= g.stride * g.stride);
    std::vector<float> frame(static_cast<size_t>(shape.size(g.channels, g.samples)), 0.0f);
    const auto pixel = [&](int64_t n, int64_t c, int64_t y, int64_t x) {
      return static_cast<float>(1 + ((n * g.channels + c) * g.H + y) * g.W + x);
    };
    std::vector<float> image(static_cast<size_t>(g.H * g.W));
    for (int64_t n = 0; n < g.samples; ++n) {
      for (int64_t c = 0; c < g.channels; ++c) {
        for (int64_t i = 0; i < g.H * g.W; ++i) image[static_cast<size_t>(i)] = pixel(n, c, i / g.W, i % g.W);
        shape.fill(frame.data(), image.data(), g.W, c, g.channels, n, g.samples);
      }
    }
    const std::vector<int64_t> shift = shape.shifts(g.channels, g.samples);
    REQUIRE(static_cast<int64_t>(shift.size()) == g.channels * shape.taps());
    int64_t wrong = 0;
    for (int64_t n = 0; n < g.samples; ++n) {
      for (int64_t i = 0; i < OH; ++i) {
        for (int64_t j = 0; j < OW; ++j) {
          for (size_t k = 0; k < shift.size(); ++k) {
            const int64_t c = static_cast<int64_t>(k) / shape.taps();
            const Tap& tap = taps[k % taps.size()];
            const int64_t y = i * g.stride + tap.down, x = j * g.stride + tap.right;
            const bool inside = y >= 0 && y < g.H && x >= 0 && x < g.W;
            const int64_t at = shape.margin() + n * shape.plane() + i * shape.pitch() + j + shift[k];
            REQUIRE(at >= 0);
            REQUIRE(at + FrameShape::kSlack <= static_cast<int64_t>(frame.size()) + shape.plane());
            wrong += frame[static_cast<size_t>(at)] != (inside ? pixel(n, c, y, x) : 0.0f);
          }
        }
      }
    }
    CHECK(wrong == 0);
  }
}
