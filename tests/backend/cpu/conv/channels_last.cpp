// Pixels that the taps of a band of outputs read in channels-last images. Whole convolutions are tested in
// conv.cpp.
#include <support/array.hpp>

#include <tinytorch/backend/cpu/conv/channels_last.hpp>

using namespace test;
using namespace tinytorch::backend;
using namespace tinytorch::backend::cpu;

TEST_CASE("every tap of every output of a band reads its pixel, or zeros in the padding") {
  struct Geometry {
    Window2d window;
    int64_t H, W;
    bool framed;
  };
  for (const Geometry& g : {Geometry{{3, 3, 1, 1, 1}, 6, 7, true},
                            {{3, 2, 2, 1, 2}, 9, 8, true},
                            {{3, 3, 1, 0, 1}, 6, 7, false},
                            {{1, 1, 2, 0, 1}, 7, 5, false},
                            {{2, 2, 1, 4, 1}, 3, 4, true}}) {
    const int64_t OH = window_outputs(g.H, g.window.kernel_h, g.window),
                  OW = window_outputs(g.W, g.window.kernel_w, g.window);
    Array a = Array::random(f32, {2, 6, g.H, g.W}, 1, 1, 2, Layout::channels_last);
    const ImageOperand<float> operand(a.view(), ImageLayout::channels_last, false);
    const Images<float> images = operand.images();
    const std::vector<Tap> taps = taps_of(g.window);
    const ChannelsLastBand band(g.H, g.W, 3, OH, OW, g.window.stride, taps);  // channels 3 to 5 as a group
    CHECK(band.framed() == g.framed);
    const std::vector<int64_t> shift = band.shifts(images);
    REQUIRE(shift.size() == 3 * taps.size());
    const int64_t first = OH / 2;
    std::vector<float> frame(static_cast<size_t>(band.size(OH - first)), -1.0f);
    const auto source = band.source(frame.data(), images, 1, 3, first, OH - first);
    for (int64_t i = first; i < OH; ++i)
      for (int64_t j = 0; j < OW; ++j)
        for (size_t k = 0; k < shift.size(); ++k) {
          const Tap& tap = taps[k % taps.size()];
          const int64_t c = 3 + static_cast<int64_t>(k / taps.size()), y = i * g.window.stride + tap.down,
                        x = j * g.window.stride + tap.right;
          const bool inside = y >= 0 && y < g.H && x >= 0 && x < g.W;
          const float want = inside ? images.at(1, c, y)[x * images.pixel] : 0.0f;
          CHECK(source.data[g.window.stride * ((i - first) * source.row + j * source.pixel) + shift[k]] ==
                want);
        }
  }
}

TEST_CASE("no task is empty") {
  const ChannelsLastBand band(56, 56, 64, 56, 56, 1, taps_of({3, 3, 1, 1, 1}));
  for (const int64_t samples : {1, 2, 32, 1000}) {
    for (const int64_t tiles : {1, 8}) {
      const ChannelsLastTasks tasks(band, 56, samples, 1, tiles);
      CHECK(tasks.chunks >= 1);
      CHECK(tasks.chunks <= samples);
      CHECK(tasks.bands >= 56 / band.rows_of(kBandElements));
      CHECK(tasks.bands <= 56);
      CHECK(tasks.sets >= 1);
      CHECK(tasks.sets <= tiles);
    }
  }
  int64_t next = 0;
  for_even_tiles(31, 6, [&](int64_t first, int64_t count) {
    CHECK(first == next);
    CHECK((count == 5 || count == 6));
    next = first + count;
  });
  CHECK(next == 31);
}
