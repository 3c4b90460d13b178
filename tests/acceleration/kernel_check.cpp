// The trial of kernels: functions that are wrong in one way each must be rejected.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <tinytorch/acceleration/kernel_check.hpp>
#include <vector>

using namespace tinytorch;
using namespace tinytorch::acceleration;

namespace {
// y = |a| + b of floats, with one fault.
enum Fault { none, last_element, rounding, zero_sign, subnormal, lost_nan };
template <Fault fault>
void kernel(void* const* out, const void* const* in, const int64_t*, int64_t begin, int64_t end) {
  auto* const y = static_cast<float*>(out[0]);
  const auto *const a = static_cast<const float*>(in[0]), *const b = static_cast<const float*>(in[1]);
  for (int64_t i = begin; i < end; ++i) {
    float x = std::abs(a[i]), r = x + b[i];
    if (fault == last_element && i + 1 == end && end > 9) r = 0;
    if (fault == rounding && r > 2.5f && r < 2.6f) r = std::nextafter(r, 9.0f);
    if (fault == zero_sign && r == 0) r = -0.0f;
    if (fault == subnormal && std::abs(r) < std::numeric_limits<float>::min()) r = 0;
    if (fault == lost_nan && r != r) r = std::numeric_limits<float>::infinity();
    y[i] = r;
  }
}
PointwiseProgram program() {
  using Kind = PointwiseStep::Kind;
  return {f32,
          {f32, f32},
          {{Kind::unary, static_cast<uint8_t>(backend::UnaryFn::abs), f32, {0, -1, -1}, {}},
           {Kind::binary, static_cast<uint8_t>(backend::BinaryFn::add), f32, {2, 1, -1}, {}}},
          {3}};
}
const KernelLayout kFlat{false, {InputLayout::contiguous, InputLayout::contiguous}};
}  // namespace

TEST_CASE("the right kernel passes, and each wrong one is rejected") {
  const PointwiseProgram p = program();
  CHECK(agrees_with_interpreter(p, kFlat, kernel<none>));
  CHECK(!agrees_with_interpreter(p, kFlat, kernel<last_element>));
  CHECK(!agrees_with_interpreter(p, kFlat, kernel<rounding>));
  CHECK(!agrees_with_interpreter(p, kFlat, kernel<zero_sign>));
  CHECK(!agrees_with_interpreter(p, kFlat, kernel<subnormal>));
  CHECK(!agrees_with_interpreter(p, kFlat, kernel<lost_nan>));
}

TEST_CASE("a kernel that waits is slower, and one that does nothing is faster") {
  const PointwiseProgram p = program();
  const KernelFunction slow = [](void* const*, const void* const*, const int64_t*, int64_t, int64_t) {
    const auto start = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - start < std::chrono::milliseconds(20)) {
    }
  };
  const KernelFunction fast = [](void* const*, const void* const*, const int64_t*, int64_t, int64_t) {};
  CHECK(speed_against_interpreter(p, kFlat, slow) < 1);
  CHECK(speed_against_interpreter(p, kFlat, fast) > 1);
}

TEST_CASE("equal bits, where a NaN equals every NaN") {
  const auto same = [](uint32_t a, uint32_t b) {
    return same_bits(View{&a, f32, {1}, {1}}, View{&b, f32, {1}, {1}});
  };
  CHECK(same(0x3f800000, 0x3f800000));
  CHECK(!same(0x3f800000, 0x3f800001));
  CHECK(!same(0, 0x80000000));
  CHECK(same(0x7fc00000, 0xffc12345));
  CHECK(!same(0x7f800000, 0x7fc00000));
  const bool yes = true, no = false;
  CHECK(!same_bits(View{const_cast<bool*>(&yes), boolean, {1}, {1}},
                   View{const_cast<bool*>(&no), boolean, {1}, {1}}));
}
