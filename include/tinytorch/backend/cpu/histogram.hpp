// Counts of values in bins of equal width on the CPU, in one pass.
#pragma once

#include <tinytorch/backend/view.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// counts i64 [bins], contiguous: the number of x's values (floating) in each bin from low to high; `high`
// belongs to the last bin. Values outside and NaN are not counted. low < high.
TT_API void count_bins(const View& counts, const View& x, double low, double high);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(BACKEND)
#include <algorithm>
#include <mutex>
#include <tinytorch/backend/cpu/loops/contiguous.hpp>
#include <tinytorch/core/parallel.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// The numbers of bins are computed for a chunk first, in a loop that vectorizes; -1 is outside. Each thread
// has counts of its own.
template <class T>
void count_bins_as(int64_t* counts, int64_t bins, const T* x, int64_t n, double low, double high) {
  constexpr int64_t kGrain = int64_t{1} << 16, kChunk = 1024;
  const auto width = static_cast<double>(bins);
  std::mutex adding;
  parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
    std::vector<int64_t> mine(static_cast<size_t>(bins));
    double place[kChunk];
    for (int64_t i = begin; i < end; i += kChunk) {
      const int64_t m = std::min(kChunk, end - i);
      TT_SIMD
      for (int64_t k = 0; k < m; ++k) {
        const auto v = static_cast<double>(x[i + k]);
        place[k] = v >= low && v <= high ? (v - low) * width / (high - low) : -1.0;
      }
      for (int64_t k = 0; k < m; ++k) {
        if (place[k] >= 0) ++mine[static_cast<size_t>(std::min(static_cast<int64_t>(place[k]), bins - 1))];
      }
    }
    const std::lock_guard lock(adding);
    for (int64_t b = 0; b < bins; ++b) counts[b] += mine[static_cast<size_t>(b)];
  });
}

TT_API void count_bins(const View& counts, const View& x, double low, double high) {
  auto* const out = counts.as<int64_t>();
  std::fill(out, out + counts.numel(), int64_t{0});
  dispatch_floating(x.dtype, [&]<class T>(T*) {
    const ContiguousInput<T> values(x);
    count_bins_as<T>(out, counts.numel(), values.data(), x.numel(), low, high);
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
