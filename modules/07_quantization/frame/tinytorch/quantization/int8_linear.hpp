// Linear layers that multiply 8-bit integers: the operations, and the layer that quantizes its inputs anew in
// each call.
//
// The frame of a course header: it has the given parts, and includes the functions of task 7.6. It is cut
// from the library's header by modules/frames.py.
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
  explicit DynamicLinear(const Tensor& of_weight, const Tensor& of_bias = {}, TT_LOC);  // task 7.6
  inline Tensor forward(const Tensor& x) override;                                      // task 7.6

  Tensor weight;        // i8 [N, K]
  Tensor weight_scale;  // f32 [N]
  Tensor bias;          // [N]; undefined without a bias
};

}  // namespace tinytorch::inline TT_BUILD

#include <tasks/quantization/int8_linear.hpp>
