// Views of sparse matrices [N, K], through which kernels read the memory of their parts without owning it.
// All formats keep numbers row by row, and columns ascend within a row.
//
//   BitmapView   one bit for each element, and the numbers whose bit is 1
//   GapView      the numbers, and the distance of each from the one before in four bits
//   CsrView      the column of each number, in 2 or 4 bytes
//   BsrView      dense blocks, and the column of each block
//   TwoFourView  two of each four numbers, and their places in two bits each ("2:4")
//
// Formats whose rows differ in length have `offsets`: row n has the numbers offsets[n] to offsets[n + 1] - 1.
// pruning/ makes them from tensors: bitmap.hpp, gaps.hpp, csr.hpp, bsr.hpp, two_four.hpp.
#pragma once

#include <cstdint>
#include <tinytorch/core/config.hpp>
#include <tinytorch/core/dtype.hpp>
#include <tinytorch/core/shape.hpp>

namespace tinytorch::inline TT_BUILD::backend {

// Bit (k % 64) of word k / 64 of a row says whether element k is stored. Bits beyond K are 0.
struct BitmapView {
  const void* values = nullptr;      // [nnz]
  const uint64_t* bits = nullptr;    // [N, words()]
  const int64_t* offsets = nullptr;  // [N + 1]
  DType dtype = DType::f32;          // of the values
  int64_t rows = 0, columns = 0;     // N, K
  int64_t nnz = 0;                   // offsets[N]

  int64_t words() const { return (columns + 63) / 64; }
};

// An entry is a number and a gap g of 0 to 15: its column is g + 1 behind that of the entry before, and g in
// the first entry of a row. A run of more than 15 zeros has entries of the number 0 in between. A row is a
// multiple of kEach entries; the last ones may be the number 0 with gap 0, up to 7 columns beyond K. Byte i
// has the gaps of entries 2 i (in its low bits) and 2 i + 1.
struct GapView {
  static constexpr int64_t kEach = 8, kFarthest = 15;
  const void* values = nullptr;      // [entries]
  const uint8_t* gaps = nullptr;     // [entries / 2]
  const int64_t* offsets = nullptr;  // [N + 1], multiples of kEach
  DType dtype = DType::f32;
  int64_t rows = 0, columns = 0, entries = 0;

  int gap(int64_t i) const { return gaps[i / 2] >> (i % 2 * 4) & 15; }
};

// Columns are 16 bits wide if K <= 65536, else 32.
struct CsrView {
  const void* values = nullptr;      // [nnz]
  const void* columns_of = nullptr;  // [nnz] uint16_t or uint32_t
  const int64_t* offsets = nullptr;  // [N + 1]
  DType dtype = DType::f32;
  bool narrow = true;  // columns of 16 bits
  int64_t rows = 0, columns = 0, nnz = 0;

  uint32_t column(int64_t i) const {
    return narrow ? static_cast<const uint16_t*>(columns_of)[i] : static_cast<const uint32_t*>(columns_of)[i];
  }
};

// Blocks of `block` x `block` numbers, row-major. Row b of blocks has the rows b * block to (b + 1) * block -
// 1. Blocks that reach over the last row or column are filled with zeros.
struct BsrView {
  const void* values = nullptr;         // [blocks, block, block]
  const int32_t* columns_of = nullptr;  // [blocks]: the first column of a block, divided by `block`
  const int64_t* offsets = nullptr;     // [block_rows() + 1]
  DType dtype = DType::f32;
  int64_t rows = 0, columns = 0, block = 16, blocks = 0;

  int64_t block_rows() const { return ceil_div(rows, block); }
  int64_t block_columns() const { return ceil_div(columns, block); }
};

// Columns 4 g to 4 g + 3 of a row have two numbers, values[2 g] and values[2 g + 1], in ascending order of
// their places. Four bits hold the places, the first in the lower two. A 16-bit word has four groups, the
// first in the lowest bits: this is the order that mma.sp reads for 16 columns of a row. Groups beyond K have
// the places 0 and 1.
struct TwoFourView {
  const void* values = nullptr;      // [N, K / 2]
  const uint16_t* places = nullptr;  // [N, words()]
  DType dtype = DType::f32;
  int64_t rows = 0, columns = 0;  // K is a multiple of 4

  int64_t words() const { return (columns + 15) / 16; }
};

}  // namespace tinytorch::inline TT_BUILD::backend
