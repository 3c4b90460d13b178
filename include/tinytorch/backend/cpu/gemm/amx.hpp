// Products of bf16 and of bytes on the matrix unit of Intel's processors since Sapphire Rapids, AMX.
//
// The unit has eight registers of 16 rows by 64 bytes. One instruction multiplies 16 rows of A, 16 words
// each, by 16 rows of B and adds to 16 x 16 sums; a word is two bf16 or four bytes that follow one another
// along the depth, as in all panels (gemm/micro_kernel.hpp). Four registers hold a tile of 32 x 32 sums and
// four its operands, so that four loads serve four instructions of 16 cycles: 16 times what the vectors do in
// f32, if operands arrive. Of B a panel of 256 steps stays in the L1 cache; A comes from L2, 32 bytes a
// cycle. bf16 that are subnormal, given or formed, count as 0. Where the processor or the system does not
// offer the unit, the same tile is formed by loops: to be tested, not to be fast. Source: Intel,
// "Architecture Instruction Set Extensions Programming Reference", chapter 3.
#pragma once

#include <cstring>
#include <tinytorch/backend/cpu/gemm/blocked.hpp>
#include <tinytorch/core/dtype.hpp>
#if defined(__AMX_TILE__) || defined(__AMXTILE__)
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace tinytorch::inline TT_BUILD::backend::cpu {

// Steps of the unit: Pairs or Quads, sixteen together.
template <class Step>
struct Sixteen {
  static constexpr int64_t kDepth = Step::kDepth;
  template <class T>
  using Word = int32_t;
};

inline constexpr int64_t kAmxSide = 32;  // rows and columns of a tile
inline constexpr int64_t kAmxUnit = 16;  // words of a row of a register

namespace detail {

// sum + the products of two words.
inline float add_products(float sum, int32_t a, int32_t b, Sixteen<Pairs>) {
  const auto at = [](int32_t word, int i) {
    return bf16_bits_to_float(static_cast<uint16_t>(static_cast<uint32_t>(word) >> (16 * i)));
  };
  return sum + at(a, 0) * at(b, 0) + at(a, 1) * at(b, 1);
}
inline int32_t add_products(int32_t sum, int32_t a, int32_t b, Sixteen<Quads>) {
  uint32_t out = static_cast<uint32_t>(sum);
  for (int i = 0; i < 4; ++i) {
    const auto x = static_cast<uint8_t>(static_cast<uint32_t>(a) >> (8 * i));
    const auto y = static_cast<int8_t>(static_cast<uint32_t>(b) >> (8 * i));
    out += static_cast<uint32_t>(int32_t{x} * int32_t{y});
  }
  return static_cast<int32_t>(out);
}

// c [32, 32] (+)= a panel of A, [unit][row][16], times a panel of B, [step][column].
template <class T, class Step>
void amx_tile_by_loops(int64_t depth, const int32_t* a, const int32_t* b, T* c, int64_t c_row,
                       bool accumulate) {
  for (int64_t i = 0; i < kAmxSide; ++i) {
    for (int64_t j = 0; j < kAmxSide; ++j) {
      T sum = accumulate ? c[i * c_row + j] : T(0);
      for (int64_t k = 0; k < depth; ++k)
        sum = add_products(sum, a[k / kAmxUnit * kAmxUnit * kAmxSide + i * kAmxUnit + k % kAmxUnit],
                           b[k * kAmxSide + j], Step());
      c[i * c_row + j] = sum;
    }
  }
}

}  // namespace detail

// clang 14 spells the macros without the underscore.
#if defined(__linux__) && ((defined(__AMX_TILE__) && defined(__AMX_BF16__) && defined(__AMX_INT8__)) || \
                           (defined(__AMXTILE__) && defined(__AMXBF16__) && defined(__AMXINT8__)))

// Whether this process may use the unit: Linux gives it to who asks, since its registers make switching
// threads longer.
inline bool has_amx() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  static const bool granted = syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return granted;
}

