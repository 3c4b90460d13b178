// Strips: the order in which CUDA kernels read a 2:4 sparse matrix [N, K] of bf16 or f16, so that a warp
// loads whole operands of a tensor core from consecutive memory.
//
// A strip is 16 rows; it has ceil(K / 64) parts of 1152 bytes, one after the other. A part has the operands
// of two products that are 32 deep (512 bytes each: 16 bytes of a lane after those of the lane before), and a
// word of places for each lane (128 bytes). Lane 4 g + t has, for each product, the kept pairs of groups t
// and t + 4 of rows g and g + 8: row g, row g + 8, then both again for group t + 4. Its word belongs to the
// product t / 2 and has the places of columns 16 (t % 2) to 16 (t % 2) + 15 of row g in the low half, those
// of row g + 8 in the high half. Rows and columns that do not exist are zeros at places 0 and 1.
//
// Source: NVIDIA, "PTX ISA", mma.sp and wgmma.mma_async.sp, fragments of bf16 and of metadata.
#pragma once

#include <tinytorch/backend/view.hpp>

namespace tinytorch::inline TT_BUILD::backend {

struct Strips24 {
  static constexpr int64_t kRows = 16, kDepth = 64, kPartBytes = 1152;
  static constexpr int kPlacesAt = 1024;         // of the words of a part
  static constexpr unsigned kFirstTwo = 0x4444;  // four groups with the places 0 and 1

  static int64_t count(int64_t N) { return ceil_div(N, kRows); }
  static int64_t parts(int64_t K) { return ceil_div(K, kDepth); }
  // The shape of the u8 matrix that holds the strips of a matrix [N, K].
  static Shape shape(int64_t N, int64_t K) { return {count(N), parts(K) * kPartBytes}; }
};

// Strips with codes of 4 bits: a part has 384 bytes. Lane 4 g + t has two words of codes (8 bytes, after
// those of the lane before), one for each product: the pair of register i has its first code in bits 4 i, the
// second in bits 16 + 4 i. Places follow, as above. A number is (code - 8) scale; a scale f16 serves the 64
// kept numbers of 128 columns of a row. Scales are a matrix of their own: [strip, 128 columns, row of the
// strip].
struct Int4Strips24 {
  static constexpr int64_t kPartBytes = 384, kGroup = 128;  // columns of a scale
  static constexpr int kPlacesAt = 256;

  static Shape shape(int64_t N, int64_t K) { return {Strips24::count(N), Strips24::parts(K) * kPartBytes}; }
  static Shape scales_shape(int64_t N, int64_t K) {
    return {Strips24::count(N), ceil_div(K, kGroup) * Strips24::kRows};
  }
};

}  // namespace tinytorch::inline TT_BUILD::backend
