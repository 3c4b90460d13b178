// QuantizedTensor: a tensor [..., K] whose rows are stored in few bits, by a block format.
//
//   QuantizedTensor w = quantize(weight, "Q4_0");      // weight [N, K] -> 4.5 bits a number
//   Tensor y = linear(x, w, bias);                     // reads the packed rows
//   Tensor back = w.dequantize();                      // f32, for whoever needs numbers
//
// It stands beside Tensor, not under it: a block is no element, so there is no arithmetic on its elements,
// and a view takes whole rows. Its memory is one u8 tensor, which module trees, files and devices know. The
// formats of backend/cpu/code_linear.hpp ("I8", "F8_E4M3", ...) have two more tensors: scales, zero points.
#pragma once

#include <atomic>
#include <string>
#include <tinytorch/backend/cpu/block_linear.hpp>
#include <tinytorch/backend/cpu/code_linear.hpp>
#include <tinytorch/backend/float8_e5m2.hpp>
#include <tinytorch/backend/row_codes.hpp>
#include <tinytorch/core/simd_bytes.hpp>
#include <tinytorch/quantization/granularity.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tensor/ops.hpp>
#include <tinytorch/tensor/rules.hpp>

namespace tinytorch::inline TT_BUILD {

// The format with this name. Throws TT-QUANT-01 with a list of all names if there is none.
inline const BlockFormat& block_format(std::string_view name, TT_LOC) {
  if (const BlockFormat* const found = find_block_format(name)) return *found;
  if (const BlockFormat* const found = find_code_format(name)) return *found;
  std::string names;
  for (const auto formats : {block_formats(), code_formats()})
    for (const BlockFormat& f : formats) names += std::string(names.empty() ? "" : ", ") + f.name;
  fail("TT-QUANT-01", "there is no format '" + std::string(name) + "'\n  hint: the formats are " + names,
       loc);
}

class QuantizedTensor {
 public:
  QuantizedTensor() = default;
  // `blocks` u8 [..., format.row_bytes(K)] holds the packed rows of a tensor [..., K]. For formats with
  // scales beside the codes, `scales` f32 and `zero_points` i32 (if the format has them) are [...], one for
  // each row, or [1]. Throws TT-QUANT-02 if the sizes do not fit. `format` outlives this object.
  QuantizedTensor(const BlockFormat& format, int64_t K, Tensor blocks, Tensor scales = {},
                  Tensor zero_points = {}, TT_LOC)
      : format_(&format),
        K_(K),
        blocks_(std::move(blocks)),
        scales_(std::move(scales)),
        zero_points_(std::move(zero_points)) {
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
    require_beside(scales_, "scales", DType::f32, format.scales != Scales::in_blocks, loc);
    require_beside(zero_points_, "zero points", DType::i32, format.zero_points, loc);
  }

  bool defined() const { return format_ != nullptr; }
  const BlockFormat& format() const { return *format_; }
  Shape shape() const {
    Shape s = blocks_.shape();
    s.back() = K_;
    return s;
  }
  int64_t numel() const { return shape().numel(); }
  // The bytes of codes, scales and zero points together.
  int64_t bytes() const { return blocks_.numel() + 4 * (count_of(scales_) + count_of(zero_points_)); }
  Device device() const { return blocks_.device(); }
  const Tensor& blocks() const { return blocks_; }            // u8 [..., row_bytes]
  const Tensor& scales() const { return scales_; }            // f32, or undefined if they are in the blocks
  const Tensor& zero_points() const { return zero_points_; }  // i32, or undefined if there are none

  // Rows [begin, end) of the first dimension, in the same memory. Needs rank 2 or more.
  QuantizedTensor rows(int64_t begin, int64_t end, TT_LOC) const {
    if (blocks_.rank() < 2) fail("TT-QUANT-02", "a view takes whole rows, and this tensor is one row", loc);
    const auto part = [&](const Tensor& t) {
      return t.defined() && format_->scales == Scales::of_rows ? slice(t, 0, begin, end, 1, loc) : t;
    };
    return {*format_, K_, slice(blocks_, 0, begin, end, 1, loc), part(scales_), part(zero_points_), loc};
  }
  QuantizedTensor to(Device device, TT_LOC) const {
    const auto moved = [&](const Tensor& t) { return t.defined() ? t.to(device, loc) : t; };
    return {*format_, K_, blocks_.to(device, loc), moved(scales_), moved(zero_points_), loc};
  }

