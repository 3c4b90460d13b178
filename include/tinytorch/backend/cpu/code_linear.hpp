// Products with weights of one byte a number whose scales are beside the codes, and the table of these
// formats: integers of 8 bits, with or without a zero point, and both kinds of fp8.
//
//   I8  I8_zero  F8_E4M3  F8_E5M2                 a scale for each row
//   I8_tensor  I8_tensor_zero  F8_E4M3_tensor  F8_E5M2_tensor     one scale
//
// Weights are read as bytes, once. Activations for integers are rounded to 8 bits with a scale for each row:
// the sums are then exact, so that scales and zero points are applied to whole sums, once. Activations for
// fp8 stay floats: the codes are widened in registers, by a shift and a product, which is faster than a
// table.
#pragma once

#include <span>
#include <string_view>
#include <tinytorch/backend/block_format.hpp>
#include <tinytorch/backend/view.hpp>

namespace tinytorch::inline TT_BUILD {

// The formats above, and the one with this name; null if there is none.
TT_API std::span<const BlockFormat> code_formats();
TT_API const BlockFormat* find_code_format(std::string_view name);

namespace backend::cpu {

// out [M, N] = x [M, K] weight^T + bias [N], which may have no data, for weight[n, k] = scale[n] (code[n, k]
// - zero_point[n]). x, out and bias are f32, bf16 or f16, with any strides. codes u8 [N, K] has contiguous
// rows of bytes. scales f32 and zero_points i32 have N elements or one; the second has no data if all are 0.
// A row of the result does not depend on the other rows, nor on the number of threads.
TT_API void code_linear(const View& out, const View& x, const View& codes, const View& scales,
                        const View& zero_points, const View& bias, const BlockFormat& format,
                        Activations activations);

}  // namespace backend::cpu
}  // namespace tinytorch::inline TT_BUILD

