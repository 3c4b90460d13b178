// Strips: rows that are visited twice but too long for the registers of one block, or too few to keep the
// device busy with a block each, cut into pieces of some 16 KiB. A piece is held by one block; the blocks of
// a row form a cluster, or a team where those are too small.
//
// A team walks many rows. While the sums of one row go round, the block is at work on the row before it, and
// the rows after it are on their way from memory: nobody waits for a barrier or for memory alone. Ragged rows
// (row.cuh) are walked by phases where a thread has to keep its columns through a pass. What is done with the
// rows is a Work (NormGradStrips, SoftmaxGradStrips):
//
//   struct Work {
//     using Element, Arrays;                  what rows hold; the kernel's argument
//     using Sums;                             what the first visit finds: Sums + Sums; Sums() adds nothing
//     using RowStats;                            numbers that belong to a row, read one row ahead
//     static constexpr int kInputs;           arrays of rows that are read
//     using S;                                a Strip; whether rows are aligned
//     static constexpr int kBlocks;           of a multiprocessor
//     static constexpr bool kKeepsColumns;    whether all rows of a pass have the strip's columns at the same
//     places static Element fill();                  what is read outside of a ragged row Work(const Arrays&,
//     const Strip&, int64_t C);       before each pass static const Element* input(const Arrays&, int k);
//     static const Element* result(const Arrays&);        where rows begin that are written
//     RowStats row_stats(int64_t row);
//     Sums visit(const Strip&, const RowStats&);
//     void finish(const Strip&, const RowStats&, const Sums&, int64_t row);
//     void end(const Strip&, int64_t line);   after a pass; numbers of passes are unique
//   };
#pragma once

#include <algorithm>
#include <tinytorch/backend/cuda/device/async_copy.cuh>
#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/device/row.cuh>
#include <tinytorch/backend/cuda/device/team.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kStripThreads = 512;
inline constexpr int kStripStages = 3;  // rows on the block: finished, visited, fetched

// This block's columns of a row, with kInputs arrays of it in shared memory. A thread reads what it fetched
// itself, so no barrier is needed.
template <class T, int kInputs, int kStripVectors, bool kIsAligned>
struct Strip {
  static constexpr int kVectorSize = kVectorSizeOf<T>, kVectors = kStripVectors;
  static constexpr bool kAligned = kIsAligned;
  using A = Compute<T>;
  int C, first;  // columns of the row; the strip's first, below 0 where a word is shared with another row
  int columns, width;  // from there on in the row; room for them
  const T* kept;       // kInputs times `width` elements; null before a row is there

  // Becomes strip number `mine` of the row that begins at `result`.
  __device__ __forceinline__ void place(const T* result, int mine) {
    first = mine * width - (kAligned ? 0 : phase_of(result));
    columns = std::min(width, C - first);
  }
  // Column of this thread's vector number v, counted from the strip's first.
  static __device__ __forceinline__ int column(int v) {
    return (v * kStripThreads + static_cast<int>(threadIdx.x)) * kVectorSize;
  }
  __device__ __forceinline__ bool holds(int v, int k) const {
    return kAligned || is_inside(first + column(v) + k, C);
  }
  // f(v) for each of this thread's vectors.
  template <class F>
  __device__ __forceinline__ void each_vector(F&& f) const {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (column(v) < columns) f(v);
    }
  }
  // f(v, elements of each input)
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
  // Another line's part at the columns of vector v.
  __device__ __forceinline__ uint4 vector_at_same_columns(const T* line, int v) const {
    if constexpr (kAligned) return *reinterpret_cast<const uint4*>(line + first + column(v));
    return load_unaligned_vector(line, first + column(v), C, T{});
  }
  __device__ __forceinline__ void read_same_columns(A (&out)[kVectorSize], const T* line, int v) const {
    const uint4 word = vector_at_same_columns(line, v);
    load(out, reinterpret_cast<const T*>(&word));
  }
};
// What a thread keeps of a line that belongs to the columns: its part of a weight.
template <class S, class T>
struct StripLine {
  uint4 word[S::kVectors];
  __device__ __forceinline__ void read(const S& strip, const T* line) {
    strip.each_vector([&](int v) { word[v] = strip.vector_at_same_columns(line, v); });
  }
  template <class A, int kVectorSize>
  __device__ __forceinline__ void get(int v, A (&out)[kVectorSize]) const {
    load(out, reinterpret_cast<const T*>(&word[v]));
  }
};

