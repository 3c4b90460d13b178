// Strips: kernels that need a row twice, where a row is too long for the registers of one block, or where
// there are too few rows to keep the device busy with one block per row. A row is split into strips of about
// 16 KiB, one per thread block. The blocks of a row form a cluster, or a team (team.cuh) if a cluster is too
// small.
//
// A team loops over many rows in a software pipeline: while the sums of one row are exchanged, each block
// finishes the previous row, and the next rows are loaded by asynchronous copies. This hides the latency of
// barriers and of memory. If each thread has to keep its columns during a pass, ragged rows (row.cuh) are
// processed in one pass per phase.
#pragma once

#include <algorithm>
#include <tinytorch/backend/cuda/device/async_copy.cuh>
#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/device/row.cuh>
#include <tinytorch/backend/cuda/device/team.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// The work on the rows is a class, such as NormGradStrips or SoftmaxGradStrips:
//
//   struct Work {
//     using Element, Arrays;                element type of the rows; argument of the kernel
//     using Sums;                           result of visit(), summed over the row; Sums() is zero
//     using RowStats;                       values of a row, read one row ahead
//     using S;                              the Strip type; says if rows are aligned
//     static constexpr int kInputs;         number of input arrays
//     static constexpr int kBlocks;         blocks per multiprocessor
//     static constexpr bool kKeepsColumns;  a thread has the same columns in all rows of a pass
//     static Element fill();                value of elements outside of a ragged row
//     static const Element* input(const Arrays&, int k);
//     static const Element* result(const Arrays&);              start of the rows that are written
//     Work(const Arrays&, const Strip&, int64_t C);             made before each pass
//     RowStats row_stats(int64_t row);
//     Sums visit(const Strip&, const RowStats&);                first use of a row
//     void finish(const Strip&, const RowStats&, const Sums&, int64_t row);   second use
//     void end(const Strip&, int64_t line);                     after a pass; `line` is unique for each pass
//   };

inline constexpr int kStripThreads = 512;
inline constexpr int kStripStages = 3;  // pipeline stages: a row to finish, one to visit, one to load

// This block's columns of a row, for kInputs arrays in shared memory. A thread reads only elements that it
// copied itself, so no barrier is needed.
template <class T, int kInputs, int kStripVectors, bool kIsAligned>
struct Strip {
  static constexpr int kVectorSize = kVectorSizeOf<T>, kVectors = kStripVectors;
  static constexpr bool kAligned = kIsAligned;
  using A = Compute<T>;
  int C, first;  // columns of the row; first column of the strip, below 0 if its vector begins in another row
  int columns, width;  // columns of the strip in this row; capacity of the strip
  const T* kept;       // kInputs times `width` elements in shared memory; null before the first row

  // Sets the columns to strip number `mine` of the row that begins at `result`.
  __device__ __forceinline__ void place(const T* result, int mine) {
    first = mine * width - (kAligned ? 0 : phase_of(result));
    columns = std::min(width, C - first);
  }
  // First column of this thread's vector v, relative to the strip's first column.
  static __device__ __forceinline__ int column(int v) {
    return (v * kStripThreads + static_cast<int>(threadIdx.x)) * kVectorSize;
  }
  __device__ __forceinline__ bool holds(int v, int k) const {
    return kAligned || is_inside(first + column(v) + k, C);
  }
  // Calls f(v) for each vector of this thread.
  template <class F>
  __device__ __forceinline__ void each_vector(F&& f) const {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (column(v) < columns) f(v);
    }
  }
  // Calls f(v, elements of each input) for each vector of this thread.
  template <class F>
  __device__ __forceinline__ void each(F&& f) const {
    each_vector([&](int v) {
      A x[kInputs][kVectorSize];
#pragma unroll
      for (int k = 0; k < kInputs; ++k) load(x[k], kept + k * width + column(v));
      f(v, x);
    });
  }
  __device__ __forceinline__ void write(T* row, int v, const A (&y)[kVectorSize]) const {
    Row<T, kStripThreads, kVectors, kAligned>::write(row, first + column(v), C, y);
  }
  // A vector of another array, such as the weight, at the columns of vector v.
  __device__ __forceinline__ uint4 vector_at_same_columns(const T* line, int v) const {
    if constexpr (kAligned) return *reinterpret_cast<const uint4*>(line + first + column(v));
    return load_unaligned_vector(line, first + column(v), C, T{});
  }
  __device__ __forceinline__ void read_same_columns(A (&out)[kVectorSize], const T* line, int v) const {
    const uint4 vector = vector_at_same_columns(line, v);
    load(out, reinterpret_cast<const T*>(&vector));
  }
};
// This thread's part of an array with one element per column, such as a weight, in registers.
template <class S, class T>
struct StripLine {
  uint4 vector[S::kVectors];
  __device__ __forceinline__ void read(const S& strip, const T* line) {
    strip.each_vector([&](int v) { vector[v] = strip.vector_at_same_columns(line, v); });
  }
  template <class A, int kVectorSize>
  __device__ __forceinline__ void get(int v, A (&out)[kVectorSize]) const {
    load(out, reinterpret_cast<const T*>(&vector[v]));
  }
};