#if TT_BODIES(PRODUCTS)
#include <algorithm>
#include <cmath>
#include <tinytorch/backend/cpu/blocks/block_rows.hpp>
#include <tinytorch/backend/cpu/gemm/gemv.hpp>
#include <tinytorch/backend/cpu/gemm/int8.hpp>
#include <tinytorch/backend/cpu/loops/contiguous.hpp>
#include <tinytorch/backend/cpu/quantize_rows.hpp>
#include <tinytorch/backend/float8_e5m2.hpp>
#include <tinytorch/backend/kv_format.hpp>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"
namespace tinytorch::inline TT_BUILD {

namespace backend {

// fp8 as floats, which dot_weights finds beside the types: the magnitude becomes the upper bits of a float,
// whose exponent is corrected by a product that is exact for subnormal numbers too.
[[gnu::always_inline]] inline Simd<float> load_floats(const Float8* p) {
  const Simd<int32_t> bits = widen_bytes(reinterpret_cast<const uint8_t*>(p)), magnitude = bits & 0x7f;
  const Simd<float> scaled = reinterpret_cast<Simd<float>>(magnitude << 20) * 0x1p120f;
  const Simd<int32_t> nan = magnitude == 0x7f;
  return reinterpret_cast<Simd<float>>((reinterpret_cast<Simd<int32_t>>(scaled) | (nan & 0x7fc00000)) |
                                       (bits & 0x80) << 24);
}
[[gnu::always_inline]] inline Simd<float> load_floats(const Float8E5M2* p) {
  const Simd<int32_t> bits = widen_bytes(reinterpret_cast<const uint8_t*>(p)), magnitude = bits & 0x7f;
  const Simd<float> scaled = reinterpret_cast<Simd<float>>(magnitude << 21) * 0x1p112f;
  const Simd<int32_t> special = magnitude >= 0x7c, nan = magnitude > 0x7c;
  return reinterpret_cast<Simd<float>>(
      (reinterpret_cast<Simd<int32_t>>(scaled) | (special & 0x7f800000) | (nan & 0x00400000)) | (bits & 0x80)
                                                                                                    << 24);
}

}  // namespace backend

namespace backend::cpu {

// A row of the table. Codes are packed and unpacked with the scale 1.
template <class Code>
constexpr BlockFormat code_format(const char* name, Scales scales, bool zero_points = false) {
  constexpr bool kInt8 = std::is_same_v<Code, int8_t>;
  BlockFormat f{name, -1, 1, 1, nullptr, nullptr, nullptr, nullptr};
  f.pack = [](const float* x, int64_t n, uint8_t* out) {
    for (int64_t i = 0; i < n; ++i) {
      if constexpr (kInt8)
        out[i] = static_cast<uint8_t>(static_cast<int8_t>(std::nearbyint(std::clamp(x[i], -128.f, 127.f))));
      else
        out[i] = Code(x[i]).bits;
    }
  };
  f.unpack = [](const uint8_t* in, int64_t n, float* x) {
    for (int64_t i = 0; i < n; ++i) x[i] = static_cast<float>(std::bit_cast<Code>(in[i]));
  };
  f.scales = scales, f.zero_points = zero_points;
  f.codes = kInt8 ? CodeType::int8 : std::is_same_v<Code, Float8> ? CodeType::fp8_e4m3 : CodeType::fp8_e5m2;
  return f;
}

// dot_bytes: y[r] = the row of codes at w + r * spacing times x, exact for K <= kExactInt8Terms. x is at
// least -127.
template <int64_t kRows>
void dot_bytes(int32_t* y, const int8_t* w, int64_t spacing, const int8_t* x, int64_t K) {
  Ints8 sum[kRows] = {};
  int64_t k = 0;
  for (; k + 32 <= K; k += 32) {
    const Bytes32 codes = load_bytes(x + k);
    TT_UNROLL
    for (int64_t r = 0; r < kRows; ++r) {
      const int8_t* const row = w + r * spacing + k;
      __builtin_prefetch(row + kGemvPrefetchBytes);
      sum[r] += dot4_signed(load_bytes(row), codes);
    }
  }
  for (int64_t r = 0; r < kRows; ++r) {
    int32_t total = 0;
    for (int i = 0; i < 8; ++i) total += sum[r][i];
    for (int64_t i = k; i < K; ++i) total += w[r * spacing + i] * x[i];
    y[r] = total;
  }
}

inline constexpr int64_t kFewCodeRows = 8;  // rows of x up to which the codes are not copied into panels

class CodeProduct {
 public:
  CodeProduct(const View& x, const View& codes, const View& scales, const View& zero_points)
      : M_(x.shape[0]),
        K_(x.shape[1]),
        N_(codes.shape[0]),
        x_(x),
        codes_(codes),
        scales_(scales),
        zeros_(zero_points),
        scale_step_(scales.numel() == 1 ? 0 : 1),
        y_(M_ * N_) {}

  float* result() { return y_.data(); }  // [M, N]

  // Activations of 8 bits.
  void multiply_codes() {
    Scratch<int8_t> x(M_ * K_);
    Scratch<float> x_scale(M_);
    Scratch<int32_t> sums(M_ * N_);
    const View rows{x.data(), DType::i8, {M_, K_}, {K_, 1}};
    quantize_rows(rows, {x_scale.data(), DType::f32, {M_}, {1}}, x_);
    const auto* const w = codes_.as<const int8_t>();
    const int64_t spacing_of_rows = codes_.strides[0];
    if (M_ <= kFewCodeRows) {
      for_row_groups(N_, K_, [&](int64_t n, int64_t spacing, auto count) {
        for (int64_t m = 0; m < M_; ++m) {
          int32_t y[kGemvRows];
          dot_bytes<count.value>(y, w + n * spacing_of_rows, spacing * spacing_of_rows, x.data() + m * K_,
                                 K_);
          for (int64_t r = 0; r < count.value; ++r) sums.data()[m * N_ + n + r * spacing] = y[r];
        }
      });
    } else {
      const View weight{codes_.data, DType::i8, {K_, N_}, {1, spacing_of_rows}};
      gemm_int8({sums.data(), DType::i32, {M_, N_}, {N_, 1}}, rows, weight);
    }
    for (int64_t m = 0; m < M_; ++m) {
      int64_t all = 0;
      for (int64_t k = 0; k < K_ && zeros_.data(); ++k) all += x.data()[m * K_ + k];
      for (int64_t n = 0; n < N_; ++n) {
        const int64_t sum = sums.data()[m * N_ + n] - zero_of(n) * all;
        y_.data()[m * N_ + n] = static_cast<float>(sum) * x_scale.data()[m] * scales_.data()[n * scale_step_];
      }
    }
  }

