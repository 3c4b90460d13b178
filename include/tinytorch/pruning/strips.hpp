// StripsMatrix: a 2:4 sparse matrix of bf16 or f16 in the order in which a GPU's sparse tensor cores read it,
// and linear layers with it.
//
//   TwoFourMatrix two = compress_two_four(weight);         // keeps the two largest of each four
//   StripsMatrix w = to_strips(two);                       // once per weight
//   Tensor y = linear(x, w, bias);                         // half of the products of the dense weight
//
// It has 9/16 of the bytes of the dense matrix, so a product with few rows of x is faster than with the dense
// weight: 1.6 times for one row on an H200. With many rows the tensor cores need half of the steps: 1.27 to
// 1.39 times as fast from 512 rows on. Between 16 and 128 rows it is slower so far
// (bench/results/sparse_h200.json). On the CPU the results are the same, but not faster.
#pragma once

#include <cstring>
#include <tinytorch/backend/cpu/sparse24.hpp>
#include <tinytorch/backend/cuda/launch.hpp>
#include <tinytorch/pruning/two_four.hpp>
#include <tinytorch/tensor/apply.hpp>

namespace tinytorch::inline TT_BUILD {

class StripsMatrix {
 public:
  StripsMatrix() = default;
  // strips u8 of the shape Strips24::shape(rows, columns), contiguous; dtype bf16 or f16. Throws TT-PRUNE-05
  // unless they fit together.
  StripsMatrix(Tensor strips, DType dtype, int64_t rows, int64_t columns, TT_LOC)
      : strips_(std::move(strips)), dtype_(dtype), rows_(rows), columns_(columns) {
    const bool fits = is_16_bit(dtype) && rows >= 0 && columns >= 0 && columns % 4 == 0 &&
                      pruning::is_part(strips_, DType::u8, backend::Strips24::shape(rows, columns));
    pruning::require_part(
        fits, "2:4",
        "strips u8 [ceil(N / 16), 1152 ceil(K / 64)] of a matrix [N, K] of bf16 or f16 with "
        "K % 4 = 0",
        loc);
    strips_ = pruning::aligned_part(strips_, loc);
  }

  bool defined() const { return strips_.defined(); }
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  DType dtype() const { return dtype_; }
  Device device() const { return strips_.device(); }
  const Tensor& strips() const { return strips_; }
  int64_t bytes() const { return pruning::bytes_of_part(strips_); }
  StripsMatrix to(Device device, TT_LOC) const {
    StripsMatrix moved = *this;
    moved.strips_ = strips_.to(device, loc);
    return moved;
  }
  // The matrix [N, K] on the same device.
  Tensor dense(TT_LOC) const {
    const Tensor here = strips_.to(cpu, loc), out = zeros({rows_, columns_}, dtype_, cpu, loc);
    const auto* const from = static_cast<const uint8_t*>(here.raw());
    auto* const to = static_cast<uint16_t*>(out.raw());
    const int64_t parts = backend::Strips24::parts(columns_);
    for (int64_t n = 0; n < rows_; ++n) {
      const int64_t line = n % 8, half = n % 16 / 8;
      for (int64_t group = 0; group < columns_ / 4; ++group) {
        const int64_t in_part = group % 16, lane = line * 4 + in_part % 4, reg = in_part / 4 % 2 * 2 + half;
        const uint8_t* const part = from + (n / 16 * parts + group / 16) * backend::Strips24::kPartBytes;
        uint16_t two[2], places;
        std::memcpy(two, part + in_part / 8 * 512 + lane * 16 + reg * 4, sizeof two);
        std::memcpy(&places, part + backend::Strips24::kPlacesAt + (line * 4 + in_part / 4) * 4 + half * 2,
                    sizeof places);
        const int both = places >> (group % 4 * 4) & 15;
        uint16_t* const four = to + n * columns_ + group * 4;
        four[both & 3] = two[0], four[both >> 2] = two[1];
      }
    }
    return out.to(device(), loc);
  }