// Base of a Work without row statistics and without a result per pass.
struct PlainStripWork {
  struct RowStats {};
  static constexpr bool kKeepsColumns = false;
  static __device__ __forceinline__ RowStats row_stats(int64_t) { return {}; }
  template <class S>
  static __device__ __forceinline__ void end(const S&, int64_t) {}
};

// Launch plan for rows of C elements. `teams` is 0 if rows are too long, operands have different phases, or
// the device lacks clusters or shared memory.
struct StripsPlan {
  LaunchConfig config;
  int width = 0;            // columns per strip
  int blocks = 1;           // thread blocks per team
  int64_t teams = 0;        // number of teams
  int passes = 1;           // passes over the rows: row r belongs to pass r % passes
  bool uses_slots = false;  // blocks exchange sums through device memory (TeamSum), not in a cluster
};

// Queues copies of this thread's part of a row, for each input, to a pipeline stage in shared memory.
template <class Work>
__device__ __forceinline__ void fetch_strip(const typename Work::Arrays& arrays,
                                            const typename Work::S& strip, typename Work::Element* stage,
                                            int64_t first_of_row) {
  using T = typename Work::Element;
  using S = typename Work::S;
  strip.each_vector([&](int v) {
#pragma unroll
    for (int k = 0; k < Work::kInputs; ++k) {
      const T* const line = Work::input(arrays, k) + first_of_row;
      T* const to_ = stage + k * strip.width + S::column(v);
      const int c = strip.first + S::column(v);
      if (S::kAligned || vector_is_inside<T>(c, strip.C)) {
        copy_async(shared_address(to_), line + c, true);
      } else {
        *reinterpret_cast<uint4*>(to_) = load_aligned_vector(line, c, strip.C, Work::fill());
      }
    }
  });
}

// Processes rows `row`, row + stride ... of a team.
template <class Work, class Total>
__device__ __forceinline__ void process_pass(const typename Work::Arrays& arrays, Work& work,
                                             typename Work::S& strip, Total& total, int64_t row, int64_t rows,
                                             int64_t stride, int64_t columns, int mine) {
  int fill = 0, now = 0, before = 0;  // stage of the next copy, of the current and of the previous row
  int64_t coming = row;
  const auto place = [&](int64_t of) {
    if constexpr (!Work::S::kAligned && !Work::kKeepsColumns)
      strip.place(Work::result(arrays) + of * columns, mine);
  };
  const auto after = [](int stage) { return stage + 1 == kStripStages ? 0 : stage + 1; };
  const auto stage = [&](int s) {
    return dynamic_shared<typename Work::Element>() + s * Work::kInputs * strip.width;
  };
  const auto fetch = [&] {
    if (coming < rows) {
      place(coming);
      fetch_strip<Work>(arrays, strip, stage(fill), coming * columns);
    }
    commit_copies();
    coming += stride;
    fill = after(fill);
  };
#pragma unroll
  for (int k = 0; k < kStripStages - 1; ++k) fetch();
  typename Work::RowStats stats{}, old_stats{};
  if (row < rows) stats = work.row_stats(row);
  typename Work::Sums sums{};
  bool waiting = false;  // the sums of the previous row are not yet received
  const auto finish = [&] {
    strip.kept = stage(before);
    place(row - stride);
    work.finish(strip, old_stats, sums, row - stride);
  };
  for (; row < rows; row += stride) {
    wait_for_copies<kStripStages - 2>();
    const typename Work::RowStats next_stats = work.row_stats(row + stride < rows ? row + stride : row);
    strip.kept = stage(now);
    place(row);
    const typename Work::Sums mine_of_row = work.visit(strip, stats);
    if (waiting) sums = total.wait();
    total.arrive(mine_of_row);
    if (waiting) finish();
    fetch();
    waiting = true;
    old_stats = stats;
    stats = next_stats;
    before = now;
    now = after(now);
  }
  if (waiting) {
    sums = total.wait();
    finish();
  }
  wait_for_copies<0>();
}