  // Activations as they are.
  template <class Code>
  void multiply_floats() {
    const ContiguousInput<float> x(x_);
    const auto* const w = static_cast<const Code*>(codes_.data);
    const int64_t spacing_of_rows = codes_.strides[0];
    for_row_groups(N_, K_, [&](int64_t n, int64_t spacing, auto count) {
      for (int64_t m = 0; m < M_; ++m) {
        float y[kGemvRows];
        dot_weights<count.value>(y, w + n * spacing_of_rows, spacing * spacing_of_rows, x.data() + m * K_,
                                 K_);
        for (int64_t r = 0; r < count.value; ++r) y_.data()[m * N_ + n + r * spacing] = y[r];
      }
    });
    for (int64_t m = 0; m < M_; ++m) {
      double all = 0;
      for (int64_t k = 0; k < K_ && zeros_.data(); ++k) all += static_cast<double>(x.data()[m * K_ + k]);
      for (int64_t n = 0; n < N_; ++n) {
        float& y = y_.data()[m * N_ + n];
        if (zeros_.data())
          y = static_cast<float>(static_cast<double>(y) - static_cast<double>(zero_of(n)) * all);
        y *= scales_.data()[n * scale_step_];
      }
    }
  }

 private:
  int64_t zero_of(int64_t n) const { return zeros_.data() ? zeros_.data()[n * scale_step_] : 0; }

  int64_t M_, K_, N_;
  View x_, codes_;
  ContiguousInput<float> scales_;
  ContiguousInput<int32_t> zeros_;
  int64_t scale_step_;
  Scratch<float> y_;
};

TT_API void code_linear(const View& out, const View& x, const View& codes, const View& scales,
                        const View& zero_points, const View& bias, const BlockFormat& format,
                        Activations activations) {
  if (out.numel() == 0) return;
  CodeProduct product(x, codes, scales, zero_points);
  if (format.codes == CodeType::fp8_e4m3) {
    product.multiply_floats<Float8>();
  } else if (format.codes == CodeType::fp8_e5m2) {
    product.multiply_floats<Float8E5M2>();
  } else if (activations == Activations::int8 && x.shape[1] <= kExactInt8Terms) {
    product.multiply_codes();
  } else {
    product.multiply_floats<int8_t>();
  }
  const int64_t M = out.shape[0], N = out.shape[1];
  float* const y = product.result();
  const ContiguousInput<float> b(bias);
  for (int64_t i = 0; i < M * N && b.data(); ++i) y[i] += b.data()[i % N];
  copy_view(out, {y, DType::f32, {M, N}, {N, 1}});
}

}  // namespace backend::cpu

TT_API std::span<const BlockFormat> code_formats() {
  using backend::Float8, backend::Float8E5M2, backend::cpu::code_format;
  static constexpr BlockFormat all[] = {code_format<int8_t>("I8", Scales::of_rows),
                                        code_format<int8_t>("I8_zero", Scales::of_rows, true),
                                        code_format<int8_t>("I8_tensor", Scales::of_tensor),
                                        code_format<int8_t>("I8_tensor_zero", Scales::of_tensor, true),
                                        code_format<Float8>("F8_E4M3", Scales::of_rows),
                                        code_format<Float8>("F8_E4M3_tensor", Scales::of_tensor),
                                        code_format<Float8E5M2>("F8_E5M2", Scales::of_rows),
                                        code_format<Float8E5M2>("F8_E5M2_tensor", Scales::of_tensor)};
  return all;
}
TT_API const BlockFormat* find_code_format(std::string_view name) {
  for (const BlockFormat& f : code_formats())
    if (f.name == name) return &f;
  return nullptr;
}

}  // namespace tinytorch::inline TT_BUILD
#pragma GCC diagnostic pop
#endif
