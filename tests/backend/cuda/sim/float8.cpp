// Conversions of fp8: all codes there and back, and random floats against the nearest code.
#include <support/device_array.hpp>

#if TINYTORCH_CUDA_SIM
#include <support/faults.hpp>
#include <tinytorch/backend/cuda/device/float8.cuh>

namespace cuda = tinytorch::backend::cuda;
using namespace test;
using tinytorch::backend::Float8;
using tinytorch::backend::Float8E5M2;

namespace {

template <class F>
__global__ void decode_all(float* out) {
  const unsigned pair = threadIdx.x * 2 | (threadIdx.x * 2 + 1) << 8;
  cuda::decode_pair<F>(out[threadIdx.x * 2], out[threadIdx.x * 2 + 1], pair);
}
template <class F>
__global__ void encode_pairs(int* out, const float* x) {
  const unsigned t = threadIdx.x, pair = cuda::encode_pair<F>(x[2 * t], x[2 * t + 1]);
  out[2 * t] = static_cast<int>(pair & 255u), out[2 * t + 1] = static_cast<int>(pair >> 8);
}

// The value of a code by its definition.
double value_of(int code, int fraction_bits, int bias, bool has_infinity) {
  const int magnitude = code & 127, exponent = magnitude >> fraction_bits,
            fraction = magnitude & ((1 << fraction_bits) - 1), last = 127 >> fraction_bits;
  const double sign = code & 128 ? -1 : 1;
  if (has_infinity && exponent == last) return fraction == 0 ? sign * INFINITY : NAN;
  if (!has_infinity && magnitude == 127) return NAN;
  const double significand = fraction + (exponent > 0 ? 1 << fraction_bits : 0);
  return sign * std::ldexp(significand, std::max(exponent, 1) - bias - fraction_bits);
}

template <class F>
void check_format(int fraction_bits, int bias, bool has_infinity) {
  DeviceArray values(f32, {256});
  CHECK(fault_of(decode_all<F>, {dim3(1), dim3(128)}, values.view().template as<float>()) == "");
  const std::vector<double> found = values.values();
  for (int code = 0; code < 256; ++code) {
    const double want = value_of(code, fraction_bits, bias, has_infinity),
                 own = found[static_cast<size_t>(code)];
    INFO("code ", code);
    CHECK((std::isnan(want) ? std::isnan(own) : own == want && std::signbit(own) == std::signbit(want)));
  }
  // Every value, every middle of two neighbours, and a little beside it: ties go to the even code.
  const int largest = has_infinity ? 123 : 126;
  std::vector<double> x, want;
  for (int code = 0; code < largest; ++code) {
    const double low = value_of(code, fraction_bits, bias, has_infinity),
                 high = value_of(code + 1, fraction_bits, bias, has_infinity), middle = (low + high) / 2;
    for (const double sign : {1.0, -1.0}) {
      const int bit = sign < 0 ? 128 : 0;
      for (const auto& [value, to] : {std::pair{low, code},
                                      {middle, code + code % 2},
                                      {middle * (1 - 1e-6), code},
                                      {middle * (1 + 1e-6), code + 1},
                                      {high, code + 1}}) {
        x.push_back(sign * value), want.push_back(bit + to);
      }
    }
  }
  for (const double big : {1e9, static_cast<double>(INFINITY)}) {
    x.insert(x.end(), {big, -big}), want.insert(want.end(), {double(largest), 128.0 + largest});
  }
  x.insert(x.end(), {NAN, NAN}), want.insert(want.end(), {127, 127});
  const auto n = static_cast<int64_t>(x.size());
  DeviceArray in = DeviceArray::from(f32, {n}, x), codes(tinytorch::i32, {n});
  for (int64_t at = 0; at < n; at += 512) {
    const auto pairs = static_cast<unsigned>(std::min<int64_t>(512, n - at) / 2);
    CHECK(fault_of(encode_pairs<F>, {dim3(1), dim3(pairs)}, codes.view().template as<int>() + at,
                   in.view().template as<const float>() + at) == "");
  }
  CHECK(codes.values() == want);
}

}  // namespace

TEST_CASE("e4m3: every code and every rounding") { check_format<Float8>(3, 7, false); }
TEST_CASE("e5m2: every code and every rounding") { check_format<Float8E5M2>(2, 15, true); }

#else
TEST_CASE("fp8: the test needs the emulator" * doctest::skip()) {}
#endif
