// Large matrix products: the five BLIS loops around the micro-kernel (gemm/micro_kernel.hpp).
//
// A macro block of A and of B is packed into panels that the micro-kernel reads sequentially. A panel of B
// stays in the L2 cache while panels of A stream past it. Panels are deep (KC = 1024), because each call of
// the micro-kernel loads and stores its tile of C once: 1024 steps take 0.9 of the time of 256. Packing also
// transposes, zero-pads the edges and converts 16-bit floats, so one micro-kernel serves all layouts and
// dtypes. If M is small, a shared packed B costs an extra write and read of B in memory, so each task packs
// the panels that it needs, when it needs them.
// Source: Van Zee and van de Geijn, "BLIS", 2015.
#pragma once

#include <atomic>
#include <tinytorch/backend/cpu/gemm/direct.hpp>
#include <tinytorch/backend/cpu/gemm/epilogue.hpp>
#include <tinytorch/backend/cpu/gemm/micro_kernel.hpp>
#include <tinytorch/core/allocator.hpp>
#include <tinytorch/core/parallel.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

inline constexpr int64_t kMC = 80 * kMR;                    // rows of A that one task multiplies
inline constexpr int64_t kPrivatePackingRows = 171 * kMR;   // largest M for which each task packs its own B
inline constexpr int64_t kMinRowsPerPacking = 10 * kMR;     // rows of A that amortize packing a panel of B
inline constexpr int64_t kTasksPerThread = 3;               // at least, for load balance
inline constexpr int64_t kL2Elements = 65536;               // elements of C that stay in L2 between passes
inline constexpr int64_t kEpilogueGrain = 8192;             // sums that make another thread worthwhile
inline constexpr int64_t kMacroRows = 8 * kMC, kNC = 3072;  // rows of A and columns of B in a macro block
// Words of both operands in a macro block. Its depth is a multiple of kKC, and at least kKC.
inline constexpr int64_t kMacroWords = int64_t{1} << 22;

// Operand types: how BlockedProduct packs A or B.
// Elements converted to T, one to a word.
template <class T, class S>
struct ScalarOperand {
  using Step = ScalarStep;
  static constexpr bool kPackOnce = false;  // true: each panel must be packed exactly once
  template <int64_t kWidth>
  static constexpr int64_t kMaxPanels = kPanelsTogether<T, kWidth>;  // most panels in one call of pack
  Matrix<S> at;  // row: stride between rows of A (columns of B); col: stride along the depth

  // Packs rows [i, i + count) and `elements` elements of the depth from k on. first: these elements were not
  // packed before.
  template <int64_t kWidth>
  void pack(T* panels, int64_t i, int64_t count, int64_t k, int64_t elements, bool /*first*/) const {
    pack_panels<kWidth>(panels, count, elements, at.data + i * at.row + k * at.col, at.row, at.col);
  }
};
// Packed bf16 operands store two numbers in a word of 32 bits.
struct Bf16PairOperand {
  using Step = Bf16PairStep;
  static constexpr bool kPackOnce = false;
  template <int64_t kWidth>
  static constexpr int64_t kMaxPanels = 1;
  Matrix<BFloat16> at;

  template <int64_t kWidth>
  void pack(int32_t* panel, int64_t i, int64_t count, int64_t k, int64_t elements, bool /*first*/) const {
    pack_words<kWidth, 2>(panel, count, elements, at.data + i * at.row + k * at.col, at.row, at.col);
  }
};
// Bytes, signed or unsigned, widened to 16 bits, two to a word.
struct Int16PairOperand {
  using Step = Int16PairStep;
  static constexpr bool kPackOnce = false;
  template <int64_t kWidth>
  static constexpr int64_t kMaxPanels = 1;
  Matrix<uint8_t> at;
  bool is_signed;

