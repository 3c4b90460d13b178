// QuantizedTensor: a tensor [..., K] whose rows are stored in few bits, by a block format.
//
//   QuantizedTensor w = quantize(weight, "Q4_0");      // weight [N, K] -> 4.5 bits a number
//   Tensor y = linear(x, w, bias);                     // reads the packed rows
//   Tensor back = w.dequantize();                      // f32, for whoever needs numbers
//
// It stands beside Tensor, not under it: a block is no element, so there is no arithmetic on its elements,
// and a view takes whole rows. Its memory is one u8 tensor, which module trees, files and devices know.
#pragma once

#include <string>
#include <tinytorch/backend/cpu/block_linear.hpp>
#include <tinytorch/quantization/granularity.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tensor/ops.hpp>
#include <tinytorch/tensor/rules.hpp>

namespace tinytorch::inline TT_BUILD {

// The format with this name. TT-QUANT-01 with a list of all names if there is none.
inline const BlockFormat& block_format(std::string_view name, TT_LOC) {
  if (const BlockFormat* const found = find_block_format(name)) return *found;
  std::string names;
  for (const BlockFormat& f : block_formats()) names += std::string(names.empty() ? "" : ", ") + f.name;
  fail("TT-QUANT-01", "there is no format '" + std::string(name) + "'\n  hint: the formats are " + names,
       loc);
}

class QuantizedTensor {
 public:
  QuantizedTensor() = default;
  // `blocks` u8 [..., format.row_bytes(K)] holds the packed rows of a tensor [..., K]. TT-QUANT-02 if the
  // sizes do not fit. `format` outlives this object.
  QuantizedTensor(const BlockFormat& format, int64_t K, Tensor blocks, TT_LOC)
      : format_(&format), K_(K), blocks_(std::move(blocks)) {
    const bool fits = blocks_.dtype() == DType::u8 && blocks_.rank() >= 1 && K >= 0 &&
                      K % format.block == 0 && blocks_.shape().back() == format.row_bytes(K) &&
                      blocks_.is_contiguous();
    if (!fits) {
      fail("TT-QUANT-02",
           "these bytes are no rows of " + std::to_string(K) + " numbers in " + format.name + ": " +
               blocks_.describe() + "\n  rule: contiguous u8 [..., " +
               std::to_string(K / format.block * format.bytes) + "], and K is a multiple of " +
               std::to_string(format.block),
           loc);
    }
  }

  bool defined() const { return format_ != nullptr; }
  const BlockFormat& format() const { return *format_; }
  Shape shape() const {
    Shape s = blocks_.shape();
    s.back() = K_;
    return s;
  }
  int64_t numel() const { return shape().numel(); }
  int64_t bytes() const { return blocks_.numel(); }
  Device device() const { return blocks_.device(); }
  const Tensor& blocks() const { return blocks_; }  // u8 [..., row_bytes]

  // Rows [begin, end) of the first dimension, in the same memory. Needs rank 2 or more.
  QuantizedTensor rows(int64_t begin, int64_t end, TT_LOC) const {
    if (blocks_.rank() < 2) fail("TT-QUANT-02", "a view takes whole rows, and this tensor is one row", loc);
    return {*format_, K_, slice(blocks_, 0, begin, end, 1, loc), loc};
  }
  QuantizedTensor to(Device device, TT_LOC) const { return {*format_, K_, blocks_.to(device, loc), loc}; }

  // The numbers, on the same device, in f32, or converted to another floating dtype.
  Tensor dequantize(DType dtype = DType::f32, TT_LOC) const {
    const Tensor bytes = blocks_.to(cpu, loc);
    Tensor out = empty(shape(), DType::f32, cpu);
    const int64_t blocks = numel() / format_->block;
    if (blocks > 0) format_->unpack(bytes.view_of().as<const uint8_t>(), blocks, out.view_of().as<float>());
    return out.to(dtype, loc).to(device(), loc);
  }

  // "QuantizedTensor [768, 3072] Q4_0, 4.5 bits a number, 1.3 MB on cpu".
  std::string describe() const {
    char text[96];
    std::snprintf(text, sizeof text, " %s, %g bits a number, %lld bytes on ", format_->name,
                  format_->bits_per_weight(), static_cast<long long>(bytes()));
    return "QuantizedTensor " + shape().str() + text + device().str();
  }

