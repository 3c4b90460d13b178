// Linear layers with codes of fp8 e4m3 (contract: backend/cpu/linear_int8.hpp). cuBLASLt computes products
// whose sizes are multiples of 16, with one scale for each operand or one for each row; a bias of the
// result's dtype is added there, too. Other products are those of the codes as bf16, which holds every code
// exactly, with sums in f32; the scales follow in a pass of their own.
#pragma once

#include <optional>
#include <tinytorch/backend/cuda/device/float8.cuh>
#include <tinytorch/backend/cuda/kernels/gemm/scale_sums.cuh>
#include <tinytorch/backend/cuda/kernels/matmul.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// to [n] = the values of the codes from [n]; a thread converts eight.
static __global__ void __launch_bounds__(256)
    decode_fp8_kernel(BFloat16* to_, const uint8_t* from, int64_t n, bool vectors) {
  const int64_t i = (static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x) * 8;
  if (i >= n) return;
  uint8_t codes[8] = {};
  if (vectors && i + 8 <= n) {
    const uint2 word = *reinterpret_cast<const uint2*>(from + i);
    memcpy(codes, &word, sizeof(word));
  } else {
    for (int k = 0; k < 8 && i + k < n; ++k) codes[k] = from[i + k];
  }
  float x[8];
#pragma unroll
  for (int k = 0; k < 8; k += 2) {
    decode_pair<Float8>(x[k], x[k + 1], codes[k] | static_cast<unsigned>(codes[k + 1]) << 8);
  }
  if (i + 8 <= n) return store(to_ + i, x);
  for (int k = 0; k < 8 && i + k < n; ++k) to_[i + k] = to<BFloat16>(x[k]);
}

// Codes [R, K] as bf16.
class DecodedCodes {
 public:
  explicit DecodedCodes(const View& codes) : values_(codes.numel()), shape_(codes.shape) {
    const Contiguous in(codes);
    const bool vectors = reinterpret_cast<uintptr_t>(in.as<char>()) % 8 == 0;
    launch(decode_fp8_kernel, over(ceil_div(codes.numel(), 8), 256), values_.data(), in.as<const uint8_t>(),
           codes.numel(), vectors);
  }
  View view() const { return contiguous_view(values_.data(), DType::bf16, shape_); }

 private:
  DeviceScratch<BFloat16> values_;
  Shape shape_;
};

#if !TINYTORCH_CUDA_SIM
// `count` scales; a single one is repeated.
class RepeatedScale {
 public:
  RepeatedScale(const View& scale, int64_t count) : data_(scale.data) {
    if (scale.numel() == count) {
      dense_.emplace(scale);
      data_ = dense_->as<float>();
      return;
    }
    all_.emplace(count);
    data_ = all_->data();
    View one = scale;
    one.shape = {count}, one.strides = {0};
    copy(contiguous_view(data_, DType::f32, {count}), one);
  }
  const void* data() const { return data_; }

 private:
  void* data_;
  std::optional<Contiguous> dense_;
  std::optional<DeviceScratch<float>> all_;
};

// Computes the product by cuBLASLt. Returns false if cuBLASLt has no algorithm for it; then nothing was
// queued.
inline bool blas_fp8(const View& out, const View& x, const View& weight, const View& x_scale,
                     const View& weight_scale, const View& bias) {
  const int64_t M = out.shape[0], N = out.shape[1], K = x.shape[1];
  const auto rows_fit = [](const View& v) {
    return v.strides[1] == 1 && v.strides[0] % 16 == 0 && alignment_of(v.data) >= 16;
  };
  if (!uses_blas() || properties(current_device()).major < 9 || K == 0 || K % 16 != 0 || N % 16 != 0)
    return false;
  if (!rows_fit(x) || !rows_fit(weight) || !out.contiguous() || alignment_of(out.data) < 16) return false;
  if (!x_scale.data || !weight_scale.data || (bias.data && bias.dtype != out.dtype)) return false;
  if (bias.data && (out.dtype == DType::f32 || !bias.contiguous() || alignment_of(bias.data) < 16))
    return false;
  BlasProduct p;
  p.M = N, p.N = M, p.K = K;
  p.a = {weight.data, DType::u8, true, K, N, weight.strides[0], 0};
  p.b = {x.data, DType::u8, false, K, M, x.strides[0], 0};
  p.d = {out.data, out.dtype, false, N, M, N, 0};
  p.epilogue = bias.data ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
  p.bias = bias.data;
  p.scales_of_lines = x_scale.numel() > 1 || weight_scale.numel() > 1;
  const RepeatedScale of_x(x_scale, p.scales_of_lines ? M : 1), of_w(weight_scale, p.scales_of_lines ? N : 1);
  p.a_scale = of_w.data(), p.b_scale = of_x.data();
  BlasPlan plan(p);
  if (!plan.find()) return false;
  plan.run();
  return true;
}
#else
inline bool blas_fp8(const View&, const View&, const View&, const View&, const View&, const View&) {
  return false;
}
#endif

void linear_fp8(const View& out, const View& x, const View& weight, const View& x_scale,
                const View& weight_scale, const View& bias, Activation fn) {
  check_codes_product("linear_fp8", DType::u8, out, x, weight, x_scale, weight_scale, bias, fn);
  if (out.numel() == 0) return;
  if (blas_fp8(out, x, weight, x_scale, weight_scale, bias)) {
    if (fn != Activation::none) unary(activation_fn(fn), out, out, 0, 0);
    return;
  }
  const DeviceScratch<float> sums(out.numel());
  const View all = contiguous_view(sums.data(), DType::f32, out.shape);
  if (x.shape[1] == 0) {
    fill(all, 0.0);
  } else {
    const DecodedCodes x_values(x), weight_values(weight);
    multiply(all, x_values.view(), transposed(weight_values.view()));
  }
  with_scaled_sums(out, x_scale, weight_scale, bias, fn, [&](const auto& to) {
    if constexpr (!std::is_same_v<std::remove_cvref_t<decltype(to)>, ScaledSums<int>>)
      scale_sums(to, static_cast<const float*>(sums.data()));
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
