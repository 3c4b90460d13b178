// Reductions: sum, product, extrema, any, all, sums of squares, arg-extrema, cumulative sum.
//
// Deterministic: the reduced elements are cut into chunks whose size depends on the shape alone; each chunk
// is folded by the same threads in the same order, and a second kernel folds the chunks' results in their
// order. Sums of float are formed of 8 neighbours at a time and then kept in double (f32 data: error of a few
// roundings whatever the length); where a row begins in a word of 16 bytes says which 8. Two ways through
// memory: along rows (threads, as many as a row is worth, fold neighbours) and down columns (neighbouring
// threads belong to neighbouring results). Limit: memory, each element once.
#pragma once

#include <algorithm>
#include <limits>
#include <tinytorch/backend/cuda/collective.cuh>
#include <tinytorch/backend/cuda/dense.cuh>
#include <tinytorch/backend/cuda/tiles.cuh>
#include <tinytorch/backend/cuda/walk.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// --- what is folded: value -> accumulator, and two accumulators into one ---

template <class C>
using SumType = std::conditional_t<std::is_integral_v<C>, int64_t, double>;

template <class C>
struct FoldSum {
  using A = SumType<C>;
  bool squares;
  static __device__ A neutral() { return 0; }
  __device__ __forceinline__ A of(C v) const { return squares ? A(v) * A(v) : A(v); }
  __device__ __forceinline__ A of(const C (&v)[8], int count) const {
    if constexpr (std::is_same_v<C, float>) {
      if (!squares) {  // 8 in float, then one step of the double sum
        return static_cast<double>(((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7])));
      }
    }
    A sum = 0;
#pragma unroll
    for (int k = 0; k < 8; ++k) sum += k < count ? (squares ? A(v[k]) * A(v[k]) : A(v[k])) : A(0);
    return sum;
  }
  __device__ __forceinline__ A operator()(A a, A b) const { return a + b; }
};
template <class C>
struct FoldProduct {
  using A = SumType<C>;
  static __device__ A neutral() { return 1; }
  static __device__ __forceinline__ A of(C v) { return v; }
  __device__ __forceinline__ A of(const C (&v)[8], int count) const {
    A product = 1;
#pragma unroll
    for (int k = 0; k < 8; ++k) product *= k < count ? A(v[k]) : A(1);
    return product;
  }
  __device__ __forceinline__ A operator()(A a, A b) const { return a * b; }
};
template <class C>
struct FoldExtreme {
  using A = C;
  bool largest;
  C first;  // below, or above, all others
  __device__ C neutral() const { return first; }
  static __device__ __forceinline__ A of(C v) { return v; }
  __device__ __forceinline__ A of(const C (&v)[8], int count) const {
    A best = v[0];
#pragma unroll
    for (int k = 1; k < 8; ++k) {
      if (k < count) best = (*this)(best, v[k]);
    }
    return best;
  }
  __device__ __forceinline__ A operator()(A a, A b) const {
    return largest ? Maximum()(a, b) : Minimum()(a, b);
  }
};
template <class C>
struct FoldTruth {
  using A = int32_t;
  bool every;
  __device__ A neutral() const { return every; }
  static __device__ __forceinline__ A of(C v) { return v != C(0); }
  __device__ __forceinline__ A of(const C (&v)[8], int count) const {
    A truth = every;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      if (k < count) truth = (*this)(truth, v[k] != C(0));
    }
    return truth;
  }
  __device__ __forceinline__ A operator()(A a, A b) const { return every ? a & b : a | b; }
};

// --- kernels ---

inline constexpr int kReduceThreads = 256;

// x as [results][length]: `kept` finds a result's first element, `reduced` the others from there.
struct ReduceLayout {
  Operands<1> kept, reduced;
  const void* data;
  DType dtype;
  bool vector;     // neighbours of a result lie side by side; down columns also aligned
  int64_t chunk;   // elements one group of threads folds
  int64_t chunks;  // of each result
};

// Where sums of chunks go: to `partial`, for finish_reduce, or where there is one chunk to the result itself.
template <class A>
struct ReduceOutput {
  Operands<1> out;
  A* partial;
  double divisor;
  __device__ __forceinline__ void write(int64_t r, A sum) const {
    const auto store_as = [&]<class T>(T*) {
      T* const to_ = static_cast<T*>(out.operand[0].data) + out.offset(0, r);
      *to_ = divisor == 1 ? to<T>(sum) : to<T>(static_cast<double>(sum) / divisor);
    };
    for_any_stored(out.operand[0].dtype, store_as);
  }
  __device__ __forceinline__ void leave(int64_t task, A sum) const {
    if (partial) {
      partial[task] = sum;
    } else {
      write(task, sum);
    }
  }
};

