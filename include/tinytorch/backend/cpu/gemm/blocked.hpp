// The five loops of a large matrix product, around the register tile.
//
// Slabs of A and B are packed into panels that the innermost kernel reads strictly forward: a panel of B
// stays in the L2 cache while tiles of A pass, each read once. Panels are deep, because a tile of C is loaded
// and stored once for every pass of the kernel: 1024 steps take 0.9 of the time of 256. Packing absorbs
// transposes, zero-pads the edges and converts 16-bit floats, so one kernel serves all. Of few rows, a panel
// of B is used too little to be packed for everyone: packed in memory, it would be written and read once
// more, so each task packs the panels it needs, when it needs them. Source: Van Zee and van de Geijn, "BLIS",
// 2015.
#pragma once

#include <atomic>
#include <tinytorch/backend/cpu/gemm/direct.hpp>
#include <tinytorch/backend/cpu/gemm/epilogue.hpp>
#include <tinytorch/backend/cpu/gemm/micro_kernel.hpp>
#include <tinytorch/core/allocator.hpp>
#include <tinytorch/core/parallel.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

inline constexpr int64_t kBlockRows = 80 * kTileRows;  // of a block of A
inline constexpr int64_t kPrivateRows =
    171 * kTileRows;  // up to so many, each task packs the panels of B it needs
inline constexpr int64_t kLeastRows = 10 * kTileRows;  // that repay packing a panel of B for them alone
inline constexpr int64_t kTasksOfThread = 3;           // at least, so that all end at about the same time
inline constexpr int64_t kNearC = 65536;         // elements of C that stay in L2 between passes of the kernel
inline constexpr int64_t kEpilogueGrain = 8192;  // sums that repay waking a thread to epilogue them
inline constexpr int64_t kSlabM = 8 * kBlockRows, kSlabN = 3072;  // rows and columns of a slab
// Words of both operands in a slab, whose depth is a multiple of kDepthAtOnce, and at least that.
inline constexpr int64_t kSlabSize = int64_t{1} << 22;

// An operand that is packed number by number,
template <class T, class S>
struct SingleOperand {
  using Step = Singles;
  static constexpr bool kOnce = false;  // whether every panel may be packed only once
  template <int64_t kWidth>
  static constexpr int64_t kBeside = kPanelsBeside<T, kWidth>;  // most panels that one call packs
  Matrix<S> at;  // row: from one row (of A) or column (of B) to the next; col: one step along the depth

  // Rows [i, i + count), `elements` of the depth from k on; `first`: not packed before.
  template <int64_t kWidth>
  void pack(T* panels, int64_t i, int64_t count, int64_t k, int64_t elements, bool /*first*/) const {
    pack_panels<kWidth>(panels, count, elements, at.data + i * at.row + k * at.col, at.row, at.col);
  }
};
// one of bf16, packed by pairs,
struct PairOperand {
  using Step = Pairs;
  static constexpr bool kOnce = false;
  template <int64_t kWidth>
  static constexpr int64_t kBeside = 1;
  Matrix<BFloat16> at;

  template <int64_t kWidth>
  void pack(int32_t* panel, int64_t i, int64_t count, int64_t k, int64_t elements, bool /*first*/) const {
    pack_words<kWidth, 2>(panel, count, elements, at.data + i * at.row + k * at.col, at.row, at.col);
  }
};
// one of bytes, widened to pairs of 16 bits, which hold signed and unsigned ones,
struct WidenedOperand {
  using Step = WordPairs;
  static constexpr bool kOnce = false;
  template <int64_t kWidth>
  static constexpr int64_t kBeside = 1;
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
// and one of bytes, packed by quads; the sums of its rows can be taken on the way.
struct QuadOperand {
  using Step = Quads;
  static constexpr bool kOnce = true;  // for the sums
  template <int64_t kWidth>
  static constexpr int64_t kBeside = 1;
  Matrix<uint8_t> at;
  uint8_t flip = 0;         // 128 turns signed into unsigned + 128, and back
  int32_t* sums = nullptr;  // if given: sums[i] += row i as it is packed,
  bool is_signed = false;   // whose bytes are signed, or not

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

template <class T, class Left, class Right = Left>
class BlockedProduct {
 public:
  // C [M, N] (contiguous columns, rows c_row apart) = or += A B; K in elements.
  BlockedProduct(T* c, int64_t c_row, const Left& a, const Right& b, int64_t M, int64_t N, int64_t K,
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
    const bool shared = M_ > kPrivateRows;
    const int64_t height = std::min(whole(M_, kRows), kSlabM / kRows * kRows),
                  steps = whole(ceil_div(K_, kDepth), kUnit);
    const int64_t width = std::min(whole(N_, kCols), shared ? kSlabN : N_ + kCols);
    const int64_t most =
        std::max(kDepthAtOnce, kSlabSize / (height + (shared ? width : 0)) / kDepthAtOnce * kDepthAtOnce);
    const int64_t depth = whole(ceil_div(steps, ceil_div(steps, most)), kUnit);  // slabs of one size
    Scratch<Packed> packed_a(height * depth), packed_b(shared ? width * depth : 0);
    for (int64_t n0 = 0; n0 < N_; n0 += width) {
      for (int64_t k0 = 0; k0 < steps; k0 += depth) {
        for (int64_t m0 = 0; m0 < M_; m0 += height) {
          const Slab slab{m0,
                          n0,
                          k0,
                          std::min(height, M_ - m0),
                          std::min(width, N_ - n0),
                          std::min(depth, steps - k0),
                          packed_a.data(),
                          shared ? packed_b.data() : nullptr};
          pack(slab, m0 == 0);
          multiply(slab);
        }
      }
    }
    if (!epilogue_.by_rows()) return;
    maybe_parallel(parallel_, M_, ceil_div(kEpilogueGrain, N_), [&](int64_t begin, int64_t end) {
      epilogue_({begin, end - begin, 0, N_, c_ + begin * c_row_, c_row_});
    });
  }

