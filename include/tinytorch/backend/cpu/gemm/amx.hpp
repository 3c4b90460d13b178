// Matrix products of bf16 and of bytes on AMX, the matrix unit of Intel processors since Sapphire Rapids.
//
// AMX has eight tile registers of 16 rows by 64 bytes. One instruction multiplies 16 rows of A, 16 words
// each, by 16 rows of B and adds to 16 x 16 sums; a word is two bf16 or four bytes, as in all panels. Four
// registers hold 32 x 32 sums and four hold operands, so four loads serve four instructions of 16 cycles: 16
// times the f32 vector rate, if operands arrive. A panel of 256 steps of B stays in the L1 cache; A comes
// from L2, 32 bytes a cycle. Subnormal bf16, given or computed, count as 0. Without AMX, loops compute the
// same tile: for tests, not for speed.
// Source: Intel, "Architecture Instruction Set Extensions Programming Reference", chapter 3.
#pragma once

#include <cstring>
#include <tinytorch/backend/cpu/gemm/blocked.hpp>
#include <tinytorch/core/dtype.hpp>
#include <tinytorch/core/simd_intrinsics.hpp>
#if defined(__AMX_TILE__) || defined(__AMXTILE__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace tinytorch::inline TT_BUILD::backend::cpu {

// Step type of AMX: an instruction takes kAmxWords steps of type Bf16PairStep or Int8QuadStep together.
template <class Step>
struct AmxStep {
  static constexpr int64_t kDepth = Step::kDepth;
  template <class T>
  using Word = int32_t;
};

inline constexpr int64_t kAmxTile = 32;   // rows and columns of a tile of C
inline constexpr int64_t kAmxWords = 16;  // words in a row of a tile register

namespace detail {

// sum + the products of the elements of two words.
inline float add_products(float sum, int32_t a, int32_t b, AmxStep<Bf16PairStep>) {
  const auto at = [](int32_t word, int i) {
    return bf16_bits_to_float(static_cast<uint16_t>(static_cast<uint32_t>(word) >> (16 * i)));
  };
  return sum + at(a, 0) * at(b, 0) + at(a, 1) * at(b, 1);
}
inline int32_t add_products(int32_t sum, int32_t a, int32_t b, AmxStep<Int8QuadStep>) {
  uint32_t out = static_cast<uint32_t>(sum);
  for (int i = 0; i < 4; ++i) {
    const auto x = static_cast<uint8_t>(static_cast<uint32_t>(a) >> (8 * i));
    const auto y = static_cast<int8_t>(static_cast<uint32_t>(b) >> (8 * i));
    out += static_cast<uint32_t>(int32_t{x} * int32_t{y});
  }
  return static_cast<int32_t>(out);
}

// c [32, 32] = or += a panel of A, [depth / 16][row][16], times a panel of B, [step][column].
template <class T, class Step>
void amx_tile_by_loops(int64_t depth, const int32_t* a, const int32_t* b, T* c, int64_t c_row,
                       bool accumulate) {
  for (int64_t i = 0; i < kAmxTile; ++i) {
    for (int64_t j = 0; j < kAmxTile; ++j) {
      T sum = accumulate ? c[i * c_row + j] : T(0);
      for (int64_t k = 0; k < depth; ++k)
        sum = add_products(sum, a[k / kAmxWords * kAmxWords * kAmxTile + i * kAmxWords + k % kAmxWords],
                           b[k * kAmxTile + j], Step());
      c[i * c_row + j] = sum;
    }
  }
}

}  // namespace detail

// clang 14 spells the macros without the underscore.
#if defined(__linux__) && ((defined(__AMX_TILE__) && defined(__AMX_BF16__) && defined(__AMX_INT8__)) || \
                           (defined(__AMXTILE__) && defined(__AMXBF16__) && defined(__AMXINT8__)))

// True if this process may use AMX. Linux grants AMX on request, because its registers make context switches
// slower.
inline bool has_amx() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  static const bool granted = syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return granted;
}

