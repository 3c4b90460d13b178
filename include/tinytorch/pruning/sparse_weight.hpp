// SparseWeight: a weight [N, K] in one of the sparse formats, chosen by name, and the product that reads it.
//
//   SparseWeight w = sparse_weight(weight, "bitmap");      // or gaps, csr, bsr16, bsr32, bsr64, 2:4, strips,
//                                                          // bsr16_int8, bsr32_int8, bsr64_int8
//   Tensor y = sparse_linear(x, w, bias);                  // x [..., K] -> y [..., N]
//
// Bitmaps suit few rows of x, CSR many rows of x and few numbers, and blocks whatever was pruned by blocks.
// Gaps are the fastest unstructured format on a GPU. On CUDA there are gaps, bitmaps, and blocks of bf16 and
// f16, to whose dtype x is rounded. Blocks of 8-bit codes (bsr_int8.hpp) round rows of x to 8 bits, on the
// CPU. "strips" are 2:4 of bf16 or f16 in the order of tensor cores (strips.hpp), for x of the same dtype.
#pragma once

#include <string_view>
#include <tinytorch/backend/cpu/spmm.hpp>
#include <tinytorch/backend/cpu/spmm_bsr_int8.hpp>
#include <tinytorch/backend/cpu/spmv.hpp>
#include <tinytorch/backend/cpu/spmv_gaps.hpp>
#include <tinytorch/backend/cuda/launch.hpp>
#include <tinytorch/pruning/bitmap.hpp>
#include <tinytorch/pruning/bsr.hpp>
#include <tinytorch/pruning/bsr_int8.hpp>
#include <tinytorch/pruning/csr.hpp>
#include <tinytorch/pruning/gaps.hpp>
#include <tinytorch/pruning/strips.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <variant>

namespace tinytorch::inline TT_BUILD {

// A tensor of a weight, under the name that it has in modules and files. An exact part keeps its dtype in a
// module that is converted to another one: scales in 16 bits would lose digits of every number.
struct NamedPart {
  const char* name;
  Tensor tensor;
  bool exact = false;
};

class SparseWeight {
 public:
  using Matrix =
      std::variant<BitmapMatrix, CsrMatrix, BsrMatrix, TwoFourMatrix, StripsMatrix, BsrInt8Matrix, GapMatrix>;
  SparseWeight() = default;
  SparseWeight(Matrix matrix) : matrix_(std::move(matrix)) {}  // NOLINT: a matrix is a weight

  const Matrix& matrix() const { return matrix_; }
  bool defined() const {
    return std::visit([](const auto& m) { return m.defined(); }, matrix_);
  }
  Shape shape() const {
    return std::visit([](const auto& m) { return Shape{m.rows(), m.columns()}; }, matrix_);
  }
  DType dtype() const {
    return std::visit([](const auto& m) { return m.dtype(); }, matrix_);
  }
  Device device() const {
    return std::visit([](const auto& m) { return m.device(); }, matrix_);
  }
  int64_t bytes() const {
    return std::visit([](const auto& m) { return m.bytes(); }, matrix_);
  }
  Tensor dense(TT_LOC) const {
    return std::visit([&](const auto& m) { return m.dense(loc); }, matrix_);
  }
  SparseWeight to(Device device, TT_LOC) const {
    return std::visit([&](const auto& m) { return SparseWeight(m.to(device, loc)); }, matrix_);
  }
  // "bitmap", "gaps", "csr", "bsr16", "bsr32", "bsr64", "2:4", "strips", "bsr16_int8", "bsr32_int8" or
  // "bsr64_int8".
  std::string format() const {
    if (const auto* const m = std::get_if<BsrMatrix>(&matrix_)) return "bsr" + std::to_string(m->block());
    if (const auto* const m = std::get_if<BsrInt8Matrix>(&matrix_))
      return "bsr" + std::to_string(m->block()) + "_int8";
    if (std::holds_alternative<GapMatrix>(matrix_)) return "gaps";
    constexpr const char* kNames[] = {"bitmap", "csr", "bsr", "2:4", "strips"};
    return kNames[matrix_.index()];
  }
  // The tensors that make up the matrix, in the order of its constructor.
  std::vector<NamedPart> parts() const {
    if (const auto* const m = std::get_if<BitmapMatrix>(&matrix_))
      return {{"values", m->values()}, {"bits", m->bits()}, {"offsets", m->offsets()}};
    if (const auto* const m = std::get_if<GapMatrix>(&matrix_))
      return {{"values", m->values()}, {"gaps", m->gaps()}, {"offsets", m->offsets()}};
    if (const auto* const m = std::get_if<CsrMatrix>(&matrix_))
      return {{"values", m->values()}, {"indices", m->indices()}, {"offsets", m->offsets()}};
    if (const auto* const m = std::get_if<BsrMatrix>(&matrix_))
      return {{"values", m->values()}, {"indices", m->indices()}, {"offsets", m->offsets()}};
    if (const auto* const m = std::get_if<StripsMatrix>(&matrix_)) return {{"strips", m->strips()}};
    if (const auto* const m = std::get_if<BsrInt8Matrix>(&matrix_)) {
      const BsrMatrix& c = m->codes();
      return {{"values", c.values()},
              {"scales", m->scales(), true},
              {"indices", c.indices()},
              {"offsets", c.offsets()}};
    }
    const TwoFourMatrix& m = std::get<TwoFourMatrix>(matrix_);
    return {{"values", m.values()}, {"places", m.places()}};
  }