 private:
  using Step = typename Left::Step;
  using Packed = Word<T, Step>;
  using Block = Tile<T, Step>;
  static constexpr int64_t kDepth = Step::kDepth, kRows = Block::kRows, kCols = Block::kCols,
                           kUnit = Block::kUnit;
  static constexpr int64_t kBeside =
      std::max<int64_t>(1, 64 / kCols);  // panels finished together: whole cache lines of 16-bit results
  static constexpr int64_t kLefts = Left::template kBeside<kRows>, kRights = Right::template kBeside<kCols>;

  static int64_t whole(int64_t n, int64_t part) { return ceil_div(n, part) * part; }

  // Rows m0 to m0 + M of A and columns n0 to n0 + N of B, between steps k0 and k0 + depth of both; packed,
  // panel after panel. Without packed_b, tasks pack what they need.
  struct Slab {
    int64_t m0, n0, k0, M, N, depth;
    Packed *packed_a, *packed_b;
  };

  int64_t elements(int64_t k, int64_t depth) const { return std::min(depth * kDepth, K_ - k * kDepth); }

  // The panels of A, and those of B if `with_right` and if they are for everyone.
  void pack(const Slab& s, bool with_right) const {
    constexpr int64_t kGroupM = kLefts * kRows, kGroupN = kRights * kCols;
    const int64_t lefts = ceil_div(s.M, kGroupM),
                  rights = with_right && s.packed_b ? ceil_div(s.N, kGroupN) : 0;
    const int64_t k = s.k0 * kDepth, deep = elements(s.k0, s.depth);
    maybe_parallel(parallel_, lefts + rights, ceil_div(4, kLefts), [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        if (t < lefts) {
          const int64_t row = t * kGroupM;
          a_.template pack<kRows>(s.packed_a + row * s.depth, s.m0 + row, std::min(kGroupM, s.M - row), k,
                                  deep, s.n0 == 0);
        } else {
          const int64_t col = (t - lefts) * kGroupN;
          b_.template pack<kCols>(s.packed_b + col * s.depth, s.n0 + col, std::min(kGroupN, s.N - col), k,
                                  deep, true);
        }
      }
    });
  }