// The thread's part of elements [first, last) of a result at `data`, of kGroup threads.
template <class C, int kGroup, class T, class Fold>
__device__ __forceinline__ typename Fold::A fold_part(const ReduceLayout& x, const T* data, int64_t first,
                                                      int64_t last, const Fold& fold) {
  using A = typename Fold::A;
  const int lane = static_cast<int>(threadIdx.x) % kGroup;
  A sum = fold.neutral();
  if (x.vector) {
    constexpr int kAhead = sizeof(T) == 2 ? 4 : 2;  // loads in flight
    constexpr int64_t kAlign = kAccessBytes<T, 8>;
    // Groups of 8 begin at aligned addresses. What is left before the first and behind the last is on its way
    // first, an element for each of some threads, where there are so many.
    const auto phase = static_cast<int64_t>(reinterpret_cast<uintptr_t>(data + first) % kAlign / sizeof(T));
    const int64_t begin = std::min(phase == 0 ? first : first - phase + 8, last);
    const int64_t end = std::max(begin, last - (last - begin) % 8);
    const auto part = [&](int64_t from, int64_t to_) {
      C some[8] = {};
#pragma unroll
      for (int k = 0; k < 8; ++k) some[k] = from + k < to_ ? to<C>(data[from + k]) : C{};
      if (from < to_) sum = fold(sum, fold.of(some, static_cast<int>(to_ - from)));
    };
    C edge[8] = {};
    bool has_edge = false;
    if constexpr (kGroup >= 16) {
      const int64_t at = lane < 8 ? first + lane : end + lane - 8;
      has_edge = lane < 8 ? at < begin : lane < 16 && at < last;
      if (has_edge) edge[0] = to<C>(data[at]);
    } else if (lane == 0) {
      part(first, begin);
    }
    constexpr int64_t kStep = kGroup * 8;
    int64_t i = begin + lane * 8;
    C ahead[kAhead][8];
    for (; i + (kAhead - 1) * kStep < end; i += kAhead * kStep) {
#pragma unroll
      for (int a = 0; a < kAhead; ++a) load(ahead[a], data + i + a * kStep);
#pragma unroll
      for (int a = 0; a < kAhead; ++a) sum = fold(sum, fold.of(ahead[a], 8));
    }
    if (i < end) {  // what is left is on its way together, too: beyond the end the last once more
#pragma unroll
      for (int a = 0; a < kAhead - 1; ++a) load(ahead[a], data + std::min(i + a * kStep, end - 8));
#pragma unroll
      for (int a = 0; a < kAhead - 1; ++a) {
        const A next = fold(sum, fold.of(ahead[a], 8));
        sum = i + a * kStep < end ? next : sum;
      }
    }
    if (has_edge) sum = fold(sum, fold.of(edge, 1));
    if (kGroup < 16 && lane == kGroup - 1 && end < last) part(end, last);
  } else {
    for (int64_t i = first + lane; i < last; i += kGroup * 8) {
      C v[8] = {};
      int count = 0;
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        const int64_t at = i + k * kGroup;
        v[k] = at < last ? to<C>(data[x.reduced.offset(0, at)]) : C{};
        count += at < last;
      }
      sum = fold(sum, fold.of(v, count));
    }
  }
  return sum;
}

// kGroup threads (1, 4, 32 or 256) fold one chunk of one result after the other: short rows do not repay a
// block each.
template <class C, class Fold, int kGroup>
static __global__ void __launch_bounds__(kReduceThreads)
    reduce_rows(const __grid_constant__ ReduceLayout x,
                const __grid_constant__ ReduceOutput<typename Fold::A> out, Fold fold) {
  using A = typename Fold::A;
  constexpr int kGroups = kReduceThreads / kGroup;
  const int64_t tasks = x.kept.count * x.chunks, group = threadIdx.x / kGroup;
  for (int64_t begin = static_cast<int64_t>(blockIdx.x) * kGroups; begin < tasks;
       begin += static_cast<int64_t>(gridDim.x) * kGroups) {
    const int64_t task = std::min(begin + group, tasks - 1);        // threads of a warp fold together
    const int64_t result = x.chunks == 1 ? task : task / x.chunks;  // a division costs more than a short row
    const int64_t first = (task - result * x.chunks) * x.chunk;
    const int64_t last = std::min(first + x.chunk, x.reduced.count);
    const int64_t start = x.kept.offset(0, result);
    A sum = fold.neutral();
    for_stored<C>(x.dtype, [&]<class T>(T*) {
      sum = fold_part<C, kGroup>(x, static_cast<const T*>(x.data) + start, first, last, fold);
    });
    if constexpr (kGroup <= kWarp) {
      sum = warp_reduce<kGroup>(sum, fold);
    } else {
      sum = block_reduce<kReduceThreads>(sum, fold);
    }
    if (static_cast<int>(threadIdx.x) % kGroup == 0 && begin + group < tasks) out.leave(task, sum);
  }
}