  // The numbers, on the same device, in f32, or converted to another floating dtype.
  Tensor dequantize(DType dtype = DType::f32, TT_LOC) const {
    const Tensor bytes = blocks_.to(cpu, loc);
    Tensor out = empty(shape(), DType::f32, cpu);
    const int64_t blocks = numel() / format_->block;
    if (blocks > 0) format_->unpack(bytes.view_of().as<const uint8_t>(), blocks, out.view_of().as<float>());
    if (blocks > 0 && scales_.defined()) apply_scales(out.view_of().as<float>(), loc);
    return out.to(dtype, loc).to(device(), loc);
  }

  // "QuantizedTensor [768, 3072] Q4_0, 4.5 bits a number, 1327104 bytes on cpu".
  std::string describe() const {
    char text[96];
    const double bits = numel() == 0 ? format_->bits_per_weight()
                                     : 8.0 * static_cast<double>(bytes()) / static_cast<double>(numel());
    std::snprintf(text, sizeof text, " %s, %g bits a number, %lld bytes on ", format_->name, bits,
                  static_cast<long long>(bytes()));
    return "QuantizedTensor " + shape().str() + text + device().str();
  }

 private:
  static int64_t count_of(const Tensor& t) { return t.defined() ? t.numel() : 0; }
  // Scales or zero points are there exactly if the format has them, and fit the rows.
  void require_beside(const Tensor& t, const char* what, DType dtype, bool wanted, Loc loc) const {
    Shape rows;
    for (int d = 0; d + 1 < blocks_.rank(); ++d) rows.push_back(blocks_.shape()[d]);
    if (format_->scales == Scales::of_tensor) rows = {1};
    const bool fits = wanted ? t.defined() && t.dtype() == dtype && t.shape() == rows && t.is_contiguous() &&
                                   t.device() == blocks_.device()
                             : !t.defined();
    if (fits) return;
    fail("TT-QUANT-02",
         std::string(what) + " do not fit " + format_->name + ": " +
             (t.defined() ? t.describe() : std::string("none")) + "\n  rule: " +
             (wanted ? std::string("contiguous ") + name_of(dtype) + " " + rows.str() + " on " +
                           blocks_.device().str()
                     : std::string("this format has none beside its blocks")),
         loc);
  }
  void apply_scales(float* x, Loc loc) const {
    const Tensor scales = scales_.to(cpu, loc),
                 zeros = zero_points_.defined() ? zero_points_.to(cpu, loc) : Tensor();
    const auto* const scale = scales.view_of().as<const float>();
    const int32_t* const zero = zeros.defined() ? zeros.view_of().as<const int32_t>() : nullptr;
    for (int64_t i = 0; i < numel(); ++i) {
      const int64_t at = scales.numel() == 1 ? 0 : i / K_;
      x[i] = (x[i] - (zero ? static_cast<float>(zero[at]) : 0.0f)) * scale[at];
    }
  }

  const BlockFormat* format_ = nullptr;
  int64_t K_ = 0;
  Tensor blocks_, scales_, zero_points_;
};

namespace quantization {

// x [n], which has one scale, as codes. x is finite.
inline void encode_run(const BlockFormat& format, const float* x, int64_t n, uint8_t* codes, float& scale,
                       int32_t* zero_point) {
  float least = 0, largest = 0;
  for (int64_t i = 0; i < n; ++i) least = std::min(least, x[i]), largest = std::max(largest, x[i]);
  if (zero_point) {  // codes from 0 to 255, moved to those of an i8
    const AffineScale s = choose_scale(least, largest, 8, false);
    for (int64_t i = 0; i < n; ++i) codes[i] = static_cast<uint8_t>(quantize_value(x[i], s) - 128);
    scale = s.scale, *zero_point = s.zero_point - 128;
    return;
  }
  const float magnitude = std::max(-least, largest);
  const backend::RowScale by = format.codes == CodeType::int8 ? backend::RowScale::of<int8_t>(magnitude)
                               : format.codes == CodeType::fp8_e4m3
                                   ? backend::RowScale::of<backend::Float8>(magnitude)
                                   : backend::RowScale::of<backend::Float8E5M2>(magnitude);
  constexpr int64_t kPiece = 256;
  float piece[kPiece];
  for (int64_t i = 0; i < n; i += kPiece) {
    const int64_t count = std::min(kPiece, n - i);
    for (int64_t k = 0; k < count; ++k) piece[k] = by.number(x[i + k]);
    format.pack(piece, count, codes + i);
  }
  scale = by.scale;
}

// Rows of finite numbers [..., K] in a format with scales beside the codes, on the CPU.
inline QuantizedTensor encode(const Tensor& x, const BlockFormat& format, Loc loc) {
  const int64_t K = x.shape().back(), rows = K == 0 ? 0 : x.numel() / K;
  const bool by_row = format.scales == Scales::of_rows;
  Shape leading;
  for (int d = 0; d + 1 < x.rank(); ++d) leading.push_back(x.shape()[d]);
  const Shape counts = by_row ? leading : Shape{1};
  Tensor codes = empty(x.shape(), DType::u8, cpu), scales = zeros(counts, DType::f32, cpu), zero_points;
  if (format.zero_points) zero_points = zeros(counts, DType::i32, cpu);
  const auto* const from = x.view_of().as<const float>();
  auto* const to = codes.view_of().as<uint8_t>();
  auto* const scale = scales.view_of().as<float>();
  auto* const zero = format.zero_points ? zero_points.view_of().as<int32_t>() : nullptr;
  if (by_row) {
    parallel_for(rows, grain_of(K), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r)
        encode_run(format, from + r * K, K, to + r * K, scale[r], zero ? zero + r : nullptr);
    });
  } else {
    encode_run(format, from, x.numel(), to, scale[0], zero);
  }
  return {format, K, codes, scales, zero_points, loc};
}