// Sums over the blocks of a row: in the cluster, or by slots in device memory. A kernel is compiled for one
// of the two, because the code for both would need too many registers beside the column sums.
template <class Work, bool kBySlots>
using StripTotal = std::conditional_t<kBySlots, TeamSum<kStripThreads, typename Work::Sums>,
                                      ClusterSum<kStripThreads, typename Work::Sums>>;

template <class Work, bool kBySlots>
static __global__ void __launch_bounds__(kStripThreads, Work::kBlocks)
    strips_kernel(typename Work::Arrays arrays, TeamSlot<typename Work::Sums>* slots, int blocks, int passes,
                  int64_t rows, int64_t columns, int width) {
  using Total = StripTotal<Work, kBySlots>;
  using S = typename Work::S;
  // Bytes, because the constructor of Space is not trivial.
  __shared__ __align__(16) unsigned char space[sizeof(typename Total::Space)];
  auto& shared = *reinterpret_cast<typename Total::Space*>(space);
  const int C = static_cast<int>(columns);
  const int64_t team = blockIdx.x / static_cast<unsigned>(blocks),
                teams = gridDim.x / static_cast<unsigned>(blocks);
  const int mine = static_cast<int>(blockIdx.x % static_cast<unsigned>(blocks));
  Total total = [&] {
    if constexpr (kBySlots) return Total(shared, slots + team * blocks, blocks, mine);
    if constexpr (!kBySlots) return Total(shared);
  }();
  cluster_sync();
  if (S::kAligned || !Work::kKeepsColumns) passes = 1;
  for (int pass = 0; pass < passes; ++pass) {
    const int64_t row = pass + passes * team;
    S strip{C, 0, 0, width, nullptr};
    strip.place(Work::result(arrays) + row * columns, mine);
    Work work(arrays, strip, columns);
    process_pass(arrays, work, strip, total, row, rows, teams * passes, columns, mine);
    work.end(strip, team * passes + pass);
  }
}

// True if one block per row would use at most half of the multiprocessors, although a row is long enough for
// several blocks.
template <class T>
bool rows_are_few(int64_t rows, int64_t C) {
  return 2 * rows <= properties(current_device()).multiprocessors &&
         C * static_cast<int64_t>(sizeof(T)) >= 16384;
}