// Narrow rows that follow each other in memory, many to a tile (tiles.cuh): results of the rows' own type.
template <class T, class Fold>
struct ReduceTiles {
  struct Arrays {
    T* out;
    const T* x;
    Fold fold;
    double divisor;
  };
  using Element = T;
  using A = typename Fold::A;
  struct Facts {};
  static constexpr int kInputs = 1;
  static constexpr int kBytes = 16384;
  static constexpr bool kByRow = true, kWrites = false;
  Arrays a;
  __device__ __forceinline__ ReduceTiles(const Arrays& arrays, int, int) : a(arrays) {}
  static __device__ __forceinline__ const T* input(const Arrays& arrays, int) { return arrays.x; }
  static __device__ __forceinline__ T* output(const Arrays&) { return nullptr; }
  __device__ __forceinline__ Facts measure(const TileRow<T, 1>& row, int64_t r, bool leads) const {
    A sum = a.fold.neutral();
    row.each([&](int, const Wide<T>(&x)[1]) { sum = a.fold(sum, a.fold.of(x[0])); });
    sum = row.reduce(sum, a.fold);
    if (leads) a.out[r] = a.divisor == 1 ? to<T>(sum) : to<T>(static_cast<double>(sum) / a.divisor);
    return {};
  }
  static __device__ __forceinline__ void end(const TileColumns<Wide<T>>&) {}
};

// Neighbouring results are neighbours in memory: a warp walks 32 of them (256 with vectors of 8) down its
// rows, eight warps of a block take turns at the rows of a chunk.
inline constexpr int kColumnLines = kReduceThreads / kWarp;
template <class C, class Fold, int kWide>
static __global__ void __launch_bounds__(kReduceThreads)
    reduce_columns(const __grid_constant__ ReduceLayout x,
                   const __grid_constant__ ReduceOutput<typename Fold::A> out, Fold fold, int64_t row) {
  using A = typename Fold::A;
  __shared__ A partial[kColumnLines][kWarp * kWide];
  const int lane = static_cast<int>(threadIdx.x) % kWarp, line = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t column = (static_cast<int64_t>(blockIdx.x) * kWarp + lane) * kWide;
  const int64_t outer = blockIdx.z, chunk = blockIdx.y;
  const int64_t last = std::min((chunk + 1) * x.chunk, x.reduced.count);
  A sum[kWide];
  for (int w = 0; w < kWide; ++w) sum[w] = fold.neutral();
  if (column < row) {
    const int64_t start = x.kept.offset(0, outer * row + column);
    for_stored<C>(x.dtype, [&]<class T>(T*) {
      const T* data = static_cast<const T*>(x.data) + start;
      for (int64_t i = chunk * x.chunk + line; i < last; i += kColumnLines * 8) {
        C v[8][kWide];  // eight rows in flight
        int count = 0;
#pragma unroll
        for (int k = 0; k < 8; ++k) {
          const int64_t at = i + k * kColumnLines;
          for (int w = 0; w < kWide; ++w) v[k][w] = C{};
          if (at >= last) continue;
          ++count;
          const T* p = data + x.reduced.offset(0, at);
          if constexpr (kWide == 1) {
            v[k][0] = to<C>(*p);
          } else {
            load(v[k], p);
          }
        }
#pragma unroll
        for (int w = 0; w < kWide; ++w) {
          const C down[8] = {v[0][w], v[1][w], v[2][w], v[3][w], v[4][w], v[5][w], v[6][w], v[7][w]};
          sum[w] = fold(sum[w], fold.of(down, count));
        }
      }
    });
  }
#pragma unroll
  for (int w = 0; w < kWide; ++w) partial[line][w * kWarp + lane] = sum[w];
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kWarp * kWide; i += kReduceThreads) {
    const int64_t at = (static_cast<int64_t>(blockIdx.x) * kWarp + i % kWarp) * kWide + i / kWarp;
    A total = partial[0][i];
    for (int k = 1; k < kColumnLines; ++k) total = fold(total, partial[k][i]);
    if (at < row) out.leave((outer * row + at) * x.chunks + chunk, total);
  }
}

