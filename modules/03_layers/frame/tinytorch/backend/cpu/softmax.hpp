// Softmax, its logarithm and log-sum-exp on the CPU, with gradients, along any dimension.
//
// The frame of a course header: it has the given parts, and includes the functions of task 3.3.
#pragma once

#include <tinytorch/backend/view.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// All operands of one shape and floating dtype; out, y and dx, dy may be the same memory.
TT_API void softmax(const View& out, const View& x, int dim);
TT_API void log_softmax(const View& out, const View& x, int dim);
TT_API void softmax_grad(const View& dx, const View& dy, const View& y, int dim);
TT_API void log_softmax_grad(const View& dx, const View& dy, const View& y, int dim);
// out = log(sum(exp(x))) over the dimensions d with reduced[d]; out holds the others in order.
TT_API void logsumexp(const View& out, const View& x, const bool* reduced);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(BACKEND) || defined(TINYTORCH_TASK)
#include <cmath>
#include <limits>
#include <tinytorch/backend/cpu/loops/contiguous.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// --- One row of n values side by side. T is float or double.
// ---------------------------------------------------

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#include <tasks/backend/cpu/softmax.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// --- All rows of a tensor
// --------------------------------------------------------------------------------------

// f(out, a, b, n) on each row along `dim`, copied together where its values are `inner` apart. b may be
// absent.
template <class T, class F>
void for_each_softmax_row(const View& out, const View& a, const View& b, int dim, F&& f) {
  if (out.numel() == 0) return;
  const ContiguousInput<T> first(a), second(b);
  ContiguousOutput<T> result(out);
  const int64_t n = out.shape[dim];
  int64_t inner = 1;
  for (int d = dim + 1; d < out.rank(); ++d) inner *= out.shape[d];
  std::vector<T> in(static_cast<size_t>(n)), in_b(in.size()), to(in.size());
  for (int64_t row = 0; row < out.numel() / n; ++row) {
    const int64_t start = row / inner * n * inner + row % inner;
    for (int64_t i = 0; i < n; ++i) {
      in[static_cast<size_t>(i)] = first.data()[start + i * inner];
      if (b.data) in_b[static_cast<size_t>(i)] = second.data()[start + i * inner];
    }
    f(to.data(), in.data(), in_b.data(), n);
    for (int64_t i = 0; i < n; ++i) result.data()[start + i * inner] = to[static_cast<size_t>(i)];
  }
  result.write_back();
}

TT_API void softmax(const View& out, const View& x, int dim) {
  dispatch_floating(x.dtype, [&]<class T>(T*) {
    for_each_softmax_row<T>(out, x, {}, dim,
                            [](T* to, const T* in, const T*, int64_t n) { softmax_of_row(to, in, n); });
  });
}
TT_API void log_softmax(const View& out, const View& x, int dim) {
  dispatch_floating(x.dtype, [&]<class T>(T*) {
    for_each_softmax_row<T>(out, x, {}, dim,
                            [](T* to, const T* in, const T*, int64_t n) { log_softmax_of_row(to, in, n); });
  });
}
TT_API void softmax_grad(const View& dx, const View& dy, const View& y, int dim) {
  dispatch_floating(dx.dtype,
                    [&]<class T>(T*) { for_each_softmax_row<T>(dx, dy, y, dim, softmax_grad_of_row<T>); });
}
TT_API void log_softmax_grad(const View& dx, const View& dy, const View& y, int dim) {
  dispatch_floating(
      dx.dtype, [&]<class T>(T*) { for_each_softmax_row<T>(dx, dy, y, dim, log_softmax_grad_of_row<T>); });
}

TT_API void logsumexp(const View& out, const View& x, const bool* reduced) {
  View rows{x.data, x.dtype, {}, {}};  // x with the reduced dimensions last
  int64_t n = 1;
  for (const bool last : {false, true}) {
    for (int d = 0; d < x.rank(); ++d) {
      if (reduced[d] != last) continue;
      rows.shape.push_back(x.shape[d]);
      rows.strides.push_back(x.strides[d]);
      if (last) n *= x.shape[d];
    }
  }
  dispatch_floating(x.dtype, [&]<class T>(T*) {
    const ContiguousInput<T> in(rows);
    ContiguousOutput<T> to(out);
    for (int64_t r = 0; r < out.numel(); ++r) to.data()[r] = logsumexp_of_row(in.data() + r * n, n);
    to.write_back();
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
