// Strips: rows that are visited twice but too long for the registers of one block, cut into pieces of up to
// 32 KiB. A piece is held by one block; the blocks of a row form a cluster.
//
// A cluster walks many rows. While the sums of one row go round the cluster the block is at work on the row
// before it, and the rows after it are on their way from memory: nobody waits for a barrier or for memory
// alone. What is done with the rows is a Work (NormGradStrips, SoftmaxGradStrips):
//
//   struct Work {
//     using Element, Arrays;                  what rows hold; the kernel's argument
//     using Sums;                             what the first visit finds: Sums + Sums
//     using Facts;                            numbers that belong to a row, read one row ahead
//     static constexpr int kInputs;           arrays of rows that are read
//     Work(const Arrays&, const Strip&, int64_t C);
//     static const Element* input(const Arrays&, int k);
//     Facts facts(int64_t row);
//     Sums visit(const Strip&, const Facts&);
//     void finish(const Strip&, const Facts&, const Sums&, int64_t row);
//     void end(const Strip&);                 after the last row
//   };
#pragma once

#include <algorithm>
#include <tinytorch/backend/cuda/async_copy.cuh>
#include <tinytorch/backend/cuda/cluster.cuh>
#include <tinytorch/backend/cuda/row.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kStripVectors = 4;  // of 16 bytes a thread
inline constexpr int kStripThreads = 512;
inline constexpr int kStripStages = 3;  // rows on the block: finished, visited, fetched

// This block's columns of a row, with kInputs arrays of it in shared memory. A thread reads what it fetched
// itself, so no barrier is needed.
template <class T, int kInputs>
struct Strip {
  static constexpr int kWide = kWideOf<T>;
  using A = Wide<T>;
  int64_t first;       // column
  int columns, width;  // of this block, of every block but the last
  const T* kept;       // kInputs times `width` elements; null before a row is there

  // Column of this thread's vector number v, counted from the strip's first.
  static __device__ __forceinline__ int column(int v) {
    return (v * kStripThreads + static_cast<int>(threadIdx.x)) * kWide;
  }
  // f(v) for each of this thread's vectors.
  template <class F>
  __device__ __forceinline__ void each_vector(F&& f) const {
#pragma unroll
    for (int v = 0; v < kStripVectors; ++v) {
      if (column(v) < columns) f(v);
    }
  }
  // f(v, elements of each input)
  template <class F>
  __device__ __forceinline__ void each(F&& f) const {
    each_vector([&](int v) {
      A x[kInputs][kWide];
#pragma unroll
      for (int k = 0; k < kInputs; ++k) load(x[k], kept + k * width + column(v));
      f(v, x);
    });
  }
};

// A Work that needs no numbers and leaves nothing behind.
struct PlainStripWork {
  struct Facts {};
  static __device__ __forceinline__ Facts facts(int64_t) { return {}; }
  template <class S>
  static __device__ __forceinline__ void end(const S&) {}
};

template <class Work>
static __global__ void __launch_bounds__(kStripThreads)
    walk_strips(typename Work::Arrays arrays, int64_t rows, int64_t C, int width) {
  using T = typename Work::Element;
  using Sums = ClusterSum<kStripThreads, typename Work::Sums>;
  using S = Strip<T, Work::kInputs>;
  __shared__ typename Sums::Space space;
  Sums total(space);
  const auto blocks = static_cast<unsigned>(blocks_of_cluster());
  const int64_t first = static_cast<int64_t>(block_of_cluster()) * width;
  S strip{first, static_cast<int>(std::min<int64_t>(width, C - first)), width, nullptr};
  Work work(arrays, strip, C);
  const int64_t stride = gridDim.x / blocks;
  int64_t row = blockIdx.x / blocks, coming = row;
  int fill = 0, now = 0, before = 0;  // stages
  const auto after = [](int stage) { return stage + 1 == kStripStages ? 0 : stage + 1; };
  const auto stage = [&](int s) { return dynamic_shared<T>() + s * Work::kInputs * width; };
  const auto fetch = [&] {
    if (coming < rows) {
      strip.each_vector([&](int v) {
#pragma unroll
        for (int k = 0; k < Work::kInputs; ++k) {
          const int c = S::column(v);
          copy_async(shared_address(stage(fill) + k * width + c),
                     Work::input(arrays, k) + coming * C + first + c, true);
        }
      });
    }
    commit_copies();
    coming += stride;
    fill = after(fill);
  };
#pragma unroll
  for (int k = 0; k < kStripStages - 1; ++k) fetch();
  typename Work::Facts facts = work.facts(row), old_facts{};
  typename Work::Sums sums{};
  const auto finish = [&](int64_t of) {
    if (of < 0) return;
    strip.kept = stage(before);
    work.finish(strip, old_facts, sums, of);
  };
  wait_for_cluster();
  for (; row < rows; row += stride) {
    wait_for_copies<kStripStages - 2>();
    const typename Work::Facts next_facts = work.facts(row + stride < rows ? row + stride : row);
    strip.kept = stage(now);
    total.give(work.visit(strip, facts));
    finish(row - stride);
    fetch();
    sums = total.take();
    old_facts = facts;
    facts = next_facts;
    before = now;
    now = after(now);
  }
  finish(row - stride);
  work.end(strip);
}

// How rows of C elements are shared out; without clusters where rows are too long, or the device has too
// little shared memory.
struct StripsPlan {
  LaunchConfig config;
  int width = 0;         // columns of a strip
  int64_t clusters = 0;  // that walk the rows
};
template <class Work>
StripsPlan plan_strips(int64_t rows, int64_t C) {
  constexpr int64_t kWide = kWideOf<typename Work::Element>, kLongest = kStripVectors * kStripThreads;
  const int64_t vectors = divided_up(C, kWide);
  int64_t blocks = 1;  // a power of two: 7 blocks were slower than 8
  while (blocks <= kMaxCluster && blocks * kLongest < vectors) blocks *= 2;
  const int64_t width = divided_up(vectors, blocks) * kWide;
  const size_t shared =
      static_cast<size_t>(width) * sizeof(typename Work::Element) * Work::kInputs * kStripStages;
  StripsPlan plan{{dim3(0), dim3(kStripThreads), shared, static_cast<unsigned>(blocks)},
                  static_cast<int>(width)};
  const bool fits = shared + 4096 <= properties(current_device()).shared_per_block_optin;
  if (!fits || blocks > kMaxCluster || (blocks > 1 && !has_clusters())) return plan;
  plan.clusters = std::min(rows, resident_blocks(walk_strips<Work>, plan.config) / blocks);
  plan.config.grid.x = static_cast<unsigned>(plan.clusters * blocks);
  return plan;
}
template <class Work>
void launch_strips(const StripsPlan& plan, const typename Work::Arrays& arrays, int64_t rows, int64_t C) {
  launch(walk_strips<Work>, plan.config, arrays, rows, C, plan.width);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