// Folds the chunks of each result, kGroup (1, 32 or 256) threads together, and writes it in its own type.
template <class Fold, int kGroup>
static __global__ void __launch_bounds__(kReduceThreads)
    finish_reduce(const __grid_constant__ ReduceOutput<typename Fold::A> out, int64_t chunks, Fold fold) {
  const int64_t r = static_cast<int64_t>(blockIdx.x) * (kReduceThreads / kGroup) + threadIdx.x / kGroup;
  const int lane = static_cast<int>(threadIdx.x) % kGroup;
  typename Fold::A sum = fold.neutral();
  if (r < out.out.count) {
#pragma unroll 4
    for (int64_t k = lane; k < chunks; k += kGroup) sum = fold(sum, out.partial[r * chunks + k]);
  }
  if constexpr (kGroup == kWarp) sum = warp_reduce(sum, fold);
  if constexpr (kGroup == kReduceThreads) {
    sum = block_reduce<kReduceThreads>(sum, fold);
  }
  if (r < out.out.count && lane == 0) out.write(r, sum);
}

// --- launchers ---

template <class Fold>
void finish(const Fold& fold, const ReduceOutput<typename Fold::A>& out, int64_t chunks) {
  if (!out.partial) return;
  const int group = chunks <= 8 ? 1 : (chunks <= 256 ? kWarp : kReduceThreads);
  const auto kernel =
      group == 1 ? finish_reduce<Fold, 1>
                 : (group == kWarp ? finish_reduce<Fold, kWarp> : finish_reduce<Fold, kReduceThreads>);
  launch(kernel, over(out.out.count * group, kReduceThreads), out, chunks, fold);
}

template <class C, class Fold, int kGroup>
void launch_reduce_rows(const ReduceLayout& l, const ReduceOutput<typename Fold::A>& out, const Fold& fold) {
  const auto kernel = reduce_rows<C, Fold, kGroup>;
  LaunchConfig config = over(l.kept.count * l.chunks * kGroup, kReduceThreads);
  if (kGroup <= kWarp) {
    const int64_t most = 4 * resident_blocks(kernel, config);
    config.grid.x = static_cast<unsigned>(std::min<int64_t>(config.grid.x, most));
  }
  launch(kernel, config, l, out, fold);
}

// Whether x is rows of few words of the result's own type, one after the other, of which each is reduced; then reduces
// them by tiles.
template <class C, class Fold>
bool reduce_in_tiles(const Fold& fold, const View& out, const View& x, const bool* reduced, int64_t results,
                     int64_t length, double divisor) {
  bool in_rows = x.contiguous() && out.contiguous() && out.dtype == x.dtype && length > 0, within = false;
  for (int d = 0; d < x.rank(); ++d) {
    if (x.shape[d] == 1) continue;
    within = within || reduced[d];
    in_rows = in_rows && reduced[d] == within;
  }
  if (!in_rows || length * static_cast<int64_t>(size_of(x.dtype)) >= 256) return false;
  dispatch_stored(x.dtype, [&]<class T>(T*) {
    if constexpr (std::is_same_v<Wide<T>, C>) {
      using Work = ReduceTiles<T, Fold>;
      launch_tiles<Work>(plan_tiles<Work>(results, length), {out.as<T>(), x.as<const T>(), fold, divisor},
                         results, length);
    }
  });
  return true;
}

