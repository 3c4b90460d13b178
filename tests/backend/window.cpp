#include <doctest/doctest.h>

#include <tinytorch/backend/window.hpp>

using namespace tinytorch::backend;

TEST_CASE("taps_inside agrees with testing every output") {
  for (int64_t input = 1; input <= 9; ++input) {
    for (int64_t stride = 1; stride <= 4; ++stride) {
      for (int64_t shift = -7; shift <= 11; ++shift) {
        for (int64_t outputs = 0; outputs <= 8; ++outputs) {
          const TapRange r = taps_inside(shift, input, outputs, stride);
          for (int64_t o = 0; o < outputs; ++o) {
            const int64_t i = o * stride + shift;
            CHECK((o >= r.first && o < r.last) == (i >= 0 && i < input));
          }
          CHECK(r.first >= 0);
          CHECK(r.last <= outputs);
        }
      }
    }
  }
}

TEST_CASE("window_outputs counts the positions at which the window fits") {
  for (int64_t input = 1; input <= 9; ++input) {
    for (int64_t kernel = 1; kernel <= 4; ++kernel) {
      for (int64_t stride = 1; stride <= 3; ++stride) {
        for (int64_t dilation = 1; dilation <= 3; ++dilation) {
          const Window2d w{kernel, kernel, stride, 1, dilation};
          int64_t count = 0;
          for (int64_t at = -1; at + dilation * (kernel - 1) <= input; at += stride) ++count;
          CHECK(window_outputs(input, kernel, w) == count);
        }
      }
    }
  }
}