template <class Work>
StripsPlan plan_strips(const typename Work::Arrays& arrays, int64_t rows, int64_t C) {
  using T = typename Work::Element;
  constexpr int64_t kLongest = Work::S::kVectors * kStripThreads,
                    kShortest = kStripThreads;  // most and least vectors per block
  const bool ragged =
      !Work::S::kAligned && (phase_of(Work::result(arrays)) != 0 || C % kVectorSizeOf<T> != 0);
  StripsPlan plan{{dim3(0), dim3(kStripThreads)}};
  for (int k = 0; k < Work::kInputs; ++k) {
    if (phase_of(Work::input(arrays, k)) != phase_of(Work::result(arrays))) return plan;
  }
  const int64_t vectors = vectors_of_row<T>(C, !ragged), least = ceil_div(vectors, kLongest),
                phases = ragged && Work::kKeepsColumns ? kVectorSizeOf<T> : 1;
  if (least > kStripThreads || (least > 1 && !has_teams())) return plan;
  // Sets the number of blocks per row; returns the number of teams that are resident at the same time.
  const auto share_out = [&](int64_t blocks) {
    plan.uses_slots = blocks > kMaxClusterSize;
    int64_t power = 1;  // cluster sizes are powers of two: 7 blocks were slower than 8
    while (power < blocks) power *= 2;
    if (!plan.uses_slots) blocks = power > least && power / 2 >= least && power > blocks ? power / 2 : power;
    plan.blocks = static_cast<int>(blocks);
    plan.width = static_cast<int>(ceil_div(vectors, blocks) * kVectorSizeOf<T>);
    plan.config.shared_bytes = static_cast<size_t>(plan.width) * sizeof(T) * Work::kInputs * kStripStages;
    plan.config.cluster = plan.uses_slots ? 1 : static_cast<unsigned>(blocks);
    return resident_blocks(plan.uses_slots ? strips_kernel<Work, true> : strips_kernel<Work, false>,
                           plan.config) /
           blocks;
  };
  constexpr size_t kOwn = std::max(sizeof(typename StripTotal<Work, false>::Space),
                                   sizeof(typename StripTotal<Work, true>::Space)) +
                          1024;
  constexpr size_t kMost = kLongest * 16 * Work::kInputs * kStripStages + kOwn;
  if (kMost > properties(current_device()).shared_per_block_optin) return plan;
  int64_t teams = share_out(least);
  if (has_teams() && rows < teams) {  // uses more blocks per row, as long as each block has enough columns
    const int64_t enough = ceil_div(vectors, kShortest), all = teams * plan.blocks / rows;
    teams =
        share_out(std::clamp<int64_t>(all, least, std::max(least, std::min<int64_t>(enough, kStripThreads))));
    if (teams < rows) teams = share_out(std::max<int64_t>(least, teams * plan.blocks / rows));
  }
  plan.teams = std::min(rows, teams);
  if (plan.teams < rows && plan.teams >= phases) plan.teams -= plan.teams % phases;
  if (plan.teams == 0) return plan;
  if (plan.uses_slots && plan.teams < rows) {  // adds blocks to the teams that would otherwise be unused
    const int64_t used = plan.blocks, more = std::min<int64_t>(teams * used / plan.teams, kStripThreads);
    if (share_out(more) < plan.teams) share_out(used);
  }
  plan.passes = static_cast<int>(plan.teams < rows && plan.teams < phases ? phases : 1);
  plan.config.cooperative = plan.uses_slots;
  plan.config.grid.x = static_cast<unsigned>(plan.teams * plan.blocks);
  return plan;
}
template <class Work>
void launch_strips(const StripsPlan& plan, const typename Work::Arrays& arrays, int64_t rows, int64_t C) {
  using Slot = TeamSlot<typename Work::Sums>;
  const DeviceScratch<Slot> slots(plan.uses_slots ? plan.config.grid.x : 0);
  if (plan.uses_slots) fill_bytes(slots.data(), 0, plan.config.grid.x * sizeof(Slot), current_device());
  launch(plan.uses_slots ? strips_kernel<Work, true> : strips_kernel<Work, false>, plan.config, arrays,
         slots.data(), plan.blocks, plan.passes, rows, C, plan.width);
}
// Launches the kernel; returns false if the plan has no teams.
template <class Work>
bool try_strips(const typename Work::Arrays& arrays, int64_t rows, int64_t C) {
  const StripsPlan plan = plan_strips<Work>(arrays, rows, C);
  if (plan.teams > 0) launch_strips<Work>(plan, arrays, rows, C);
  return plan.teams > 0;
}
template <template <class, bool> class Work, class T>
bool try_strips(const typename Work<T, true>::Arrays& arrays, int64_t rows, int64_t C, bool aligned) {
  return aligned ? try_strips<Work<T, true>>(arrays, rows, C) : try_strips<Work<T, false>>(arrays, rows, C);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
