// The calls of codes_cases.hpp: quantized rows and products of 8-bit codes.
#pragma once

#include <functional>
#include <tinytorch/backend/cpu/linear_int8.hpp>
#include <tinytorch/backend/cpu/quantize_rows.hpp>
#include <tinytorch/backend/cuda/launch.hpp>

#include "cuda_case.hpp"

namespace bench {

// Makes one call. The caller keeps the results until the next call on the same set, so that the memory of
// results rotates like that of operands.
using Work = std::function<Tensors()>;

inline Tensor normal(const tt::Shape& shape, tt::DType dtype, tt::Device device) {
  const Tensor x = tt::randn(shape, tt::f32, device);
  return dtype == tt::f32 ? x : x.to(dtype);
}
inline bool is_codes_op(const std::string& op) {
  return op == "quantize_rows" || op == "codes_product" || op == "int8_linear";
}

// Codes [R, K] and scale [R] of x.
inline void quantize_to(const Tensor& codes, const Tensor& scale, const Tensor& x) {
  if constexpr (tt::backend::cuda::is_built()) {
    if (x.device().is_cuda())
      return tt::backend::cuda::quantize_rows(codes.view_of(), scale.view_of(), x.view_of());
  }
  tt::backend::cpu::quantize_rows(codes.view_of(), scale.view_of(), x.view_of());
}
// A matrix of codes with its scales: `scales` is 1 or the number of rows.
struct Codes {
  Tensor codes, scale;
  Codes(int64_t rows, int64_t K, tt::DType dtype, bool of_rows, tt::Device device)
      : codes(tt::empty({rows, K}, dtype, device)), scale(tt::empty({of_rows ? rows : 1}, tt::f32, device)) {
    const Tensor x = tt::randn({rows, K}, tt::f32, device);
    if (of_rows)
      quantize_to(codes, scale, x);
    else
      quantize_to(tt::reshape(codes, {1, rows * K}), scale, tt::reshape(x, {1, rows * K}));
  }
};
inline void multiply_codes(const Tensor& out, const Tensor& x, const Codes& w, const Tensor& scale,
                           const Tensor& bias) {
  const bool sums = out.dtype() == tt::i32, fp8 = x.dtype() == tt::u8;
  const tt::backend::View none, of_x = sums ? none : scale.view_of(), of_w = sums ? none : w.scale.view_of(),
                                add = bias.defined() ? bias.view_of() : none;
  constexpr auto kNone = tt::backend::Activation::none;
  if constexpr (tt::backend::cuda::is_built()) {
    if (out.device().is_cuda()) {
      return (fp8 ? tt::backend::cuda::linear_fp8 : tt::backend::cuda::linear_int8)(
          out.view_of(), x.view_of(), w.codes.view_of(), of_x, of_w, add, kNone);
    }
  }
  (fp8 ? tt::backend::cpu::linear_fp8 : tt::backend::cpu::linear_int8)(
      out.view_of(), x.view_of(), w.codes.view_of(), of_x, of_w, add, kNone);
}

inline Work quantize_work(const CudaCase& c, tt::Device device) {
  const Tensor x = normal({c.shape[0], c.shape[1]}, c.dtype, device);
  const tt::DType dtype = c.options.at("fp8") ? tt::u8 : tt::i8;
  return [x, dtype]() -> Tensors {
    const Tensor codes = tt::empty(x.shape(), dtype, x.device()),
                 scale = tt::empty({x.shape()[0]}, tt::f32, x.device());
    quantize_to(codes, scale, x);
    return {codes, scale};
  };
}
// The product of codes alone: sums of i8, or bf16 of fp8.
inline Work product_work(const CudaCase& c, tt::Device device) {
  const bool fp8 = c.options.at("fp8") != 0, of_rows = c.options.at("of_rows") != 0;
  const tt::DType dtype = fp8 ? tt::u8 : tt::i8, result = fp8 ? tt::bf16 : tt::i32;
  const Codes x(c.shape[0], c.shape[1], dtype, of_rows, device),
      w(c.shape[2], c.shape[1], dtype, of_rows, device);
  const auto path = static_cast<tt::backend::cuda::Int8Path>(c.options.at("path"));
  return [x, w, result, path]() -> Tensors {
    const Tensor out = tt::empty({x.codes.shape()[0], w.codes.shape()[0]}, result, x.codes.device());
    tt::backend::cuda::use_int8_path(path);
    multiply_codes(out, x.codes, w, x.scale, {});
    return {out};
  };
}
// A linear layer of bf16 activations and int8 weights: quantize the rows of x, product, scales and bias.
inline Work int8_linear_work(const CudaCase& c, tt::Device device) {
  const Tensor x = normal({c.shape[0], c.shape[1]}, tt::bf16, device),
               bias = normal({c.shape[2]}, tt::f32, device);
  const Codes w(c.shape[2], c.shape[1], tt::i8, true, device);
  const auto path = static_cast<tt::backend::cuda::Int8Path>(c.options.at("path"));
  return [x, bias, w, path]() -> Tensors {
    const Tensor codes = tt::empty(x.shape(), tt::i8, x.device()),
                 scale = tt::empty({x.shape()[0]}, tt::f32, x.device()),
                 out = tt::empty({x.shape()[0], w.codes.shape()[0]}, tt::bf16, x.device());
    tt::backend::cuda::use_int8_path(path);
    quantize_to(codes, scale, x);
    multiply_codes(out, codes, w, scale, bias);
    return {out};
  };
}
inline Work codes_work(const CudaCase& c, tt::Device device) {
  if (c.op == "quantize_rows") return quantize_work(c, device);
  return c.op == "codes_product" ? product_work(c, device) : int8_linear_work(c, device);
}

}  // namespace bench
