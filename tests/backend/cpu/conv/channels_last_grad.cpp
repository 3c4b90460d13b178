// Rows of the tiles of a weight gradient. Whole gradients are tested in conv.cpp.
#include <doctest/doctest.h>

#include <tinytorch/backend/cpu/conv/channels_last_grad.hpp>

using namespace tinytorch;
using namespace tinytorch::backend;
using namespace tinytorch::backend::cpu;

TEST_CASE("every channel of every tap is one row of one tile, at its address") {
  for (const int64_t dilation : {1, 2}) {
    for (const int64_t channels : {1, 3, 16, 37}) {
      for (const int64_t gap : {0, 5}) {
        const std::vector<Tap> taps = taps_of({3, 3, 1, 1, dilation});
        const int64_t pixel = channels + gap, line = 20 * pixel;
        std::vector<int64_t> seen(taps.size() * static_cast<size_t>(channels), 0);
        size_t tiles = 0;
        for (const GradRows& rows : grad_rows(taps, channels, line, pixel, 6)) {
          ++tiles;
          CHECK(rows.count <= 6);
          for (int64_t r = 0; r < rows.count; ++r) {
            const int64_t row = rows.row + r;
            const Tap& tap = taps[static_cast<size_t>(row / channels)];
            CHECK(rows.shift + r == tap.down * line + tap.right * pixel + row % channels);
            ++seen[static_cast<size_t>(row)];
          }
        }
        for (const int64_t times : seen) CHECK(times == 1);
        if (channels == 3)
          CHECK(tiles == (dilation == 1 && gap == 0 ? 6 : 9));  // three adjacent taps are one group
      }
    }
  }
}
