// Int4StripsMatrix: a 2:4 sparse matrix whose kept numbers have 4 bits, in the order in which a GPU's sparse
// tensor cores read it, and linear layers with it.
//
//   Int4StripsMatrix w = to_int4_strips(compress_two_four(weight));
//   Tensor y = linear(x, w, bias);                          // x of bf16 or f16
//
// It has 25 bits for each eight numbers of the dense matrix, a fifth of the bytes of bf16: two codes of 4
// bits and two places of 2 bits for each four, and an f16 scale for 128 columns of a row. For decoding, where
// a product takes as long as reading the weight.
#pragma once

#include <tinytorch/pruning/strips.hpp>

namespace tinytorch::inline TT_BUILD {

class Int4StripsMatrix {
 public:
  Int4StripsMatrix() = default;
  // codes u8 and scales f16 of the shapes that backend::Int4Strips24 gives for [rows, columns], contiguous.
  // Throws TT-PRUNE-05 unless they fit together.
  Int4StripsMatrix(Tensor codes, Tensor scales, int64_t rows, int64_t columns, TT_LOC)
      : codes_(std::move(codes)), scales_(std::move(scales)), rows_(rows), columns_(columns) {
    using backend::Int4Strips24;
    const bool fits = rows >= 0 && columns >= 0 && columns % 4 == 0 &&
                      pruning::is_part(codes_, DType::u8, Int4Strips24::shape(rows, columns)) &&
                      pruning::is_part(scales_, DType::f16, Int4Strips24::scales_shape(rows, columns)) &&
                      codes_.device() == scales_.device();
    pruning::require_part(
        fits, "2:4",
        "codes u8 [ceil(N / 16), 384 ceil(K / 64)] and scales f16 [ceil(N / 16), 16 ceil(K / "
        "128)] of a matrix [N, K] with K % 4 = 0, on one device",
        loc);
    codes_ = pruning::aligned_part(codes_, loc), scales_ = pruning::aligned_part(scales_, loc);
  }

  bool defined() const { return codes_.defined(); }
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  Device device() const { return codes_.device(); }
  const Tensor& codes() const { return codes_; }
  const Tensor& scales() const { return scales_; }
  int64_t bytes() const { return pruning::bytes_of_part(codes_) + pruning::bytes_of_part(scales_); }
  Int4StripsMatrix to(Device device, TT_LOC) const {
    Int4StripsMatrix moved = *this;
    moved.codes_ = codes_.to(device, loc), moved.scales_ = scales_.to(device, loc);
    return moved;
  }

 private:
  Tensor codes_, scales_;
  int64_t rows_ = 0, columns_ = 0;
};

// Rounds the kept numbers to codes of 4 bits. Throws TT-DTYPE-02 unless w is of f32, bf16 or f16.
inline Int4StripsMatrix to_int4_strips(const TwoFourMatrix& w, TT_LOC) {
  if (!w.defined() || (w.dtype() != DType::f32 && !is_16_bit(w.dtype()))) {
    fail("TT-DTYPE-02",
         std::string("to_int4_strips: numbers of f32, bf16 or f16 are rounded, got ") +
             (w.defined() ? name_of(w.dtype()) : "no matrix"),
         loc);
  }
  using backend::Int4Strips24;
  const Tensor codes = empty(Int4Strips24::shape(w.rows(), w.columns()), DType::u8, w.device(), loc),
               scales = empty(Int4Strips24::scales_shape(w.rows(), w.columns()), DType::f16, w.device(), loc);
  TT_KERNEL(codes,
            strips24_int4(codes.view_of(), scales.view_of(), w.values().view_of(), w.places().view_of()));
  return {codes, scales, w.rows(), w.columns(), loc};
}

// x [M, K] and the codes and scales of a weight [N, K] -> [M, N].
struct Int4StripsLinearOp final : Primitive<Int4StripsLinearOp> {
  static constexpr const char* kName = "linear_sparse24_int4";
  int64_t rows, columns;
  explicit Int4StripsLinearOp(const Int4StripsMatrix& w) : rows(w.rows()), columns(w.columns()) {}

  Specs infer(const Tensors& in, Loc loc) const override {
    if (!is_16_bit(in[0].dtype())) {
      fail("TT-DTYPE-02",
           "linear with a sparse weight of 4 bits takes x of bf16 or f16, got " + in[0].describe() +
               "\n  hint: convert it with x.to(bf16)",
           loc);
    }
    return pruning::infer_sparse_linear(in[0], in[2], rows, columns, loc);
  }
  // Products with the numbers that are not stored are not counted.
  double flops(const Tensors& in, const Tensors&) const override {
    return static_cast<double>(in[0].shape()[0]) * static_cast<double>(rows) * static_cast<double>(columns);
  }
  void run(const Tensors& in, Tensors& out) const override {
    TT_KERNEL(out[0], linear_sparse24_int4(out[0].view_of(), in[0].view_of(), in[1].view_of(),
                                           in[3].view_of(), view_or_none(in[2])));
  }
  Save saves() const override { return Save::nothing; }
  Tensors vjp(const Saved&, const Tensors&) const override { pruning::refuse_sparse_gradient(); }
};

// x [..., K] weight^T + bias: bias [N] or undefined -> [..., N] in the dtype of x.
inline Tensor linear(const Tensor& x, const Int4StripsMatrix& weight, const Tensor& bias = {}, TT_LOC) {
  return pruning::apply_to_rows(Int4StripsLinearOp(weight), x,
                                {Tensor(), weight.codes(), bias, weight.scales()}, weight.rows(), loc);
}

}  // namespace tinytorch::inline TT_BUILD