 private:
  const BlockFormat* format_ = nullptr;
  int64_t K_ = 0;
  Tensor blocks_;
};

// x [..., K] of a floating dtype, packed on its device. TT-QUANT-03 if K is no multiple of the format's
// block; TT-QUANT-04 if a number is not finite.
inline QuantizedTensor quantize(const Tensor& x, const BlockFormat& format, TT_LOC) {
  require_defined("quantize", loc, x);
  require_floating("quantize", x, loc);
  const int64_t K = x.rank() > 0 ? x.shape().back() : 0;
  if (x.rank() == 0 || K % format.block != 0) {
    fail("TT-QUANT-03",
         std::string("quantize: ") + format.name + " stores blocks of " + std::to_string(format.block) +
             " numbers of a row, got " + x.describe() + "\n  hint: choose a format whose block divides " +
             std::to_string(K) + ", or keep this tensor as it is",
         loc);
  }
  const Tensor floats = x.detach().to(cpu, loc).to(DType::f32, loc).contiguous();
  const float* const p = floats.view_of().as<const float>();
  for (int64_t i = 0; i < floats.numel(); ++i) {
    if (std::isfinite(p[i])) continue;
    fail("TT-QUANT-04",
         "quantize: element " + std::to_string(i) + " of " + x.describe() +
             " is not a finite number\n  hint: a block has one scale, so it would spoil its neighbours; find "
             "where the weights became infinite or NaN",
         loc);
  }
  Shape shape = floats.shape();
  shape.back() = format.row_bytes(K);
  Tensor out = empty(shape, DType::u8, cpu);
  const int64_t rows = K == 0 ? 0 : floats.numel() / K;
  uint8_t* const bytes = out.view_of().as<uint8_t>();
  parallel_for(rows, grain_of(K), [&](int64_t begin, int64_t end) {
    const int64_t blocks = K / format.block;
    format.pack(p + begin * K, (end - begin) * blocks, bytes + begin * blocks * format.bytes);
  });
  return {format, K, out.to(x.device(), loc), loc};
}
inline QuantizedTensor quantize(const Tensor& x, std::string_view format, TT_LOC) {
  return quantize(x, block_format(format, loc), loc);
}

// sqnr_db() of the packed numbers against the tensor that they were made from (granularity.hpp).
inline double sqnr_db(const Tensor& x, const QuantizedTensor& w, TT_LOC) {
  return sqnr_db(x, w.dequantize(DType::f64, loc), loc);
}

// x [M, K] and the packed rows of a weight [N, K] -> [M, N].
struct BlockLinearOp final : Primitive<BlockLinearOp> {
  static constexpr const char* kName = "block_linear";
  const BlockFormat* format;
  Activations activations;
  BlockLinearOp(const BlockFormat& f, Activations a) : format(&f), activations(a) {}

  Specs infer(const Tensors& in, Loc loc) const override {
    if (in[0].dtype() == DType::f64 || !is_floating(in[0].dtype())) {
      fail("TT-DTYPE-02",
           "linear with packed weights takes x of f32, bf16 or f16, got " + in[0].describe() +
               "\n  hint: convert it with x.to(f32)",
           loc);
    }
    const int64_t K = in[0].shape()[1], N = in[1].shape()[0];
    const bool has_bias = in[2].defined();
    if (K % format->block != 0 || format->row_bytes(K) != in[1].shape()[1] ||
        (has_bias && !(in[2].shape() == Shape{N}))) {
      fail("TT-SHAPE-02",
           "linear: sizes differ: x has " + std::to_string(K) + " features, the weight in " + format->name +
               " has " + std::to_string(in[1].shape()[1] / format->bytes * format->block) +
               "\n  rule: x [..., K], weight [N, K], bias [N]",
           loc);
    }
    if (has_bias && (in[2].dtype() == DType::f64 || !is_floating(in[2].dtype())))
      fail("TT-DTYPE-02", "linear: the bias must be f32, bf16 or f16, got " + in[2].describe(), loc);
    return {{{in[0].shape()[0], N}, in[0].dtype()}};
  }
  double flops(const Tensors& in, const Tensors& out) const override {
    return 2.0 * static_cast<double>(out[0].numel()) * static_cast<double>(in[0].shape().back());
  }
  void run(const Tensors& in, Tensors& out) const override {
    TT_KERNEL(out[0], block_linear(out[0].view_of(), in[0].view_of(), in[1].view_of(), view_or_none(in[2]),
                                   *format, activations));
  }
  Save saves() const override { return Save::nothing; }
  Tensors vjp(const Saved&, const Tensors&) const override {
    fail("TT-GRAD-05",
         "linear with packed weights has no derivative\n  hint: train with floats and fake quantization, and "
         "pack the result");
  }
};

// x [..., K] weight^T + bias: weight [N, K], bias [N] or undefined -> [..., N] in the dtype of x. By default
// activations are rounded to 8 bits in groups of 32, if the format has such a kernel.
inline Tensor linear(const Tensor& x, const QuantizedTensor& weight, const Tensor& bias = {},
                     Activations activations = Activations::int8, TT_LOC) {
  require_defined("linear", loc, x);
  if (x.rank() == 0) fail("TT-SHAPE-04", "linear: x needs at least rank 1, got " + x.describe(), loc);
  Shape shape = x.shape();
  shape.back() = weight.shape()[0];
  const int64_t K = x.shape().back(), M = K == 0 ? 0 : x.numel() / K;
  const Tensor y = apply(BlockLinearOp(weight.format(), activations),
                         {reshape(x, {M, K}, loc), weight.blocks(), bias}, loc);
  return reshape(y, shape, loc);
}

}  // namespace tinytorch::inline TT_BUILD