  // Tasks are blocks of C, all of about one size and some for each thread; in a task, a panel of B stays in
  // the L2 cache while a block of A passes, and of C what the next steps of the depth add to. Tasks under one
  // block of A follow one another, so that all threads read the same part of it at a time: 1.05 to 1.1 times
  // as fast on sixteen.
  void multiply(const Slab& s) const {
    const int64_t m_tiles = ceil_div(s.M, kRows), n_tiles = ceil_div(s.N, kCols);
    // Too few columns for all threads: rows are shared, too, and some panels of B packed more than once.
    const int64_t few = parallel_ && !Right::kOnce ? ceil_div(kTasksOfThread * thread_count(), n_tiles) : 1;
    const int64_t most =
        s.packed_b ? kBlockRows / kRows : std::max(ceil_div(kLeastRows, kRows), ceil_div(m_tiles, few));
    const int64_t block = ceil_div(m_tiles, ceil_div(m_tiles, most)), blocks = ceil_div(m_tiles, block);
    const int64_t depth =
        whole(ceil_div(s.depth, ceil_div(s.depth, Block::kAtOnce)), kUnit);  // passes of one size
    const int64_t near = std::max<int64_t>(1, kNearC / (block * kRows * kCols));
    const int64_t wanted =
        parallel_ ? std::clamp<int64_t>(8 * thread_count() / blocks, ceil_div(n_tiles, near), n_tiles) : 1;
    const int64_t strip = ceil_div(n_tiles, wanted), strips = ceil_div(n_tiles, strip);
    std::atomic<int64_t> next{
        0};  // taken in turn: of threads that share a core, or with other programs, some are slower
    maybe_parallel(parallel_, std::min<int64_t>(blocks * strips, thread_count()), 1, [&](int64_t, int64_t) {
      [[maybe_unused]] const typename Block::Session session;
      Scratch<Packed> room(s.packed_b ? 0 : kRights * kCols * depth);
      for (int64_t task = next++; task < blocks * strips; task = next++) {
        const int64_t i0 = task / strips * block, i1 = std::min(m_tiles, i0 + block);
        const int64_t j0 = task % strips * strip, j1 = std::min(n_tiles, j0 + strip);
        for (int64_t k = 0; k < s.depth; k += depth) {
          const int64_t steps = std::min(depth, s.depth - k);
          const bool last = (s.k0 + k + steps) * kDepth >= K_;
          for (int64_t j = j0; j < j1; j += kBeside) {
            const int64_t end = std::min(j1, j + kBeside);
            for (int64_t col = j; col < end; col += kRights)
              columns(s, i0, i1, col, std::min(end, col + kRights), k, steps, room.data());
            if (last && !epilogue_.by_rows()) epilogue(s, i0 * kRows, i1 * kRows, j * kCols, end * kCols);
          }
        }
      }
    });
  }

  // The panels [j, j_end) of B under the tiles [i0, i1) of A.
  void columns(const Slab& s, int64_t i0, int64_t i1, int64_t j, int64_t j_end, int64_t k, int64_t depth,
               Packed* room) const {
    if (!s.packed_b)
      b_.template pack<kCols>(room, s.n0 + j * kCols, std::min(j_end * kCols, s.N) - j * kCols,
                              (s.k0 + k) * kDepth, elements(s.k0 + k, depth), true);
    for (int64_t panel = j; panel < j_end; ++panel) {
      const int64_t col = panel * kCols, cols = std::min(kCols, s.N - col);
      const Packed* const b =
          s.packed_b ? s.packed_b + col * s.depth + k * kCols : room + (panel - j) * kCols * depth;
      for (int64_t i = i0; i < i1; ++i) {
        const int64_t row = i * kRows, rows = std::min(kRows, s.M - row);
        T* const c = c_ + (s.m0 + row) * c_row_ + s.n0 + col;
        ask_for_tile(c, rows, cols);
        compute_tile<T, Step>(depth, s.packed_a + row * s.depth + k * kRows, b, c, c_row_, rows, cols,
                              accumulate_ || s.k0 + k > 0);
      }
    }
  }

  // A tile of C, which is far away, will be needed when its sums are complete.
  [[gnu::always_inline]] void ask_for_tile(const T* c, int64_t rows, int64_t cols) const {
    for (int64_t i = 0; i < rows; ++i, c += c_row_) {
      ask_for<true>(c, cols);
      ask_for<true>(c + cols - 1, 1);  // rows may begin within a cache line
    }
  }

  // Rows [i, i_end) and columns [j, j_end) of a slab, as far as they exist, are complete.
  void epilogue(const Slab& s, int64_t i, int64_t i_end, int64_t j, int64_t j_end) const {
    const int64_t m = s.m0 + i, n = s.n0 + j;
    epilogue_({m, std::min(s.M, i_end) - i, n, std::min(s.N, j_end) - j, c_ + m * c_row_ + n, c_row_});
  }

  T* c_;
  int64_t c_row_;
  Left a_;
  Right b_;
  int64_t M_, N_, K_;
  bool accumulate_, parallel_;
  Epilogue epilogue_;
};

template <class T, class S>
void gemm_blocked(T* c, int64_t c_row, const Matrix<S>& a, const Matrix<S>& b, int64_t M, int64_t N,
                  int64_t K, bool accumulate, bool parallel, const Epilogue& epilogue) {
  BlockedProduct<T, SingleOperand<T, S>>(c, c_row, {a}, {Matrix<S>{b.data, b.col, b.row}}, M, N, K,
                                         accumulate, parallel, epilogue)
      .run();
}

// The same of bf16 with sums in f32, two steps of the depth at a time.
inline void gemm_blocked_pairs(float* c, int64_t c_row, const Matrix<BFloat16>& a, const Matrix<BFloat16>& b,
                               int64_t M, int64_t N, int64_t K, bool accumulate, bool parallel,
                               const Epilogue& epilogue) {
  BlockedProduct<float, PairOperand>(c, c_row, {a}, {Matrix<BFloat16>{b.data, b.col, b.row}}, M, N, K,
                                     accumulate, parallel, epilogue)
      .run();
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
