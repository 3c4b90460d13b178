// Linear layers with 8-bit codes of weights and activations: out = fn(scales x W^T + bias). The sums of i8
// are exact integers; scales are applied to complete sums, once.
#pragma once

#include <tinytorch/backend/parameters.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// out [M, N] = fn(x_scale[m] weight_scale[n] (x [M, K] weight [N, K]^T) + bias[n]). x and weight are i8, with
// any strides. Scales are f32 with 1 or M, and 1 or N elements; they and bias [N], of any floating dtype, may
// be without data. out is f32, bf16 or f16; or i32 for the sums themselves, which wrap at 32 bits, without
// scales, bias and fn. Throws TT-DTYPE-02 and TT-SHAPE-02 (backend/codes_product.hpp).
TT_API void linear_int8(const View& out, const View& x, const View& weight, const View& x_scale,
                        const View& weight_scale, const View& bias, Activation fn);
// linear_int8 for codes u8 with the bits of fp8 e4m3; sums are in f32. The CPU widens codes to f32 first.
TT_API void linear_fp8(const View& out, const View& x, const View& weight, const View& x_scale,
                       const View& weight_scale, const View& bias, Activation fn);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(PRODUCTS)
#include <tinytorch/backend/codes_product.hpp>
#include <tinytorch/backend/cpu/gemm.hpp>
#include <tinytorch/backend/cpu/gemm/int8.hpp>
#include <tinytorch/backend/cpu/loops/contiguous.hpp>
#include <tinytorch/backend/cpu/loops/function_kernels.hpp>
#include <tinytorch/backend/kv_format.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// The epilogue of a product of 8-bit codes: scales of rows and columns, bias and activation, in f32.
class CodesEpilogue {
 public:
  CodesEpilogue(const View& x_scale, const View& weight_scale, const View& bias, Activation fn)
      : rows_(x_scale),
        columns_(weight_scale),
        bias_(bias),
        row_step_(x_scale.numel() == 1 ? 0 : 1),
        column_step_(weight_scale.numel() == 1 ? 0 : 1),
        fn_(fn),
        activate_(kernel_of<float>(activation_fn(fn))) {}

  // Writes to[0, n), the results of the sums of row i from column j on.
  template <class S>
  void operator()(float* to, const S* sums, int64_t i, int64_t j, int64_t n) const {
    const float row = rows_.data() ? rows_.data()[i * row_step_] : 1.0f;
    const float* const scale = columns_.data() ? columns_.data() + j * column_step_ : nullptr;
    for (int64_t k = 0; k < n; ++k) {
      const float value = static_cast<float>(sums[k]) * row;
      to[k] = scale ? value * scale[k * column_step_] : value;
    }
    for (int64_t k = 0; k < n && bias_.data(); ++k) to[k] += bias_.data()[j + k];
    constexpr double kNone[] = {0, 0};
    const float* const in[] = {to};
    if (fn_ != Activation::none) activate_(to, in, n, kNone);
  }

 private:
  ContiguousInput<float> rows_, columns_, bias_;
  int64_t row_step_, column_step_;
  Activation fn_;
  Kernel<float> activate_;
};

// The epilogue of sums of S, which writes `out`.
template <class S>
auto write_codes_result(const View& out, const CodesEpilogue& of_sums) {
  return [&out, &of_sums](const SumBlock& s) {
    alignas(64) float buffer[kPackLength<float>];
    for (int64_t r = 0; r < s.rows; ++r) {
      for (int64_t k = 0; k < s.cols; k += kPackLength<float>) {
        const int64_t n = std::min(kPackLength<float>, s.cols - k);
        of_sums(buffer, s.at<S>(r, k), s.i + r, s.j + k, n);
        write_row(out, s.i + r, s.j + k, n, buffer);
      }
    }
  };
}

TT_API void linear_int8(const View& out, const View& x, const View& weight, const View& x_scale,
                        const View& weight_scale, const View& bias, Activation fn) {
  check_codes_product("linear_int8", DType::i8, out, x, weight, x_scale, weight_scale, bias, fn);
  if (out.numel() == 0) return;
  if (out.dtype == DType::i32) {
    ContiguousOutput<int32_t> sums(out);
    gemm_int8(contiguous_view(sums.data(), out), x, transposed(weight));
    return sums.write_back();
  }
  Scratch<int32_t> sums(out.numel());
  const CodesEpilogue of_sums(x_scale, weight_scale, bias, fn);
  const auto epilogue = write_codes_result<int32_t>(out, of_sums);
  gemm_int8(contiguous_view(sums.data(), out), x, transposed(weight), false, true, Epilogue(epilogue));
}

TT_API void linear_fp8(const View& out, const View& x, const View& weight, const View& x_scale,
                       const View& weight_scale, const View& bias, Activation fn) {
  check_codes_product("linear_fp8", DType::u8, out, x, weight, x_scale, weight_scale, bias, fn);
  if (out.numel() == 0) return;
  const auto widen = [](float* to, const View& codes) {
    for (int64_t r = 0; r < codes.shape[0]; ++r) {
      const Float8* const row = codes.as<const Float8>() + r * codes.strides[0];
      for (int64_t k = 0; k < codes.shape[1]; ++k) *to++ = static_cast<float>(row[k * codes.strides[1]]);
    }
  };
  Scratch<float> x_values(x.numel()), weight_values(weight.numel()), sums(out.numel());
  widen(x_values.data(), x), widen(weight_values.data(), weight);
  const CodesEpilogue of_sums(x_scale, weight_scale, bias, fn);
  const auto epilogue = write_codes_result<float>(out, of_sums);
  gemm(contiguous_view(sums.data(), out), contiguous_view(x_values.data(), x),
       transposed(contiguous_view(weight_values.data(), weight)), false, true, Epilogue(epilogue));
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