template <class C, class Fold>
void reduce_with(const Fold& fold, const View& out, const View& x, const bool* reduced, double divisor) {
  using A = typename Fold::A;
  ReduceLayout l;
  Shape kept_shape, reduced_shape;
  Strides kept_strides, reduced_strides;
  l.kept = part_of(x, reduced, false, kept_shape, kept_strides);
  l.reduced = part_of(x, reduced, true, reduced_shape, reduced_strides);
  l.data = x.data;
  l.dtype = x.dtype;
  const auto size = static_cast<int64_t>(size_of(x.dtype));
  const int64_t align = std::min<int64_t>(16, 8 * size);
  const auto aligned = [&](const Shape& shape, const Strides& s, int first_dims) {
    bool fits = reinterpret_cast<uintptr_t>(x.data) % static_cast<uintptr_t>(align) == 0;
    for (int d = 0; d < first_dims; ++d) fits = fits && (shape[d] == 1 || s[d] * size % align == 0);
    return fits;
  };
  const int64_t results = l.kept.count, length = l.reduced.count, row = kept_shape.back();
  const bool columns = kept_strides.back() == 1 && row >= 16 && reduced_strides.back() != 1 && length > 1 &&
                       results / row <= 65535;
  if constexpr (std::is_floating_point_v<A>) {
    if (reduce_in_tiles<C>(fold, out, x, reduced, results, length, divisor)) return;
  }
  // Enough groups of threads to fill the device several times over, each with enough to do.
  constexpr int64_t kWanted = 132 * 8 * 4;
  if (columns) {
    const bool wide = row % 8 == 0 && aligned(reduced_shape, reduced_strides, reduced_shape.size()) &&
                      aligned(kept_shape, kept_strides, kept_shape.size() - 1);
    const int64_t across = divided_up(row, kWarp * (wide ? 8 : 1)) * (results / row);
    l.chunks = std::clamp<int64_t>(kWanted / 4 / across, 1, std::min<int64_t>(divided_up(length, 64), 1024));
    l.chunk = divided_up(length, l.chunks);
    l.chunks = divided_up(length, l.chunk);
    l.vector = wide;
    const DeviceScratch<A> partial(l.chunks > 1 ? results * l.chunks : 0);
    const ReduceOutput<A> to_{Plan<1>({out}, 1).operands, partial.data(), divisor};
    const dim3 grid(static_cast<unsigned>(divided_up(row, kWarp * (wide ? 8 : 1))),
                    static_cast<unsigned>(l.chunks), static_cast<unsigned>(results / row));
    launch(wide ? reduce_columns<C, Fold, 8> : reduce_columns<C, Fold, 1>, {grid, dim3(kReduceThreads)}, l,
           to_, fold, row);
    return finish<Fold>(fold, to_, l.chunks);
  }
  l.vector = reduced_shape.size() == 1 && reduced_strides[0] == 1;
  // A warp a row where that leaves each lane several loads to have in flight and there are rows for all
  // warps.
  const bool small = length <= 1024 || (size == 2 && length <= 16384 && results >= kWanted);
  l.chunks =
      small ? 1 : std::clamp<int64_t>(kWanted / std::max<int64_t>(1, results), 1, divided_up(length, 8192));
  l.chunk = divided_up(divided_up(std::max<int64_t>(length, 1), l.chunks), 8) * 8;
  l.chunks = std::max<int64_t>(1, divided_up(length, l.chunk));
  const int64_t tasks = results * l.chunks;
  const DeviceScratch<A> partial(l.chunks > 1 ? tasks : 0);
  const ReduceOutput<A> to_{Plan<1>({out}, 1).operands, partial.data(), divisor};
  if (!small) {
    launch_reduce_rows<C, Fold, kReduceThreads>(l, to_, fold);
  } else if (length <= 32) {
    launch_reduce_rows<C, Fold, 1>(l, to_, fold);
  } else if (length <= 512) {
    launch_reduce_rows<C, Fold, 4>(l, to_, fold);
  } else {
    launch_reduce_rows<C, Fold, kWarp>(l, to_, fold);
  }
  finish<Fold>(fold, to_, l.chunks);
}

void reduce(ReduceFn fn, const View& out, const View& x, const bool* reduced, double divisor) {
  if (out.numel() == 0) return;
  dispatch_compute(x.dtype, [&]<class C>(C*) {
    using Limits = std::numeric_limits<C>;
    switch (fn) {
      case ReduceFn::sum:
      case ReduceFn::sum_square:
        return reduce_with<C>(FoldSum<C>{fn == ReduceFn::sum_square}, out, x, reduced, divisor);
      case ReduceFn::prod:
        return reduce_with<C>(FoldProduct<C>{}, out, x, reduced, 1);
      case ReduceFn::max:
        return reduce_with<C>(
            FoldExtreme<C>{true, std::is_integral_v<C> ? Limits::lowest() : -Limits::infinity()}, out, x,
            reduced, 1);
      case ReduceFn::min:
        return reduce_with<C>(
            FoldExtreme<C>{false, std::is_integral_v<C> ? Limits::max() : Limits::infinity()}, out, x,
            reduced, 1);
      default:
        return reduce_with<C>(FoldTruth<C>{fn == ReduceFn::all}, out, x, reduced, 1);
    }
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
