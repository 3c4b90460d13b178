// Linear layers that multiply 8-bit integers: the operations, and the layer that quantizes its inputs anew in
// each call.
//
//   linear.replace(std::make_shared<DynamicLinear>(linear.weight, linear.bias));
//
//   y[m][n] = s_x[m] s_w[n] (sum over k of code_x[m][k] code_w[n][k]) + bias[n]
//
// A row of the weight has a scale, and so has a row of the inputs, which is a token. Both are constant in the
// sum over k, so that it is one of integers, which are exact; it is scaled once, at its end. The scale of a
// token is its own largest magnitude / 127: nothing must be calibrated, and a token's result does not depend
// on what else is in the batch. Inputs with a scale that is chosen before are in static_ptq.hpp.
// Source: Dettmers et al., "LLM.int8()", 2022, where rows with and without outliers are told apart, too.
#pragma once

#include <tinytorch/autograd/grad_mode.hpp>
#include <tinytorch/backend/cpu/linear_int8.hpp>
#include <tinytorch/backend/cpu/quantize_rows.hpp>
#include <tinytorch/layers/module.hpp>
#include <tinytorch/quantization/granularity.hpp>
#include <tinytorch/tensor/apply.hpp>

namespace tinytorch::inline TT_BUILD {

// x [M, K], f32, bf16 or f16 -> codes i8 [M, K] from -127 to 127, and the scales f32 [M] of the rows. A row
// of zeros has scale 0; one with a NaN or an infinity has scale NaN, so that its results are NaN.
struct QuantizeRowsOp final : Primitive<QuantizeRowsOp> {
  static constexpr const char* kName = "quantize_rows";
  Specs infer(const Tensors& in, Loc) const override {
    return {{in[0].shape(), DType::i8}, {{in[0].shape()[0]}, DType::f32}};
  }
  double flops(const Tensors& in, const Tensors&) const override {
    return 3.0 * static_cast<double>(in[0].numel());
  }
  void run(const Tensors& in, Tensors& out) const override {
    TT_KERNEL(out[0], quantize_rows(out[0].view_of(), out[1].view_of(), in[0].view_of()));
  }
  Save saves() const override { return Save::nothing; }
  Tensors vjp(const Saved&, const Tensors&) const override {
    fail("TT-GRAD-05", "quantize_rows has no derivative\n  hint: train with fake quantization");
  }
};

// Codes of x [M, K] and of a weight [N, K], both i8, the scales of the rows of x f32 [M], or one for all [1],
// the scales of the rows of the weight f32 [N], and a bias [N] or none -> [M, N]. Sums are exact integers,
// and are scaled once.
struct Int8LinearOp final : Primitive<Int8LinearOp> {
  static constexpr const char* kName = "linear_int8";
  DType dtype;  // of the result: f32, bf16 or f16
  explicit Int8LinearOp(DType of_result) : dtype(of_result) {}

  Specs infer(const Tensors& in, Loc) const override {
    return {{{in[0].shape()[0], in[1].shape()[0]}, dtype}};
  }
  double flops(const Tensors& in, const Tensors& out) const override {
    return 2.0 * static_cast<double>(out[0].numel()) * static_cast<double>(in[0].shape()[1]);
  }
  void run(const Tensors& in, Tensors& out) const override {
    TT_KERNEL(out[0], linear_int8(out[0].view_of(), in[0].view_of(), in[1].view_of(), in[2].view_of(),
                                  in[3].view_of(), view_or_none(in[4]), Activation::none));
  }
  Save saves() const override { return Save::nothing; }
  Tensors vjp(const Saved&, const Tensors&) const override {
    fail("TT-GRAD-05",
         "linear_int8 has no derivative\n  hint: train with floats and fake quantization, and convert the "
         "result");
  }
};

struct CodedRows {
  Tensor codes;   // i8 [M, K]
  Tensor scales;  // f32 [M]
};
// The rows of x [M, K], each with a scale of its own. Throws TT-DTYPE-02 unless x is f32, bf16 or f16.
inline CodedRows quantize_rows(const Tensor& x, TT_LOC) {
  const Tensors out = apply_all(QuantizeRowsOp(), {x}, loc);
  return {out[0], out[1]};
}

class DynamicLinear : public Module {
 public:
  // weight [N, K], floating, of which only the codes and scales are kept; bias [N] or undefined, which stays
  // as it is. Throws TT-CALIB-01 if a weight is not finite, and TT-SHAPE-02 unless it is a matrix.
  explicit DynamicLinear(const Tensor& of_weight, const Tensor& of_bias = {}, TT_LOC) {
    require_defined("DynamicLinear", loc, of_weight);
    if (of_weight.rank() != 2)
      fail("TT-SHAPE-02", "DynamicLinear: a weight is [N, K], got " + of_weight.describe(), loc);
    const ScaledCodes rows = scaled_codes(of_weight, {.bits = 8, .granularity = Granularity::row}, loc);
    weight = add_buffer("weight", rows.codes.to(of_weight.device()));
    weight_scale = add_buffer("weight_scale", rows.scales.reshape({-1}).to(of_weight.device()));
    if (of_bias.defined()) bias = add_buffer("bias", of_bias.detach());
  }
  // x [..., K], f32, bf16 or f16 -> [..., N] of the dtype of x. Throws TT-SHAPE-02 for another K.
  Tensor forward(const Tensor& x) override {
    const NoGrad no_grad;
    const int64_t N = weight.size(0), K = weight.size(1);
    if (x.rank() == 0 || x.size(-1) != K) {
      fail("TT-SHAPE-02", "DynamicLinear: x has the shape " + x.shape().str() +
                              "\n  rule: x [..., K], where the weight [N, K] is " + weight.shape().str());
    }
    Shape shape = x.shape();
    shape.back() = N;
    const int64_t M = K == 0 ? 0 : x.numel() / K;
    const CodedRows rows = quantize_rows(x.reshape({M, K}));
    const Tensor y =
        apply(Int8LinearOp(x.dtype()), {rows.codes, weight, rows.scales, weight_scale.to(DType::f32), bias});
    return y.reshape(shape);
  }

  Tensor weight;        // i8 [N, K]
  Tensor weight_scale;  // f32 [N]
  Tensor bias;          // [N]; undefined without a bias
};

}  // namespace tinytorch::inline TT_BUILD