 private:
  Matrix matrix_;
};

namespace pruning {
[[noreturn]] inline void refuse_format(std::string_view format, Loc loc) {
  fail("TT-PRUNE-01",
       "there is no sparse format '" + std::string(format) +
           "'\n  hint: the formats are bitmap, gaps, csr, 2:4, strips, blocks (bsr16, bsr32, bsr64), "
           "and blocks of 8-bit codes (bsr16_int8, bsr32_int8, bsr64_int8)",
       loc);
}
// Returns true for the formats whose blocks have 8-bit codes: "bsr16_int8", "bsr32_int8", "bsr64_int8".
inline bool is_int8_format(std::string_view format) { return format.ends_with("_int8"); }
// 16, 32 or 64 for "bsr16", "bsr32", "bsr64", also with "_int8"; else 0.
inline int64_t block_of_format(std::string_view format) {
  if (is_int8_format(format)) format.remove_suffix(5);
  return format == "bsr16" ? 16 : format == "bsr32" ? 32 : format == "bsr64" ? 64 : 0;
}
}  // namespace pruning

// The elements of w [N, K] that are not 0. Throws TT-PRUNE-01 for an unknown format, or a w that "2:4" and
// "strips" cannot store, and TT-DTYPE-02 for strips of other dtypes than bf16 and f16, and 8-bit codes of
// integers.
inline SparseWeight sparse_weight(const Tensor& w, std::string_view format, TT_LOC) {
  if (format == "bitmap") return SparseWeight(to_bitmap(w, loc));
  if (format == "gaps") return SparseWeight(to_gaps(w, loc));
  if (format == "csr") return SparseWeight(to_csr(w, loc));
  if (format == "2:4") return SparseWeight(to_two_four(w, loc));
  if (format == "strips") return SparseWeight(to_strips(to_two_four(w, loc), loc));
  const int64_t block = pruning::block_of_format(format);
  if (block == 0) pruning::refuse_format(format, loc);
  if (pruning::is_int8_format(format)) return SparseWeight(to_bsr_int8(w, block, loc));
  return SparseWeight(to_bsr(w, block, loc));
}

// x [M, K], bias [N] or undefined, then the parts of the weight -> [M, N].
struct SparseLinearOp final : Primitive<SparseLinearOp> {
  static constexpr const char* kName = "sparse_linear";
  SparseWeight weight;
  explicit SparseLinearOp(SparseWeight w) : weight(std::move(w)) {}