namespace detail {

struct AmxTileConfig {  // the memory layout that ldtilecfg reads
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

template <class T, class Step>
[[gnu::noinline]] void amx_tile(int64_t depth, const int32_t* a, const int32_t* b, T* c, int64_t c_row,
                                bool accumulate) {
  // Rows of a tile register, and strides in bytes.
  constexpr int64_t kHalf = 16, kStrideA = 64, kStrideB = kAmxTile * 4;
  const int64_t stride_c = c_row * static_cast<int64_t>(sizeof(T));
  T* const low = c + kHalf * c_row;
  asm volatile("" ::: "memory");  // panels must be stored before: the intrinsics do not declare their reads
  if (accumulate) {
    _tile_loadd(0, c, stride_c);
    _tile_loadd(1, c + kHalf, stride_c);
    _tile_loadd(2, low, stride_c);
    _tile_loadd(3, low + kHalf, stride_c);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (int64_t k = 0; k < depth; k += kAmxWords, a += kAmxWords * kAmxTile, b += kAmxWords * kAmxTile) {
    _tile_loadd(4, a, kStrideA);
    _tile_loadd(6, b, kStrideB);
    _tile_loadd(7, b + kHalf, kStrideB);
    _tile_loadd(5, a + kHalf * kAmxWords, kStrideA);
    if constexpr (std::is_same_v<Step, AmxStep<Bf16PairStep>>) {
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    } else {
      _tile_dpbusd(0, 4, 6);
      _tile_dpbusd(1, 4, 7);
      _tile_dpbusd(2, 5, 6);
      _tile_dpbusd(3, 5, 7);
    }
  }
  _tile_stored(0, c, stride_c);
  _tile_stored(1, c + kHalf, stride_c);
  _tile_stored(2, low, stride_c);
  _tile_stored(3, low + kHalf, stride_c);
  asm volatile("" ::: "memory");
}

inline void configure_amx() {
  const AmxTileConfig shape;
  _tile_loadconfig(&shape);
}
inline void release_amx() { _tile_release(); }

}  // namespace detail
#else
inline bool has_amx() { return false; }

namespace detail {
inline void configure_amx() {}
inline void release_amx() {}
template <class T, class Step>
void amx_tile(int64_t, const int32_t*, const int32_t*, T*, int64_t, bool) {}
}  // namespace detail
#endif

template <class T, class Of>
struct MicroKernel<T, AmxStep<Of>> {
  static constexpr int64_t kRows = kAmxTile, kCols = kAmxTile, kDepthMultiple = kAmxWords, kMaxDepth = 256;

  struct Session {
    Session() {
      if (has_amx()) detail::configure_amx();
    }
    ~Session() {
      if (has_amx()) detail::release_amx();
    }
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
  };

  static void run(int64_t depth, const int32_t* a, const int32_t* b, T* c, int64_t c_row, bool accumulate) {
    if (has_amx()) return detail::amx_tile<T, AmxStep<Of>>(depth, a, b, c, c_row, accumulate);
    detail::amx_tile_by_loops<T, AmxStep<Of>>(depth, a, b, c, c_row, accumulate);
  }
};

// A Bf16PairOperand or Int8QuadOperand (gemm/blocked.hpp) whose panels are padded with zeros to a multiple of
// kAmxWords steps. Panels of A are transposed in blocks, so that the contents of one tile register are
// contiguous.
template <class Operand, bool kIsA>
struct AmxOperand {
  using Step = AmxStep<typename Operand::Step>;
  static constexpr bool kPackOnce = Operand::kPackOnce;
  template <int64_t kWidth>
  static constexpr int64_t kMaxPanels = 1;
  Operand of;

  template <int64_t kWidth>
  void pack(int32_t* panel, int64_t i, int64_t count, int64_t k, int64_t elements, bool first) const {
    static_assert(kWidth == kAmxTile);
    of.template pack<kWidth>(panel, i, count, k, elements, first);
    const int64_t steps = ceil_div(elements, Step::kDepth), blocks = ceil_div(steps, kAmxWords);
    std::memset(panel + steps * kWidth, 0,
                static_cast<size_t>((blocks * kAmxWords - steps) * kWidth) * sizeof(int32_t));
    if constexpr (kIsA) {
      for (int64_t u = 0; u < blocks; ++u, panel += kAmxWords * kWidth) {
        int32_t block[kAmxWords * kWidth];
        std::memcpy(block, panel, sizeof block);
        for (int64_t row = 0; row < kWidth; row += 4)
          for (int64_t step = 0; step < kAmxWords; step += 4)
            transpose_4x4(panel + row * kAmxWords + step, kAmxWords, block + step * kWidth + row,
                          kWidth * static_cast<int64_t>(sizeof(int32_t)));
      }
    }
  }
};

// c [M, N] = or += a b on AMX, for a Bf16PairOperand or Int8QuadOperand. Parameters as in BlockedProduct.
template <class T, class Operand>
void gemm_amx(T* c, int64_t c_row, const Operand& a, const Operand& b, int64_t M, int64_t N, int64_t K,
              bool accumulate, bool parallel, const Epilogue& epilogue) {
  BlockedProduct<T, AmxOperand<Operand, true>, AmxOperand<Operand, false>>(c, c_row, {a}, {b}, M, N, K,
                                                                           accumulate, parallel, epilogue)
      .run();
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
