// BsrInt8Matrix: dense blocks whose numbers are 8-bit codes ("bsr16_int8", "bsr32_int8", "bsr64_int8").
//
// Each row of a block has a scale of its own, and a number is code * scale. A block of 64 has 1 + 1/16 bytes
// for each number, one of 16 has 1 + 1/4. The product rounds rows of x to 8 bits, too
// (backend/cpu/spmm_bsr_int8.hpp).
#pragma once

#include <tinytorch/backend/cpu/quantize_rows.hpp>
#include <tinytorch/pruning/bsr.hpp>

namespace tinytorch::inline TT_BUILD {

class BsrInt8Matrix {
 public:
  BsrInt8Matrix() = default;
  // codes of i8, and f32 scales [blocks, B]. Throws TT-PRUNE-05 unless they fit together.
  BsrInt8Matrix(BsrMatrix codes, Tensor scales, TT_LOC)
      : codes_(std::move(codes)), scales_(std::move(scales)) {
    const bool fits = codes_.defined() && codes_.dtype() == DType::i8 &&
                      pruning::is_part(scales_, DType::f32, {codes_.blocks(), codes_.block()}) &&
                      codes_.device() == scales_.device() && !has_least_code(loc);
    pruning::require_part(
        fits, "BSR int8",
        "values i8 [blocks, B, B] from -127 to 127, and scales f32 [blocks, B] on their device", loc);
  }

  bool defined() const { return codes_.defined(); }
  int64_t rows() const { return codes_.rows(); }
  int64_t columns() const { return codes_.columns(); }
  int64_t block() const { return codes_.block(); }
  int64_t blocks() const { return codes_.blocks(); }
  // The numbers that are stored, with the zeros inside blocks.
  int64_t stored() const { return codes_.stored(); }
  DType dtype() const { return DType::i8; }
  Device device() const { return codes_.device(); }
  const BsrMatrix& codes() const { return codes_; }
  const Tensor& scales() const { return scales_; }
  int64_t bytes() const { return codes_.bytes() + pruning::bytes_of_part(scales_); }
  BsrInt8Matrix to(Device device, TT_LOC) const {
    BsrInt8Matrix moved = *this;
    moved.codes_ = codes_.to(device, loc), moved.scales_ = scales_.to(device, loc);
    return moved;
  }
  // The matrix [N, K] of f32 on the same device: codes times scales.
  Tensor dense(TT_LOC) const {
    const NoGrad no_grad;
    const Tensor numbers =
        codes_.values().to(DType::f32) * scales_.to(DType::f32).reshape({blocks(), block(), 1});
    return BsrMatrix(numbers, codes_.indices(), codes_.offsets(), rows(), columns(), loc).dense(loc);
  }

 private:
  // The products of bytes are exact for codes from -127 on.
  bool has_least_code(Loc loc) const {
    const Tensor here = codes_.values().to(cpu, loc);
    const int8_t* const code = here.data<int8_t>();
    return std::find(code, code + here.numel(), int8_t{-128}) != code + here.numel();
  }

  BsrMatrix codes_;
  Tensor scales_;
};

// w [N, K] -> the blocks that have an element other than 0, each row of a block rounded to 8 bits: its
// largest magnitude becomes 127. A NaN or an infinity makes the scale of its row of the block NaN. Throws
// TT-PRUNE-01 unless block is 16, 32 or 64, and TT-DTYPE-02 unless w is floating.
inline BsrInt8Matrix to_bsr_int8(const Tensor& w, int64_t block, TT_LOC) {
  const NoGrad no_grad;
  require_defined("to_bsr_int8", loc, w);
  if (!is_floating(w.dtype()))
    fail("TT-DTYPE-02", "to_bsr_int8: w must be floating, got " + w.describe(), loc);
  const BsrMatrix wide = to_bsr(w.detach().to(DType::f32).to(cpu, loc), block, loc);
  const int64_t lines = wide.blocks() * block;
  const Tensor codes = empty({wide.blocks(), block, block}, DType::i8, cpu, loc),
               scales = empty({wide.blocks(), block}, DType::f32, cpu, loc);
  if (lines > 0) {
    backend::cpu::quantize_rows(codes.reshape({lines, block}).view_of(), scales.reshape({lines}).view_of(),
                                wide.values().reshape({lines, block}).view_of());
  }
  return BsrInt8Matrix(BsrMatrix(codes, wide.indices(), wide.offsets(), wide.rows(), wide.columns(), loc),
                       scales, loc)
      .to(w.device(), loc);
}

}  // namespace tinytorch::inline TT_BUILD
