#include <doctest/doctest.h>

#include <tinytorch/data/waves.hpp>

namespace tt = tinytorch;

TEST_CASE("waves_of() records clips in parallel and scales 16-bit samples to [-1, 1)") {
  const auto record = [](int64_t clip, int16_t* wave) {
    for (int64_t k = 0; k < 3; ++k) wave[k] = static_cast<int16_t>(clip == 0 ? -32768 + k : 1000 * clip + k);
  };
  const tt::Tensor waves = tt::sound::waves_of(9, 3, record, tt::Loc::current());
  CHECK(waves.shape() == tt::Shape{9, 3});
  const auto values = waves.to_vector<float>();
  CHECK(values[0] == -1.0f);
  CHECK(values[2] == -32766 / 32768.0f);
  for (size_t clip = 1; clip < 9; ++clip)
    for (size_t k = 0; k < 3; ++k) CHECK(values[3 * clip + k] * 32768 == static_cast<float>(1000 * clip + k));
  CHECK(tt::sound::waves_of(0, 3, record, tt::Loc::current()).shape() == tt::Shape{0, 3});
}
