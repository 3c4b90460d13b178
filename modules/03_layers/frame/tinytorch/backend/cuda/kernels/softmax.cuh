// Softmax, its logarithm and log-sum-exp, along any dimensions (contracts: backend/cpu/softmax.hpp).
//
// The frame of a course header: it has the given parts, and includes the functions of task 3.21.
#pragma once

#include <limits>
#include <tinytorch/backend/cuda/device/collective.cuh>
#include <tinytorch/backend/cuda/device/elements.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// Threads that share a line: few for a short one, to whom joining costs more than a visit.
inline constexpr int kShortThreads = 64, kLongThreads = 1024;
inline constexpr int64_t kLongLine = 2048;

// Some elements of a line: m is the largest, s the sum of e^(x - m). An empty line has m = -infinity, s = 0.
template <class C>
struct RunningSum {
  C m, s;
  static __device__ RunningSum empty() { return {-std::numeric_limits<C>::infinity(), C(0)}; }
};

template <class C>
__device__ RunningSum<C> join(RunningSum<C> a, RunningSum<C> b);

// The operation of block_reduce: it joins two running sums.
struct Join {
  template <class C>
  __device__ RunningSum<C> operator()(RunningSum<C> a, RunningSum<C> b) const {
    return join(a, b);
  }
};

// Lines of a tensor: elements that differ in some dimensions only. Element e of line i lies at
// start.place(i) + along.place(e).
template <class C>
struct SoftmaxLines {
  Elements<C> start, along;  // the tensor's other dimensions, and these
  SoftmaxLines(const View& x, const bool* reduced)
      : start(part(x, reduced, false)), along(part(x, reduced, true)) {}

 private:
  static Elements<C> part(const View& x, const bool* reduced, bool which) {
    View v{x.data, x.dtype, {}, {}};
    for (int d = 0; d < x.rank(); ++d) {
      if (reduced[d] != which) continue;
      v.shape.push_back(x.shape[d]);
      v.strides.push_back(x.strides[d]);
    }
    return Elements<C>(v);
  }
};

// Returns true if the lines can be read and written four elements at a time.
inline bool moves_wide(const View& v, int64_t length) {
  return v.contiguous() && length % 4 == 0 && reinterpret_cast<uintptr_t>(v.data) % 16 == 0;
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda

#include <tasks/backend/cuda/kernels/softmax.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

void softmax(const View& out, const View& x, int dim) { run_softmax(out, x, dim, false); }
void log_softmax(const View& out, const View& x, int dim) { run_softmax(out, x, dim, true); }

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
