// Tables of taps and source positions. Whole convolutions are tested in conv.cpp.
#include <doctest/doctest.h>

#include <tinytorch/backend/cpu/conv/depthwise_channels_last.hpp>

using namespace tinytorch;
using namespace tinytorch::backend;
using namespace tinytorch::backend::cpu;

TEST_CASE("the tables of the forward pass and of dx equal the definition") {
  for (const Window2d& w :
       {Window2d{3, 3, 1, 1, 1}, {3, 3, 2, 1, 1}, {5, 5, 3, 2, 2}, {2, 2, 4, 0, 1}, {7, 7, 1, 3, 1}}) {
    const int64_t size = 9, outputs = window_outputs(size, w.kernel_h, w);
    const TapSources of_outputs = forward_taps(size, outputs, w.kernel_h, w),
                     of_pixels = grad_input_taps(size, outputs, w.kernel_h, w);
    for (int64_t o = 0; o < outputs; ++o) {
      for (int64_t i = 0; i < size; ++i) {
        for (int64_t k = 0; k < w.kernel_h; ++k) {
          const auto has = [k](const TapSources& f, int64_t position, int64_t from) {
            return std::any_of(f.begin(position), f.end(position),
                               [&](const TapSource& feed) { return feed.tap == k && feed.from == from; });
          };
          const bool meets = i == o * w.stride - w.padding + k * w.dilation;
          CHECK(has(of_outputs, o, i) == meets);
          CHECK(has(of_pixels, i, o) == meets);
        }
      }
    }
  }
}

TEST_CASE("same_taps counts positions with the same taps at equal distances") {
  const TapSources inside = forward_taps(9, 9, 3, {3, 3, 1, 1, 1});
  CHECK(inside.same_taps(0) == 1);  // padding on the left
  for (int64_t i = 1; i < 8; ++i) {
    CHECK(inside.same_taps(i) == 8 - i);
    if (i < 7) CHECK(inside.step_to_next(i) == 1);
  }
  CHECK(inside.same_taps(8) == 1);
  CHECK(inside.step_to_next(7) == 0);
  const TapSources strided = forward_taps(9, 4, 3, {3, 3, 2, 0, 1});
  CHECK(strided.same_taps(0) == 4);
  CHECK(strided.step_to_next(0) == 2);
  const TapSources spread =
      grad_input_taps(9, 5, 3, {3, 3, 2, 1, 1});  // one tap at even pixels, two at odd ones
  for (int64_t i = 0; i < 9; ++i) CHECK(spread.same_taps(i) == 1);
  const TapSources nothing =
      grad_input_taps(9, 2, 2, {2, 2, 4, 0, 1});  // no output reads pixels 2, 3, 6 and 7
  CHECK(nothing.begin(2) == nothing.end(2));
  CHECK(nothing.same_taps(2) == 1);
}