  template <int64_t kWidth>
  void pack(int32_t* panel, int64_t i, int64_t count, int64_t k, int64_t elements, bool /*first*/) const {
    const uint8_t* const from = at.data + i * at.row + k * at.col;
    if (is_signed)
      pack_words<kWidth, 2>(panel, count, elements, reinterpret_cast<const int8_t*>(from), at.row, at.col);
    else
      pack_words<kWidth, 2>(panel, count, elements, from, at.row, at.col);
  }
};
// Bytes, four to a word; pack can also sum the rows.
struct Int8QuadOperand {
  using Step = Int8QuadStep;
  static constexpr bool kPackOnce = true;  // else rows would be summed more than once
  template <int64_t kWidth>
  static constexpr int64_t kMaxPanels = 1;
  Matrix<uint8_t> at;
  uint8_t flip = 0;         // bits to invert: 128 converts signed bytes to unsigned + 128, and back
  int32_t* sums = nullptr;  // if not null: sums[i] += the sum of row i as packed, after `flip`
  bool is_signed = false;   // true if the packed bytes are signed

  template <int64_t kWidth>
  void pack(int32_t* panel, int64_t i, int64_t count, int64_t k, int64_t elements, bool first_time) const {
    pack_words<kWidth, 4>(panel, count, elements, at.data + i * at.row + k * at.col, at.row, at.col, flip);
    if (!sums || !first_time) return;
    for (int64_t first = 0; first < count; first += kLanes<int32_t>) {
      const FirstLanes<int32_t> lanes(std::min(kLanes<int32_t>, count - first));
      const Simd<int32_t> ones = simd_broadcast(int32_t{0x01010101});
      Simd<int32_t> sum = lanes.load(sums + i + first);
      for (int64_t q = 0; q < ceil_div(elements, 4); ++q) {
        const Simd<int32_t> quads = lanes.load(panel + q * kWidth + first);
        sum = is_signed ? dot4(sum, ones, quads) : dot4(sum, quads, ones);
      }
      lanes.store(sums + i + first, sum);
    }
  }
};

template <class T, class A, class B = A>
class BlockedProduct {
 public:
  // C [M, N] = or += A B. Rows of C are contiguous, c_row elements apart; K is in elements.
  BlockedProduct(T* c, int64_t c_row, const A& a, const B& b, int64_t M, int64_t N, int64_t K,
                 bool accumulate, bool parallel, const Epilogue& epilogue)
      : c_(c),
        c_row_(c_row),
        a_(a),
        b_(b),
        M_(M),
        N_(N),
        K_(K),
        accumulate_(accumulate),
        parallel_(parallel && 2 * M * N * K > kParallelFlops),
        epilogue_(epilogue) {}

  void run() {
    const bool shared = M_ > kPrivatePackingRows;  // true if all tasks share one packed B
    const int64_t height = std::min(round_up(M_, kRows), kMacroRows / kRows * kRows),
                  steps = round_up(ceil_div(K_, kDepth), kDepthMultiple);
    const int64_t width = std::min(round_up(N_, kCols), shared ? kNC : N_ + kCols);
    const int64_t most = std::max(kKC, kMacroWords / (height + (shared ? width : 0)) / kKC * kKC);
    const int64_t depth =
        round_up(ceil_div(steps, ceil_div(steps, most)), kDepthMultiple);  // macro blocks of equal depth
    Scratch<Packed> packed_a(height * depth), packed_b(shared ? width * depth : 0);
    for (int64_t n0 = 0; n0 < N_; n0 += width) {
      for (int64_t k0 = 0; k0 < steps; k0 += depth) {
        for (int64_t m0 = 0; m0 < M_; m0 += height) {
          const MacroBlock block{m0,
                                 n0,
                                 k0,
                                 std::min(height, M_ - m0),
                                 std::min(width, N_ - n0),
                                 std::min(depth, steps - k0),
                                 packed_a.data(),
                                 shared ? packed_b.data() : nullptr};
          pack(block, m0 == 0);
          multiply(block);
        }
      }
    }
    if (!epilogue_.by_rows()) return;
    maybe_parallel(parallel_, M_, ceil_div(kEpilogueGrain, N_), [&](int64_t begin, int64_t end) {
      epilogue_({begin, end - begin, 0, N_, c_ + begin * c_row_, c_row_});
    });
  }