// Rows of finite numbers in a format of blocks, on the CPU. Throws TT-QUANT-07 if a scale overflows.
inline QuantizedTensor pack_blocks(const Tensor& x, const BlockFormat& format, Loc loc) {
  Shape shape = x.shape();
  const int64_t K = shape.back(), rows = K == 0 ? 0 : x.numel() / K, blocks = K / format.block;
  shape.back() = format.row_bytes(K);
  Tensor out = empty(shape, DType::u8, cpu);
  const auto* const from = x.view_of().as<const float>();
  auto* const to = out.view_of().as<uint8_t>();
  std::atomic<int64_t> overflowed{-1};
  // A scale that overflows decodes to numbers that are not finite.
  const auto is_finite = [&](const float* x_row, const uint8_t* row) {
    for (int64_t k = 0; k < K; ++k)
      if (!std::isfinite(x_row[k])) return false;
    for (int64_t b = 0; b < blocks && format.unused_half >= 0; ++b)
      if (!std::isfinite(load_half(row + b * format.bytes + format.unused_half))) return false;
    return true;
  };
  parallel_for(rows, grain_of(K), [&](int64_t begin, int64_t end) {
    Scratch<float> back(K);
    for (int64_t r = begin; r < end; ++r) {
      uint8_t* const row = to + r * shape.back();
      format.pack(from + r * K, blocks, row);
      format.unpack(row, blocks, back.data());
      if (!is_finite(back.data(), row)) overflowed = r;
    }
  });
  if (overflowed >= 0) {
    fail("TT-QUANT-07",
         "quantize: a scale of row " + std::to_string(overflowed.load()) + " of " + x.describe() +
             " overflows in " + format.name +
             "\n  hint: divide the weights by a power of two, or choose a format with scales of f32, such as "
             "I8",
         loc);
  }
  return {format, K, out, {}, {}, loc};
}

}  // namespace quantization

// x [..., K] of a floating dtype, packed on its device. Throws TT-QUANT-03 if K is no multiple of the
// format's block, TT-QUANT-04 if a number is not finite, and TT-QUANT-07 if a scale is too large for its
// type.
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
  const bool in_blocks = format.scales == Scales::in_blocks;
  return (in_blocks ? quantization::pack_blocks : quantization::encode)(floats, format, loc)
      .to(x.device(), loc);
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
    // Scales and zero points are those of a QuantizedTensor, which has compared them with its rows.
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
    if (format->scales != Scales::in_blocks) {
      TT_KERNEL(out[0], code_linear(out[0].view_of(), in[0].view_of(), in[1].view_of(), in[3].view_of(),
                                    view_or_none(in[4]), view_or_none(in[2]), *format, activations));
      return;
    }
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
// activations are rounded to 8 bits, if the format has such a kernel (backend/block_format.hpp).
inline Tensor linear(const Tensor& x, const QuantizedTensor& weight, const Tensor& bias = {},
                     Activations activations = Activations::int8, TT_LOC) {
  require_defined("linear", loc, x);
  if (x.rank() == 0) fail("TT-SHAPE-04", "linear: x needs at least rank 1, got " + x.describe(), loc);
  Shape shape = x.shape();
  shape.back() = weight.shape()[0];
  const int64_t K = x.shape().back(), M = K == 0 ? 0 : x.numel() / K;
  Tensors in{reshape(x, {M, K}, loc), weight.blocks(), bias};
  if (weight.scales().defined()) in.push_back(weight.scales()), in.push_back(weight.zero_points());
  return reshape(apply(BlockLinearOp(weight.format(), activations), in, loc), shape, loc);
}

}  // namespace tinytorch::inline TT_BUILD