// A Work that needs no numbers and leaves nothing behind.
struct PlainStripWork {
  struct RowStats {};
  static constexpr bool kKeepsColumns = false;
  static __device__ __forceinline__ RowStats row_stats(int64_t) { return {}; }
  template <class S>
  static __device__ __forceinline__ void end(const S&, int64_t) {}
};

// How rows of C elements are shared out; without teams where rows are too long, operands begin at different
// phases, or the device has neither clusters nor enough shared memory.
struct StripsPlan {
  LaunchConfig config;
  int width = 0;            // columns of a strip
  int blocks = 1;           // of a team
  int64_t teams = 0;        // that walk the rows
  int passes = 1;           // over the rows: row r belongs to pass r % passes
  bool uses_slots = false;  // whether they meet in device memory
};

// Queues this thread's part of a row of each input for its place in shared memory.
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

// Rows `row`, row + stride ... of a team.
template <class Work, class Total>
__device__ __forceinline__ void process_pass(const typename Work::Arrays& arrays, Work& work,
                                             typename Work::S& strip, Total& total, int64_t row, int64_t rows,
                                             int64_t stride, int64_t columns, int mine) {
  int fill = 0, now = 0, before = 0;  // stages
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
  bool waiting = false;  // for the sums of the row before
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

// How the blocks of a row add up their sums: in the cluster that they are, or by slots in device memory. A
// kernel knows one of the two, for both together would not leave registers for the columns' sums.
template <class Work, bool kBySlots>
using StripTotal = std::conditional_t<kBySlots, TeamSum<kStripThreads, typename Work::Sums>,
                                      ClusterSum<kStripThreads, typename Work::Sums>>;

template <class Work, bool kBySlots>
static __global__ void __launch_bounds__(kStripThreads, Work::kBlocks)
    strips_kernel(typename Work::Arrays arrays, TeamSlot<typename Work::Sums>* slots, int blocks, int passes,
                  int64_t rows, int64_t columns, int width) {
  using Total = StripTotal<Work, kBySlots>;
  using S = typename Work::S;
  __shared__ __align__(16) unsigned char space[sizeof(typename Total::Space)];  // its type is not trivial
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

// Whether rows keep but a part of the device busy by a block each, though they are worth several.
template <class T>
bool rows_are_few(int64_t rows, int64_t C) {
  return 2 * rows <= properties(current_device()).multiprocessors &&
         C * static_cast<int64_t>(sizeof(T)) >= 16384;
}

template <class Work>
StripsPlan plan_strips(const typename Work::Arrays& arrays, int64_t rows, int64_t C) {
  using T = typename Work::Element;
  constexpr int64_t kLongest = Work::S::kVectors * kStripThreads,
                    kShortest = kStripThreads;  // vectors of a block
  const bool ragged =
      !Work::S::kAligned && (phase_of(Work::result(arrays)) != 0 || C % kVectorSizeOf<T> != 0);
  StripsPlan plan{{dim3(0), dim3(kStripThreads)}};
  for (int k = 0; k < Work::kInputs; ++k) {
    if (phase_of(Work::input(arrays, k)) != phase_of(Work::result(arrays))) return plan;
  }
  const int64_t vectors = vectors_of_row<T>(C, !ragged), least = ceil_div(vectors, kLongest),
                phases = ragged && Work::kKeepsColumns ? kVectorSizeOf<T> : 1;
  if (least > kStripThreads || (least > 1 && !has_teams())) return plan;
  // Sets how many blocks share a row; returns how many teams of them run at once.
  const auto share_out = [&](int64_t blocks) {
    plan.uses_slots = blocks > kMaxClusterSize;
    int64_t power = 1;  // of a cluster: 7 blocks were slower than 8
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
  if (has_teams() && rows < teams) {  // several times as many blocks, while each has something to do
    const int64_t enough = ceil_div(vectors, kShortest), all = teams * plan.blocks / rows;
    teams =
        share_out(std::clamp<int64_t>(all, least, std::max(least, std::min<int64_t>(enough, kStripThreads))));
    if (teams < rows) teams = share_out(std::max<int64_t>(least, teams * plan.blocks / rows));
  }
  plan.teams = std::min(rows, teams);
  if (plan.teams < rows && plan.teams >= phases) plan.teams -= plan.teams % phases;
  if (plan.teams == 0) return plan;
  if (plan.uses_slots && plan.teams < rows) {  // what would be left over helps
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
// False where the plan has no teams.
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