 private:
  using Step = typename A::Step;
  using Packed = Word<T, Step>;
  using Kernel = MicroKernel<T, Step>;
  static constexpr int64_t kDepth = Step::kDepth, kRows = Kernel::kRows, kCols = Kernel::kCols,
                           kDepthMultiple = Kernel::kDepthMultiple;
  // Panels of B whose columns of C are completed together: whole cache lines of 16-bit results.
  static constexpr int64_t kStripPanels = std::max<int64_t>(1, 64 / kCols);
  static constexpr int64_t kPanelsA = A::template kMaxPanels<kRows>, kPanelsB = B::template kMaxPanels<kCols>;

  // Packed panels of rows [m0, m0 + M) of A and columns [n0, n0 + N) of B, for steps [k0, k0 + depth) of
  // both. Without packed_b, each task packs the panels of B that it needs.
  struct MacroBlock {
    int64_t m0, n0, k0, M, N, depth;
    Packed *packed_a, *packed_b;
  };

  int64_t elements(int64_t k, int64_t depth) const { return std::min(depth * kDepth, K_ - k * kDepth); }

  // Packs A, and B if with_b and if tasks share the packed B.
  void pack(const MacroBlock& s, bool with_b) const {
    constexpr int64_t kGroupM = kPanelsA * kRows, kGroupN = kPanelsB * kCols;
    const int64_t groups_a = ceil_div(s.M, kGroupM),
                  groups_b = with_b && s.packed_b ? ceil_div(s.N, kGroupN) : 0;
    const int64_t k = s.k0 * kDepth, depth = elements(s.k0, s.depth);
    maybe_parallel(parallel_, groups_a + groups_b, ceil_div(4, kPanelsA), [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        if (t < groups_a) {
          const int64_t row = t * kGroupM;
          a_.template pack<kRows>(s.packed_a + row * s.depth, s.m0 + row, std::min(kGroupM, s.M - row), k,
                                  depth, s.n0 == 0);
        } else {
          const int64_t col = (t - groups_a) * kGroupN;
          b_.template pack<kCols>(s.packed_b + col * s.depth, s.n0 + col, std::min(kGroupN, s.N - col), k,
                                  depth, true);
        }
      }
    });
  }

  // Tasks are blocks of C of about equal size, several per thread. In a task, a panel of B stays in the L2
  // cache while a block of A streams past it, and so does the part of C to which the next steps of the depth
  // are added. Tasks on the same block of A are consecutive, so that all threads read the same part of A at a
  // time: 1.05 to 1.1 times as fast on sixteen threads.
  void multiply(const MacroBlock& s) const {
    const int64_t m_tiles = ceil_div(s.M, kRows), n_tiles = ceil_div(s.N, kCols);
    // If there are too few columns for all threads, rows are divided, too, and some panels of B are packed
    // more than once.
    const int64_t few = parallel_ && !B::kPackOnce ? ceil_div(kTasksPerThread * thread_count(), n_tiles) : 1;
    const int64_t most =
        s.packed_b ? kMC / kRows : std::max(ceil_div(kMinRowsPerPacking, kRows), ceil_div(m_tiles, few));
    const int64_t block = ceil_div(m_tiles, ceil_div(m_tiles, most)), blocks = ceil_div(m_tiles, block);
    const int64_t depth = round_up(ceil_div(s.depth, ceil_div(s.depth, Kernel::kMaxDepth)),
                                   kDepthMultiple);  // passes of equal depth
    const int64_t cached = std::max<int64_t>(1, kL2Elements / (block * kRows * kCols));
    const int64_t wanted =
        parallel_ ? std::clamp<int64_t>(8 * thread_count() / blocks, ceil_div(n_tiles, cached), n_tiles) : 1;
    const int64_t strip = ceil_div(n_tiles, wanted), strips = ceil_div(n_tiles, strip);
    std::atomic<int64_t> next{0};  // dynamic schedule: threads that share a core are slower than others
    maybe_parallel(parallel_, std::min<int64_t>(blocks * strips, thread_count()), 1, [&](int64_t, int64_t) {
      [[maybe_unused]] const typename Kernel::Session session;
      Scratch<Packed> scratch(s.packed_b ? 0 : kPanelsB * kCols * depth);
      for (int64_t task = next++; task < blocks * strips; task = next++) {
        const int64_t i0 = task / strips * block, i1 = std::min(m_tiles, i0 + block);
        const int64_t j0 = task % strips * strip, j1 = std::min(n_tiles, j0 + strip);
        for (int64_t k = 0; k < s.depth; k += depth) {
          const int64_t steps = std::min(depth, s.depth - k);
          const bool last = (s.k0 + k + steps) * kDepth >= K_;
          for (int64_t j = j0; j < j1; j += kStripPanels) {
            const int64_t end = std::min(j1, j + kStripPanels);
            for (int64_t col = j; col < end; col += kPanelsB)
              multiply_panels(s, i0, i1, col, std::min(end, col + kPanelsB), k, steps, scratch.data());
            if (last && !epilogue_.by_rows()) epilogue(s, i0 * kRows, i1 * kRows, j * kCols, end * kCols);
          }
        }
      }
    });
  }

  // Multiplies the tiles [i0, i1) of A by the panels [j, j_end) of B.
  void multiply_panels(const MacroBlock& s, int64_t i0, int64_t i1, int64_t j, int64_t j_end, int64_t k,
                       int64_t depth, Packed* scratch) const {
    if (!s.packed_b)
      b_.template pack<kCols>(scratch, s.n0 + j * kCols, std::min(j_end * kCols, s.N) - j * kCols,
                              (s.k0 + k) * kDepth, elements(s.k0 + k, depth), true);
    for (int64_t panel = j; panel < j_end; ++panel) {
      const int64_t col = panel * kCols, cols = std::min(kCols, s.N - col);
      const Packed* const b =
          s.packed_b ? s.packed_b + col * s.depth + k * kCols : scratch + (panel - j) * kCols * depth;
      for (int64_t i = i0; i < i1; ++i) {
        const int64_t row = i * kRows, rows = std::min(kRows, s.M - row);
        T* const c = c_ + (s.m0 + row) * c_row_ + s.n0 + col;
        prefetch_tile(c, rows, cols);
        multiply_tile<T, Step>(depth, s.packed_a + row * s.depth + k * kRows, b, c, c_row_, rows, cols,
                               accumulate_ || s.k0 + k > 0);
      }
    }
  }

  // Prefetches a tile of C, which the micro-kernel stores when its sums are complete.
  [[gnu::always_inline]] void prefetch_tile(const T* c, int64_t rows, int64_t cols) const {
    for (int64_t i = 0; i < rows; ++i, c += c_row_) {
      prefetch<true>(c, cols);
      prefetch<true>(c + cols - 1, 1);  // a row may begin within a cache line
    }
  }

  // Calls the epilogue on rows [i, i_end) and columns [j, j_end) of a macro block, clipped to the matrix.
  void epilogue(const MacroBlock& s, int64_t i, int64_t i_end, int64_t j, int64_t j_end) const {
    const int64_t m = s.m0 + i, n = s.n0 + j;
    epilogue_({m, std::min(s.M, i_end) - i, n, std::min(s.N, j_end) - j, c_ + m * c_row_ + n, c_row_});
  }

  T* c_;
  int64_t c_row_;
  A a_;
  B b_;
  int64_t M_, N_, K_;
  bool accumulate_, parallel_;
  Epilogue epilogue_;
};

template <class T, class S>
void gemm_blocked(T* c, int64_t c_row, const Matrix<S>& a, const Matrix<S>& b, int64_t M, int64_t N,
                  int64_t K, bool accumulate, bool parallel, const Epilogue& epilogue) {
  BlockedProduct<T, ScalarOperand<T, S>>(c, c_row, {a}, {Matrix<S>{b.data, b.col, b.row}}, M, N, K,
                                         accumulate, parallel, epilogue)
      .run();
}

// gemm_blocked of bf16 with sums in f32, two elements of the depth per step.
inline void gemm_blocked_pairs(float* c, int64_t c_row, const Matrix<BFloat16>& a, const Matrix<BFloat16>& b,
                               int64_t M, int64_t N, int64_t K, bool accumulate, bool parallel,
                               const Epilogue& epilogue) {
  BlockedProduct<float, Bf16PairOperand>(c, c_row, {a}, {Matrix<BFloat16>{b.data, b.col, b.row}}, M, N, K,
                                         accumulate, parallel, epilogue)
      .run();
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
