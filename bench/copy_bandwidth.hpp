// Memory bandwidth of a copy and of STREAM's triad, measured in the same program as the work that is compared
// with it.
#pragma once

#include <algorithm>
#include <cstring>
#include <tinytorch/benchmarking/measure.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/core/simd_stream.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace bench {

// Bytes per second, read plus written, of a copy of n floats by all threads; the median of 9 copies.
inline double copy_bytes_per_second(int64_t n) {
  const tinytorch::Tensor from = tinytorch::ones({n}), to = tinytorch::zeros({n});
  const auto copy = [&] {
    tinytorch::parallel_for(n, 65536, [&](int64_t begin, int64_t end) {
      std::memcpy(to.data<float>() + begin, from.data<float>() + begin, static_cast<size_t>(end - begin) * 4);
    });
  };
  return 8.0 * static_cast<double>(n) /
         tinytorch::statistics::median(tinytorch::benchmarking::time_calls(copy, 9));
}

// STREAM's triad, a = b + s c, on n floats by all threads: 12 bytes per element. Plain stores and
// non-temporal stores are both tried, and the faster counts. The object owns the vectors, so that a program
// can alternate measurements of the triad with those of its own work.
class Triad {
 public:
  explicit Triad(int64_t n)
      : n_(n), a_(tinytorch::zeros({n})), b_(tinytorch::ones({n})), c_(tinytorch::ones({n})) {}

  // The better of two medians, each of 5 runs with one kind of store.
  double bytes_per_second() const {
    double best = 0;
    for (const bool streamed : {false, true}) {
      const auto times = tinytorch::benchmarking::time_calls([&] { run(streamed); }, 5);
      best = std::max(best, 12.0 * static_cast<double>(n_) / tinytorch::statistics::median(times));
    }
    return best;
  }

 private:
  void run(bool streamed) const {
    float* const a = a_.data<float>();
    const float *const b = b_.data<float>(), *const c = c_.data<float>();
    tinytorch::parallel_for(n_, 65536, [=](int64_t begin, int64_t end) {
      if (!streamed) {
        TT_SIMD
        for (int64_t i = begin; i < end; ++i) a[i] = b[i] + 3.0f * c[i];
        return;
      }
      constexpr int64_t kPiece = 128;
      alignas(64) float piece[kPiece];
      for (int64_t i = begin; i < end; i += kPiece) {
        const int64_t m = std::min(kPiece, end - i);
        TT_SIMD
        for (int64_t k = 0; k < m; ++k) piece[k] = b[i + k] + 3.0f * c[i + k];
        tinytorch::stream_copy(a + i, piece, 4 * m);
      }
      tinytorch::stream_fence();
    });
  }

  int64_t n_;
  tinytorch::Tensor a_, b_, c_;
};

}  // namespace bench