namespace detail {

struct AmxShape {  // as the processor reads it
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

template <class T, class Step>
[[gnu::noinline]] void amx_tile(int64_t depth, const int32_t* a, const int32_t* b, T* c, int64_t c_row,
                                bool accumulate) {
  constexpr int64_t kHalf = 16, kOfA = 64, kOfB = kAmxSide * 4;  // rows of a register, bytes between rows
  const int64_t of_c = c_row * static_cast<int64_t>(sizeof(T));
  T* const low = c + kHalf * c_row;
  asm volatile("" ::: "memory");  // the panels are written: the loads below do not say what they read
  if (accumulate) {
    _tile_loadd(0, c, of_c);
    _tile_loadd(1, c + kHalf, of_c);
    _tile_loadd(2, low, of_c);
    _tile_loadd(3, low + kHalf, of_c);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (int64_t k = 0; k < depth; k += kAmxUnit, a += kAmxUnit * kAmxSide, b += kAmxUnit * kAmxSide) {
    _tile_loadd(4, a, kOfA);
    _tile_loadd(6, b, kOfB);
    _tile_loadd(7, b + kHalf, kOfB);
    _tile_loadd(5, a + kHalf * kAmxUnit, kOfA);
    if constexpr (std::is_same_v<Step, Sixteen<Pairs>>) {
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
  _tile_stored(0, c, of_c);
  _tile_stored(1, c + kHalf, of_c);
  _tile_stored(2, low, of_c);
  _tile_stored(3, low + kHalf, of_c);
  asm volatile("" ::: "memory");
}

inline void begin_amx() {
  const AmxShape shape;
  _tile_loadconfig(&shape);
}
inline void end_amx() { _tile_release(); }

}  // namespace detail
#else
inline bool has_amx() { return false; }

namespace detail {
inline void begin_amx() {}
inline void end_amx() {}
template <class T, class Step>
void amx_tile(int64_t, const int32_t*, const int32_t*, T*, int64_t, bool) {}
}  // namespace detail
#endif

template <class T, class Of>
struct Tile<T, Sixteen<Of>> {
  static constexpr int64_t kRows = kAmxSide, kCols = kAmxSide, kUnit = kAmxUnit, kAtOnce = 256;

  struct Session {
    Session() {
      if (has_amx()) detail::begin_amx();
    }
    ~Session() {
      if (has_amx()) detail::end_amx();
    }
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
  };

  static void kernel(int64_t depth, const int32_t* a, const int32_t* b, T* c, int64_t c_row,
                     bool accumulate) {
    if (has_amx()) return detail::amx_tile<T, Sixteen<Of>>(depth, a, b, c, c_row, accumulate);
    detail::amx_tile_by_loops<T, Sixteen<Of>>(depth, a, b, c, c_row, accumulate);
  }
};

// An operand of pairs or quads (gemm/blocked.hpp), its panels filled up with zeros to whole units; those of A
// turned, so that what one register holds lies together.
template <class Operand, bool kLeft>
struct AmxOperand {
  using Step = Sixteen<typename Operand::Step>;
  static constexpr bool kOnce = Operand::kOnce;
  template <int64_t kWidth>
  static constexpr int64_t kBeside = 1;
  Operand of;

  template <int64_t kWidth>
  void pack(int32_t* panel, int64_t i, int64_t count, int64_t k, int64_t elements, bool first) const {
    static_assert(kWidth == kAmxSide);
    of.template pack<kWidth>(panel, i, count, k, elements, first);
    const int64_t steps = ceil_div(elements, Step::kDepth), units = ceil_div(steps, kAmxUnit);
    std::memset(panel + steps * kWidth, 0,
                static_cast<size_t>((units * kAmxUnit - steps) * kWidth) * sizeof(int32_t));
    if constexpr (kLeft) {
      for (int64_t u = 0; u < units; ++u, panel += kAmxUnit * kWidth) {
        int32_t unit[kAmxUnit * kWidth];
        std::memcpy(unit, panel, sizeof unit);
        for (int64_t row = 0; row < kWidth; row += 4)
          for (int64_t step = 0; step < kAmxUnit; step += 4)
            transpose_four(panel + row * kAmxUnit + step, kAmxUnit, unit + step * kWidth + row,
                           kWidth * static_cast<int64_t>(sizeof(int32_t)));
      }
    }
  }
};

// c [M, N] (+)= a b with operands of pairs or quads, as BlockedProduct.
template <class T, class Operand>
void gemm_amx(T* c, int64_t c_row, const Operand& a, const Operand& b, int64_t M, int64_t N, int64_t K,
              bool accumulate, bool parallel, const Epilogue& epilogue) {
  BlockedProduct<T, AmxOperand<Operand, true>, AmxOperand<Operand, false>>(c, c_row, {a}, {b}, M, N, K,
                                                                           accumulate, parallel, epilogue)
      .run();
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