  Specs infer(const Tensors& in, Loc loc) const override {
    const Shape w = weight.shape();
    const DType values = weight.parts()[0].tensor.dtype();
    if (!is_floating(in[0].dtype()))
      fail("TT-DTYPE-02", "sparse_linear: x must be floating, got " + in[0].describe(), loc);
    if (in[0].shape()[1] != w[1] || (in[1].defined() && !(in[1].shape() == Shape{w[0]}))) {
      fail("TT-SHAPE-02",
           "sparse_linear: x has " + std::to_string(in[0].shape()[1]) + " features, and the weight is " +
               w.str() + "\n  rule: x [..., K], weight [N, K], bias [N]",
           loc);
    }
    if (!has_kernel(values, in[0].dtype())) {
      fail("TT-PRUNE-06",
           "sparse_linear: no kernel reads weights in '" + weight.format() + "' of " + name_of(values) +
               " on " + weight.device().str() +
               "\n  hint: on the CPU use bitmap, gaps, csr or blocks, on CUDA gaps or a bitmap of f32, bf16 "
               "or f16, or blocks of bf16 or f16, with an x that is not f64; 2:4 is multiplied in the format "
               "strips",
           loc);
    }
    return {{{in[0].shape()[0], w[0]}, in[0].dtype()}};
  }
  double flops(const Tensors& in, const Tensors&) const override {
    return 2.0 * static_cast<double>(in[0].shape()[0]) * static_cast<double>(in[2].numel());
  }
  void run(const Tensors& in, Tensors& out) const override {
    using namespace backend;
    const View x = in[0].view_of(), y = out[0].view_of();
    if (const auto* const m = std::get_if<BitmapMatrix>(&weight.matrix()))
      TT_KERNEL(out[0], spmv_bitmap(y, x, m->view()));
    if (const auto* const m = std::get_if<GapMatrix>(&weight.matrix()))
      TT_KERNEL(out[0], spmv_gaps(y, x, m->view()));
    if (const auto* const m = std::get_if<CsrMatrix>(&weight.matrix()))
      cpu::spmm_csr(transposed(y), m->view(), transposed(x));
    if (const auto* const m = std::get_if<BsrMatrix>(&weight.matrix()))
      TT_KERNEL(out[0], spmm_bsr(transposed(y), m->view(), transposed(x)));
    if (const auto* const m = std::get_if<BsrInt8Matrix>(&weight.matrix())) {
      const Tensor rows = in[0].dtype() == DType::f64 ? in[0].to(DType::f32) : in[0];
      cpu::spmm_bsr_int8(y, rows.view_of(), m->codes().view(), m->scales().view_of());
    }
    if (in[1].defined()) out[0].add_(in[1].to(out[0].dtype()));
  }
  Save saves() const override { return Save::nothing; }
  Tensors vjp(const Saved&, const Tensors&) const override {
    fail("TT-GRAD-05",
         "sparse_linear has no derivative\n  hint: train with masks (PruningMasks), and store the result");
  }

 private:
  bool has_kernel(DType values, DType x) const {
    if (weight.device().is_cpu()) return weight.format() != "2:4";
    if (std::holds_alternative<BsrMatrix>(weight.matrix())) return is_16_bit(values) && x != DType::f64;
    const bool unstructured = weight.format() == "bitmap" || weight.format() == "gaps";
    return unstructured && values != DType::f64 && x != DType::f64 && is_floating(values);
  }
};

// x [..., K] weight^T + bias -> [..., N] in the dtype of x. Throws TT-PRUNE-06 if there is no kernel for the
// format on this device.
inline Tensor sparse_linear(const Tensor& x, const SparseWeight& weight, const Tensor& bias = {}, TT_LOC) {
  require_defined("sparse_linear", loc, x);
  if (const auto* const strips = std::get_if<StripsMatrix>(&weight.matrix()))
    return linear(x, *strips, bias, loc);
  if (x.rank() == 0) fail("TT-SHAPE-04", "sparse_linear: x needs at least rank 1, got " + x.describe(), loc);
  Shape shape = x.shape();
  const int64_t K = shape.back();
  shape.back() = weight.shape()[0];
  int64_t M = 1;
  for (int d = 0; d + 1 < x.rank(); ++d) M *= x.shape()[d];
  Tensors in{reshape(x, {M, K}, loc), bias};
  for (const NamedPart& part : weight.parts()) in.push_back(part.tensor);
  return reshape(apply(SparseLinearOp(weight), in, loc), shape, loc);
}

}  // namespace tinytorch::inline TT_BUILD
