// Emulation of warpgroup.cuh (wgmma): each lane computes its own elements of the result, from its rows of a,
// which four lanes exchange, and from the elements of b that it reads from shared memory.
#pragma once

#include <tinytorch/backend/cuda/sim/tensor_core.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda::sim {

// The swizzled address of the byte at `address`: the place of its 16-byte piece depends on the row of 128
// bytes.
inline unsigned swizzled(unsigned address) { return address ^ (address >> 7 & 7) << 4; }

// sum = a b, or sum += a b if `add`, for 16 of the 64 rows: a [16, 16], b [16, 64]. Lane 4 g + t has rows g
// and g + 8, columns 8 n + 2 t and the next.
template <class T>
[[gnu::no_sanitize_thread]] void add_products(float (&sum)[8][4], const float (&rows)[2][16],
                                              const T (&column)[16][16], bool add) {
  for (int n = 0; n < 8; ++n) {
    for (int half = 0; half < 2; ++half) {
      for (int next = 0; next < 2; ++next) {
        float& out = sum[n][half * 2 + next];
        if (!add) out = 0;
        for (int k = 0; k < 16; ++k) out += rows[half][k] * static_cast<float>(column[n * 2 + next][k]);
      }
    }
  }
}
template <class T, bool kRowMajor>
void multiply_group(float (&sum)[8][4], const unsigned (&a)[4], const unsigned char* shared, unsigned address,
                    bool add, Loc where = Loc::current()) {
  const int lane = lane_number();
  T column[16][16];
  for (int n = 0; n < 8; ++n) {
    if constexpr (kRowMajor) {
      for (unsigned k = 0; k < 16; ++k) {
        const unsigned at = address + k * 128 + static_cast<unsigned>(n * 16 + lane % 4 * 4);
        const unsigned pair = *reinterpret_cast<const unsigned*>(shared + swizzled(at));
        for (int next = 0; next < 2; ++next) {
          column[n * 2 + next][k].bits = static_cast<uint16_t>(pair >> 16 * next);
        }
      }
    } else {
      for (int next = 0; next < 2; ++next) {
        const unsigned at = address + static_cast<unsigned>(n * 8 + lane % 4 * 2 + next) * 128;
        for (unsigned half = 0; half < 2; ++half) {
          const uint4 piece = *reinterpret_cast<const uint4*>(shared + swizzled(at + half * 16));
          __builtin_memcpy(&column[n * 2 + next][half * 8], &piece, sizeof(piece));
        }
      }
    }
  }
  float rows[2][16];
  rows_of<T>(rows, a, "wgmma", where);
  add_products<T>(sum, rows, column, add);
}
// Loads this lane's part of a [64, 16] from shared memory at `address`. Rows are 128 bytes apart.
inline void load_a(unsigned (&a)[4], const unsigned char* shared, unsigned address) {
  const unsigned thread = thread_index().x % 128, lane = thread % 32;
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned row = thread / 32 * 16 + lane / 4 + i % 2 * 8, column = lane % 4 * 4 + i / 2 * 16;
    a[i] = *reinterpret_cast<const unsigned*>(shared + swizzled(address + row * 128 + column));
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda::sim
