// Losses, each fused with what precedes it, and their gradients (contracts and formulas:
// backend/cpu/loss.hpp).
//
//   cross_entropy   l = (1 - s) (lse - x_t) + s (lse - mean(x)),  lse = log sum_j e^(x_j),  s label smoothing
//                   dl/dx_j = e^(x_j - lse) - (1 - s) [j = t] - s / V
//
// With separate ops (softmax, logarithm, pick, and their derivatives), the logits [N, V], the largest tensor
// of a language model, go through memory seven times. Here a block computes the loss of a row and its
// gradient, which takes the place of the logits.
//
// Task 3.22: cross_entropy_kernel, cross_entropy_grad_kernel, cross_entropy_with_grad. The given parts of
// this header are in modules/03_layers/frame/tinytorch/backend/cuda/kernels/loss.cuh, which includes this
// file.
#pragma once

namespace tinytorch::inline TT_BUILD::backend::cuda {

// Row n = blockIdx.x of the logits: losses[n], lse[n], and, where dx exists, its gradient for the gradient
// `grad` of the loss. dx may be the memory of the logits.
//
// Steps, by the whole block: m, the largest logit, and the sum of e^(x - m), in one pass as in online
// softmax: each thread's own m and sum first, then all m by block_reduce (Maximum(), so that NaN is seen) and
// all sums, scaled to the block's m. The sum of x too, if there is smoothing. Then lse = m + log(sum), and
// dx, which needs both. The first thread alone writes losses[n] and lse[n], and reads the target's logit
// before others may put dx in its place: a barrier stands between. A row that does not count has loss 0 and
// gradient 0, but its lse is written.
//
// Traps: lse - x_t is formed as log(sum) - (x_t - m), or logits near 10000 lose all digits of a small loss;
// what is NaN in a row that does not count must not reach dx (0 times NaN is NaN).
template <class C>
static __global__ void __launch_bounds__(kLossThreads)
    cross_entropy_kernel(C* losses, C* lse, const __grid_constant__ Elements<C> dx,
                         const __grid_constant__ Elements<C> logits,
                         const __grid_constant__ CrossEntropyCall<C> call, C grad) {
  constexpr C kNone = -std::numeric_limits<C>::infinity();
  const int64_t n = blockIdx.x, V = call.V, t = call.target_of(n);
  const int64_t from = logits.place(n * V);
  C own = kNone, sum = 0, plain = 0;
  for (int64_t j = threadIdx.x; j < V; j += kLossThreads) {
    const C x = logits.read(from + j * logits.step);
    plain += x;
    if (x == kNone) continue;
    if (x <= own) {
      sum += std::exp(x - own);
    } else {  // also where x is NaN
      sum = sum * std::exp(own - x) + C(1) + (x - x);
      own = x;
    }
  }
  const C m = block_reduce<kLossThreads>(own, Maximum());
  sum = block_reduce<kLossThreads>(own == kNone ? C(0) : sum * std::exp(own - m), Sum());
  if (m == kNone) sum = std::numeric_limits<C>::quiet_NaN();  // 0 / 0
  if (call.smoothing != C(0)) plain = block_reduce<kLossThreads>(plain, Sum());
  if (threadIdx.x == 0) {
    lse[n] = m + std::log(sum);
    losses[n] = 0;
    if (t >= 0) {
      const C by_target = std::log(sum) - (logits.read(from + t * logits.step) - m);
      const C by_all = std::log(sum) - (plain / static_cast<C>(V) - m);
      losses[n] =
          call.smoothing == C(0) ? by_target : (C(1) - call.smoothing) * by_target + call.smoothing * by_all;
    }
  }
  if (!dx.exists()) return;
  __syncthreads();  // the target's logit has been read
  const int64_t to_ = dx.place(n * V);
  const C weight = grad * call.share();
  for (int64_t j = threadIdx.x; j < V; j += kLossThreads) {
    const C p = std::exp(logits.read(from + j * logits.step) - m) / sum;
    const C hot = j == t ? C(1) - call.smoothing : C(0);
    const C slope = p - hot - call.smoothing / static_cast<C>(V);
    dx.write(to_ + j * dx.step, t >= 0 ? weight * slope : C(0));
  }
}

// dx of row blockIdx.x from the lse of its forward visit, for the gradient grad[n] of its loss (or grad[0] of
// all: `each` is 1 or 0).
template <class C>
static __global__ void __launch_bounds__(kLossThreads)
    cross_entropy_grad_kernel(const __grid_constant__ Elements<C> dx,
                              const __grid_constant__ Elements<C> grad, int64_t each,
                              const __grid_constant__ Elements<C> logits,
                              const __grid_constant__ CrossEntropyCall<C> call, const C* lse) {
  const int64_t n = blockIdx.x, V = call.V, t = call.target_of(n);
  const int64_t from = logits.place(n * V), to_ = dx.place(n * V);
  const C weight = grad.read(n * each * grad.step) * call.share();
  for (int64_t j = threadIdx.x; j < V; j += kLossThreads) {
    const C p = std::exp(logits.read(from + j * logits.step) - lse[n]);
    const C hot = j == t ? C(1) - call.smoothing : C(0);
    const C slope = p - hot - call.smoothing / static_cast<C>(V);
    dx.write(to_ + j * dx.step, t >= 0 ? weight * slope : C(0));
  }
}

// loss and lse, and dx, for the gradient `grad` of the loss, if dx has data. Count the targets (UsedTargets),
// make a block per row, then finish_loss_kernel.
void cross_entropy_with_grad(const View& loss, const View& lse, const View& dx, const View& logits,
                             const View& target, const CrossEntropyParameters& parameters, double grad) {
  const int64_t N = logits.shape[0];
  dispatch_floating(logits.dtype, [&]<class C>(C*) {
    const UsedTargets used(target, parameters);
    const DeviceScratch<C> losses(N);
    launch(cross_entropy_kernel<C>, loss_grid(N), losses.data(), lse.as<C>(), Elements<C>(dx),
           Elements<C>(logits), CrossEntropyCall<C>(logits, target, parameters, used.data()),
           static_cast<C>(grad));
    launch(finish_loss_kernel<C>, {dim3(1), dim3(kLossThreads)}, Elements<C>(loss), losses.data(), N,
           used.data(), 1.0, parameters.reduction == LossReduction::none);
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
