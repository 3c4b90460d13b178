// The tile of a depthwise convolution, and the mask of output positions. Whole convolutions are tested in
// conv.cpp.
#include <doctest/doctest.h>

#include <numeric>
#include <tinytorch/backend/cpu/conv/depthwise.hpp>

using namespace tinytorch;
using namespace tinytorch::backend::cpu;

TEST_CASE("depthwise_tile is a weighted sum of shifted positions") {
  std::vector<float> x(600);
  std::iota(x.begin(), x.end(), 1.0f);
  const std::vector<float> weight{2, -1, 3};
  const std::vector<int64_t> shift{0, 7, 90};
  std::vector<float> out(4 * kLanes<float>, -1.0f);
  depthwise_tile<float, 4>(3, weight.data(), x.data() + 5, shift.data(), out.data());
  for (size_t q = 0; q < out.size(); ++q) CHECK(out[q] == 2 * x[5 + q] - x[12 + q] + 3 * x[95 + q]);
}

TEST_CASE("the mask is set at positions of outputs, and not between rows and planes") {
  const FrameShape frame(4, 5, 3, 3, 1, {{-1, -1}, {0, 0}, {1, 1}});
  const auto bits = output_positions<float>(frame, 2, 2 * frame.plane());
  for (int64_t q = 0; q < 2 * frame.plane(); ++q) {
    const int64_t i = q % frame.plane() / frame.pitch(), j = q % frame.pitch();
    CHECK(bits[static_cast<size_t>(q)] == (i < 3 && j < 3 ? -1 : 0));
  }
}
