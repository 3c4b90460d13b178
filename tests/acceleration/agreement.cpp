// Agreement of two results: by bits, or within a tolerance.
#include <doctest/doctest.h>

#include <limits>
#include <tinytorch/acceleration/agreement.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace tt = tinytorch;
using tt::Math;
using tt::Tensor;

TEST_CASE("bits: one unit in the last place, a sign of zero, a shape, a dtype") {
  const Tensor x = tt::from_data<float>({1, 0, 3}, {3}, tt::cpu);
  const Tensor next = tt::from_data<float>({std::nextafter(1.0f, 2.0f), 0, 3}, {3}, tt::cpu);
  const Tensor minus = tt::from_data<float>({1, -0.0f, 3}, {3}, tt::cpu);
  CHECK(tt::agree(x, x.clone(), Math::same_bits));
  CHECK_FALSE(tt::agree(x, next, Math::same_bits));
  CHECK_FALSE(tt::agree(x, minus, Math::same_bits));
  CHECK(tt::agree(x, next, Math::fast));
  CHECK(tt::agree(x, minus, Math::fast));
  CHECK_FALSE(tt::agree(x, x.reshape({3, 1}), Math::fast));
  CHECK_FALSE(tt::agree(x, x.to(tt::f64), Math::fast));
}

TEST_CASE("a tolerance of some units of the dtype, relative to the element and to the mean") {
  for (const tt::DType dtype : {tt::f32, tt::f64, tt::bf16, tt::f16}) {
    const Tensor x = tt::randn({100}).to(dtype);
    CHECK(tt::close_enough(x, x));
    CHECK_FALSE(tt::close_enough(x, (x.to(tt::f64) * 1.2).to(dtype)));
    CHECK_FALSE(tt::close_enough(x, (x.to(tt::f64) + 0.5).to(dtype)));
    CHECK_FALSE(tt::close_enough(x, tt::zeros({100}).to(dtype)));
  }
}

TEST_CASE("masked elements of -1e9 do not hide an error in the others") {
  for (const int64_t masked : {1, 50, 70}) {
    std::vector<float> numbers(100, 1.0f);
    for (int64_t i = 0; i < masked; ++i) numbers[static_cast<size_t>(i)] = -1e9f;
    const Tensor x = tt::from_data(numbers, {100}, tt::cpu);
    numbers[99] = 1.2f;
    CHECK_FALSE(tt::close_enough(x, tt::from_data(numbers, {100}, tt::cpu)));
  }
}

TEST_CASE("a gradient of rounding errors is compared with the others") {
  const Tensor noise = tt::randn({50}) * 1e-9, other = tt::randn({50}) * 1e-9, large = tt::randn({50});
  CHECK_FALSE(tt::close_enough(noise, other));
  CHECK(tt::close_enough(noise, other, tt::mean_scale({large, noise})));
  CHECK_FALSE(tt::close_enough(large, large + 0.1, tt::mean_scale({large, noise})));
}

TEST_CASE("NaN and infinities must be in the same places") {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(),
                  kInfinity = std::numeric_limits<float>::infinity();
  const Tensor x = tt::from_data<float>({1, kNan, kInfinity}, {3}, tt::cpu);
  CHECK(tt::close_enough(x, x.clone()));
  CHECK_FALSE(tt::close_enough(x, tt::from_data<float>({1, 2, kInfinity}, {3}, tt::cpu)));
  CHECK_FALSE(tt::close_enough(x, tt::from_data<float>({1, kNan, -kInfinity}, {3}, tt::cpu)));
  CHECK_FALSE(tt::close_enough(x, tt::from_data<float>({kNan, kNan, kInfinity}, {3}, tt::cpu)));
  CHECK_FALSE(tt::close_enough(tt::from_data<float>({1, 2}, {2}, tt::cpu),
                               tt::from_data<float>({1, kInfinity}, {2}, tt::cpu)));
}

TEST_CASE("integers and bool have no tolerance") {
  const Tensor x = tt::randint(0, 100, {10});
  CHECK(tt::close_enough(x, x.clone()));
  CHECK_FALSE(tt::close_enough(x, x + 1));
}
