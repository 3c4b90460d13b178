// Kernels of functions: the value of each function at every position of runs of all lengths around those of a
// vector and a block, for any other values; functions without integer form are rejected.
#include <support/array.hpp>

#include <bit>
#include <cmath>
#include <limits>
#include <tinytorch/backend/cpu/loops/function_kernels.hpp>

using namespace test;
namespace cpu = tinytorch::backend::cpu;
using backend::BinaryFn;
using backend::UnaryFn;

namespace {

// The definition for one number, evaluated alone.
template <class T, int... kFn>
T unary_alone(int fn, T x, T p0, T p1, std::integer_sequence<int, kFn...>) {
  T result{};
  ((fn == kFn ? void(result = backend::unary_value<static_cast<UnaryFn>(kFn), T>(x, p0, p1)) : void()), ...);
  return result;
}
template <class T, int... kFn>
T binary_alone(int fn, T a, T b, T p0, std::integer_sequence<int, kFn...>) {
  T result{};
  ((fn == kFn ? void(result = backend::binary_value<static_cast<BinaryFn>(kFn), T>(a, b, p0)) : void()), ...);
  return result;
}

// Equal, both NaN, or different by the rounding of one fused multiply-add.
template <class T>
bool same(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
    return a == b ||
           std::abs(a - b) <= 4 * std::numeric_limits<T>::epsilon() * std::max(std::abs(a), std::abs(b));
  } else {
    return a == b;
  }
}

template <class T>
std::vector<T> numbers(int64_t n, uint64_t seed, bool special) {
  tinytorch::Generator g(seed);
  std::vector<T> x(static_cast<size_t>(n));
  for (T& v : x) v = static_cast<T>(g.uniform(std::is_signed_v<T> ? -4 : 0, 4));
  if constexpr (std::is_floating_point_v<T>) {
    if (special && n > 2) {
      x[0] = std::numeric_limits<T>::quiet_NaN();
      x[static_cast<size_t>(n / 2)] = -std::numeric_limits<T>::infinity();
      x[static_cast<size_t>(n - 1)] = 0;
    }
  }
  return x;
}

}  // namespace

TEST_CASE_TEMPLATE("every function at every position", T, float, double, int32_t, int64_t, uint8_t) {
  constexpr bool kWhole = std::is_integral_v<T>;
  constexpr int kUnary = kWhole ? backend::kLastIntegerUnary + 1 : backend::kUnaryCount,
                kBinary = kWhole ? backend::kLastIntegerBinary + 1 : backend::kBinaryCount;
  const double parameters[] = {1, 3};
  for (const int64_t n : {1, 3, 8, 17, 64, 300, 1500}) {
    for (const bool special : {false, true}) {
      const std::vector<T> a = numbers<T>(n, 1, special), b = numbers<T>(n, 2, false);
      const T* const in[] = {a.data(), b.data()};
      std::vector<T> out(static_cast<size_t>(n));
      for (int fn = 0; fn < kUnary; ++fn) {
        cpu::kernel_of<T>(static_cast<UnaryFn>(fn))(out.data(), in, n, parameters);
        int64_t wrong = 0;
        for (size_t i = 0; i < out.size(); ++i)
          wrong +=
              !same(out[i], unary_alone<T>(fn, a[i], T(1), T(3), std::make_integer_sequence<int, kUnary>()));
        CAPTURE(fn);
        CHECK(wrong == 0);
      }
      for (int fn = 0; fn < kBinary; ++fn) {
        cpu::kernel_of<T>(static_cast<BinaryFn>(fn))(out.data(), in, n, parameters);
        int64_t wrong = 0;
        for (size_t i = 0; i < out.size(); ++i)
          wrong += !same(out[i],
                         binary_alone<T>(fn, a[i], b[i], T(1), std::make_integer_sequence<int, kBinary>()));
        CAPTURE(fn);
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("kernels work in place; functions without integer form are rejected") {
  std::vector<float> x{-1, 2, 3};
  const float* const in[] = {x.data()};
  const double parameters[] = {0, 0};
  cpu::kernel_of<float>(UnaryFn::relu)(x.data(), in, 3, parameters);
  CHECK(x == std::vector<float>{0, 2, 3});
  CHECK_THROWS_WITH_AS(cpu::kernel_of<int32_t>(UnaryFn::exp), doctest::Contains("TT-DTYPE-02"),
                       tinytorch::Error);
  CHECK_THROWS_WITH_AS(cpu::kernel_of<int64_t>(BinaryFn::gelu_grad), doctest::Contains("TT-DTYPE-02"),
                       tinytorch::Error);
}
