// Loops of losses whose elements depend on one element of x and one of the target each.
//
// Sums are over chunks of fixed size, whose sums are added in double, so they do not depend on the number of
// threads.
#pragma once

#include <algorithm>
#include <tinytorch/backend/cpu/elementwise.hpp>
#include <tinytorch/backend/cpu/loops/contiguous.hpp>
#include <tinytorch/backend/cpu/loops/runs.hpp>
#include <tinytorch/backend/parameters.hpp>
#include <tinytorch/core/parallel.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend::cpu {

inline constexpr int64_t kPairLossGrain = 16384, kPairLossChunk = 512;

// loss [] or, for LossReduction::none, of x's shape, from value(x, t).
template <class T, class Value>
void pair_loss(Value value, const View& loss, const View& x, const View& target, LossReduction reduction) {
  const ContiguousInput<T> a(x), b(target);
  const int64_t n = x.numel();
  const auto loop = [&](T* out, int64_t i, int64_t count) {
    const T *of_x = a.data() + i, *of_target = b.data() + i;
    TT_SIMD
    for (int64_t k = 0; k < count; ++k) out[k] = value(of_x[k], of_target[k]);
  };
  if (reduction == LossReduction::none) {
    ContiguousOutput<T> out(loss);
    parallel_for(n, kPairLossGrain,
                 [&](int64_t begin, int64_t end) { loop(out.data() + begin, begin, end - begin); });
    return out.write_back();
  }
  const int64_t chunks = ceil_div(n, kPairLossChunk);
  std::vector<double> partial(static_cast<size_t>(chunks));
  parallel_for(chunks, kPairLossGrain / kPairLossChunk, [&](int64_t begin, int64_t end) {
    T values[kPairLossChunk];
    for (int64_t c = begin; c < end; ++c) {
      const int64_t i = c * kPairLossChunk, m = std::min(kPairLossChunk, n - i);
      loop(values, i, m);
      partial[static_cast<size_t>(c)] = static_cast<double>(sum_run(values, m));
    }
  });
  double total = 0;
  for (const double v : partial) total += v;
  fill(loss, reduction == LossReduction::mean ? total / static_cast<double>(n) : total);
}

// out = slope(x, t) times `grad`, the gradient of the loss, of its shape. An `out` without data is not
// computed.
template <class T, class Slope>
void pair_loss_grad(Slope slope, const View& out, const View& grad, const View& x, const View& target,
                    LossReduction reduction) {
  if (!out.data || out.numel() == 0) return;
  const ContiguousInput<T> a(x), b(target), g(grad);
  ContiguousOutput<T> to(out);
  const T scale = reduction == LossReduction::mean ? T(1) / static_cast<T>(x.numel()) : T(1);
  const T common = reduction == LossReduction::none ? T(1) : scale * g.data()[0];
  parallel_for(x.numel(), kPairLossGrain, [&](int64_t begin, int64_t end) {
    const T *of_x = a.data(), *of_target = b.data(), *each = g.data();
    T* const result = to.data();
    if (reduction == LossReduction::none) {
      TT_SIMD
      for (int64_t i = begin; i < end; ++i) result[i] = slope(of_x[i], of_target[i]) * each[i];
    } else {
      TT_SIMD
      for (int64_t i = begin; i < end; ++i) result[i] = slope(of_x[i], of_target[i]) * common;
    }
  });
  to.write_back();
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