 private:
  Tensor strips_;
  DType dtype_ = DType::bf16;
  int64_t rows_ = 0, columns_ = 0;
};

// w [N, K] of f32, bf16 or f16 -> of each four neighbours in a row the two of the largest magnitude (the
// first of equal ones, NaN first), computed on the device of w. Throws TT-PRUNE-01 unless K is a multiple of
// 4.
inline TwoFourMatrix compress_two_four(const Tensor& w, TT_LOC) {
  const NoGrad no_grad;
  require_defined("compress_two_four", loc, w);
  if (w.rank() != 2)
    fail("TT-SHAPE-02", "compress_two_four: needs a matrix [N, K], got " + w.describe(), loc);
  if (w.dtype() != DType::f32 && !is_16_bit(w.dtype())) {
    fail("TT-DTYPE-02", "compress_two_four: magnitudes are compared in f32, bf16 or f16, got " + w.describe(),
         loc);
  }
  const int64_t N = w.size(0), K = w.size(1);
  if (K % 4 != 0) {
    fail("TT-PRUNE-01",
         "compress_two_four: a row is stored in groups of four columns, and " + w.describe() + " has " +
             std::to_string(K) + "\n  hint: keep this matrix dense, or pad its columns with zeros",
         loc);
  }
  const Tensor values = empty({N, K / 2}, w.dtype(), w.device(), loc),
               places = empty({N, (K + 15) / 16 * 2}, DType::u8, w.device(), loc);
  TT_KERNEL(values, compress24(values.view_of(), places.view_of(), w.detach().view_of()));
  return {values, places, loc};
}

// Throws TT-DTYPE-02 unless w is of bf16 or f16.
inline StripsMatrix to_strips(const TwoFourMatrix& w, TT_LOC) {
  if (!w.defined() || !is_16_bit(w.dtype())) {
    fail("TT-DTYPE-02",
         std::string("to_strips: sparse tensor cores multiply bf16 and f16, got ") +
             (w.defined() ? name_of(w.dtype()) : "no matrix") + "\n  hint: compress w.to(bf16)",
         loc);
  }
  const Tensor strips = empty(backend::Strips24::shape(w.rows(), w.columns()), DType::u8, w.device(), loc);
  TT_KERNEL(strips, strips24(strips.view_of(), w.values().view_of(), w.places().view_of()));
  return {strips, w.dtype(), w.rows(), w.columns(), loc};
}

namespace pruning {

// The result of x [M, K] W^T + bias for a sparse W [rows, columns].
inline Specs infer_sparse_linear(const Tensor& x, const Tensor& bias, int64_t rows, int64_t columns,
                                 Loc loc) {
  if (x.shape()[1] != columns || (bias.defined() && !(bias.shape() == Shape{rows}))) {
    fail("TT-SHAPE-02",
         "linear: sizes differ: x has " + std::to_string(x.shape()[1]) + " features, the sparse weight is [" +
             std::to_string(rows) + ", " + std::to_string(columns) +
             "]\n  rule: x [..., K], weight [N, K], bias [N]",
         loc);
  }
  if (bias.defined() && bias.dtype() != DType::f32 && !is_16_bit(bias.dtype()))
    fail("TT-DTYPE-02", "linear: the bias must be f32, bf16 or f16, got " + bias.describe(), loc);
  return {{{x.shape()[0], rows}, x.dtype()}};
}
[[noreturn]] inline void refuse_sparse_gradient() {
  fail(
      "TT-GRAD-05",
      "linear with a 2:4 sparse weight has no derivative\n  hint: train with masks, and compress the result");
}
// Applies an op to x [..., K] as a matrix, in the place of in[0]; the result is [..., rows].
template <class Op>
Tensor apply_to_rows(const Op& op, const Tensor& x, Tensors in, int64_t rows, Loc loc) {
  require_defined("linear", loc, x);
  if (x.rank() == 0) fail("TT-SHAPE-04", "linear: x needs at least rank 1, got " + x.describe(), loc);
  Shape shape = x.shape();
  shape.back() = rows;
  const int64_t K = x.shape().back();
  int64_t M = 1;
  for (int d = 0; d + 1 < x.rank(); ++d) M *= x.shape()[d];
  in[0] = reshape(x, {M, K}, loc);
  return reshape(apply(op, in, loc), shape, loc);
}

}  // namespace pruning

// x [M, K] and the strips of a weight [N, K] -> [M, N].
struct StripsLinearOp final : Primitive<StripsLinearOp> {
  static constexpr const char* kName = "linear_sparse24";
  DType dtype;
  int64_t rows, columns;
  explicit StripsLinearOp(const StripsMatrix& w) : dtype(w.dtype()), rows(w.rows()), columns(w.columns()) {}

  Specs infer(const Tensors& in, Loc loc) const override {
    if (in[0].dtype() != dtype) {
      fail("TT-DTYPE-02",
           std::string("linear with a sparse weight of ") + name_of(dtype) + ": x is " + in[0].describe() +
               "\n  hint: convert it with x.to(" + name_of(dtype) + ")",
           loc);
    }
    return pruning::infer_sparse_linear(in[0], in[2], rows, columns, loc);
  }
  // Products with the numbers that are not stored are not counted.
  double flops(const Tensors& in, const Tensors&) const override {
    return static_cast<double>(in[0].shape()[0]) * static_cast<double>(rows) * static_cast<double>(columns);
  }
  void run(const Tensors& in, Tensors& out) const override {
    TT_KERNEL(out[0],
              linear_sparse24(out[0].view_of(), in[0].view_of(), in[1].view_of(), view_or_none(in[2])));
  }
  Save saves() const override { return Save::nothing; }
  Tensors vjp(const Saved&, const Tensors&) const override { pruning::refuse_sparse_gradient(); }
};

// x [..., K] weight^T + bias: bias [N] or undefined -> [..., N] in the dtype of x, which is that of the
// weight.
inline Tensor linear(const Tensor& x, const StripsMatrix& weight, const Tensor& bias = {}, TT_LOC) {
  return pruning::apply_to_rows(StripsLinearOp(weight), x, {Tensor(), weight.strips(), bias}, weight.rows(),
                                loc);
}

}  // namespace tinytorch::inline TT_BUILD
