// Losses and their gradients (contracts and formulas: backend/cpu/loss.hpp).
//
// cross_entropy_with_grad computes loss and gradient with one read of the logits (rows/cross_entropy.cuh).
// The losses of the rows go to scratch memory and are added in a fixed order, in double. In cross_entropy, a
// block reads each row that is longer than registers hold. Limit: memory bandwidth.
#pragma once

#include <algorithm>
#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/kernels/pair_loss.cuh>
#include <tinytorch/backend/cuda/kernels/reduce.cuh>
#include <tinytorch/backend/cuda/kernels/rows/cross_entropy.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kLossThreads = 1024;

// Online softmax state and sum of a row that a block reads once.
template <class T>
__device__ __forceinline__ LogitRow<T> measure_row(const T* row, int V, bool with_sum) {
  using A = Compute<T>;
  constexpr int kVectorSize = kVectorSizeOf<T>;
  OnlineSoftmax<A> sum;
  A plain = 0;
#pragma unroll 2
  for (int c = static_cast<int>(threadIdx.x) * kVectorSize - phase_of(row); c < V;
       c += kLossThreads * kVectorSize) {
    A v[kVectorSize];
    const uint4 word = load_aligned_vector(row, c, V, to<T>(kMinusInfinity<A>));
    load(v, reinterpret_cast<const T*>(&word));
    A m = v[0];
#pragma unroll
    for (int k = 1; k < kVectorSize; ++k) m = Maximum()(m, v[k]);
    m = Maximum()(sum.m, m);
    A s = sum.m == kMinusInfinity<A> ? A(0) : sum.s * exp_of<T>(sum.m - m);
#pragma unroll
    for (int k = 0; k < kVectorSize; ++k) s += v[k] == kMinusInfinity<A> ? A(0) : exp_of<T>(v[k] - m);
    sum = {m, s};
    if (with_sum) {
#pragma unroll
      for (int k = 0; k < kVectorSize; ++k) plain += is_inside(c + k, V) ? v[k] : A(0);
    }
  }
  const A m = block_reduce<kLossThreads>(sum.m, Maximum());
  const A scaled = sum.m == kMinusInfinity<A> ? A(0) : sum.s * exp_of<T>(sum.m - m);
  const A s = block_reduce<kLossThreads>(scaled, Sum());
  if (with_sum) plain = block_reduce<kLossThreads>(plain, Sum());
  return {{m, s}, plain};
}

template <class T>
static __global__ void __launch_bounds__(kLossThreads)
    cross_entropy_kernel(Compute<T>* losses, Compute<T>* lse, const T* logits, CrossEntropyRow<Compute<T>> p,
                         int64_t V) {
  using A = Compute<T>;
  const int64_t n = blockIdx.x, t = p.target[n * p.target_step];
  const T* row = logits + n * V;
  const LogitRow<T> sums = measure_row<T>(row, static_cast<int>(V), p.smoothing != A(0));
  if (threadIdx.x != 0) return;
  lse[n] = sums.exps.m + std::log(finished(sums.exps));
  const bool counts = t != p.ignored && t >= 0 && t < V;
  losses[n] = counts ? row_loss<T>(sums, to<A>(row[t]), p.smoothing, V) : A(0);
}

// Totals over all rows, each of them optional (null): the sum of losses or, if `mean`, their mean over the
// targets that are not ignored (over all N rows if there are no targets), and the number of these targets.
struct LossTotals {
  double *loss, *count;
  bool mean;
};
struct LossSums {
  double sum, used;
  __device__ __forceinline__ LossSums operator+(const LossSums& other) const {
    return {sum + other.sum, used + other.used};
  }
};
__device__ __forceinline__ void store_totals(const LossTotals& to_, const LossSums& all, bool has_targets,
                                             int64_t N) {
  if (to_.loss) *to_.loss = to_.mean ? all.sum / (has_targets ? all.used : static_cast<double>(N)) : all.sum;
  if (to_.count) *to_.count = all.used;
}

// Sums of the block's `each` rows, in a fixed order, go to `partial`; if there is only one block, it stores
// the totals.
template <class A>
static __global__ void __launch_bounds__(kLossThreads)
    sum_losses_kernel(LossTotals totals, LossSums* partial, const A* losses, const int64_t* target,
                      int64_t target_step, int64_t ignored, int64_t N, int64_t each) {
  LossSums sums{0, 0};
  const int64_t first = static_cast<int64_t>(blockIdx.x) * each, last = std::min(first + each, N);
#pragma unroll 8
  for (int64_t n = first + threadIdx.x; n < last; n += kLossThreads) {
    if (losses) sums.sum += static_cast<double>(losses[n]);
    if (target) sums.used += target[n * target_step] != ignored ? 1 : 0;
  }
  sums = block_reduce<kLossThreads>(sums, Sum());
  if (threadIdx.x != 0) return;
  if (gridDim.x > 1) {
    partial[blockIdx.x] = sums;
  } else {
    store_totals(totals, sums, target != nullptr, N);
  }
}
static __global__ void __launch_bounds__(kWarp)
    finish_losses_kernel(LossTotals totals, const LossSums* partial, int blocks, bool has_targets,
                         int64_t N) {
  LossSums sums{0, 0};
  for (int k = static_cast<int>(threadIdx.x); k < blocks; k += kWarp) sums = sums + partial[k];
  sums = warp_reduce(sums, Sum());
  if (threadIdx.x == 0) store_totals(totals, sums, has_targets, N);
}

// dl/dx_j = scale (exp(x_j - lse) - s / V - (1 - s) [j = t]). count: number of targets for the mean, or
// null. A block of any size computes a part of a row.
template <class T>
static __global__ void __launch_bounds__(kLossThreads)
    cross_entropy_grad_kernel(T* dx, const T* grad, int64_t grad_step, const T* logits,
                              CrossEntropyRow<Compute<T>> p, const Compute<T>* lse, const double* count,
                              int64_t V) {
  using A = Compute<T>;
  constexpr int kVectorSize = kVectorSizeOf<T>;
  const int64_t n = blockIdx.y, t = p.target[n * p.target_step];
  const bool counts = t != p.ignored;
  const A shift = lse[n], uniform = p.smoothing / static_cast<A>(V);
  A weight = counts ? to<A>(grad[n * grad_step]) : A(0);
  if (count) weight *= A(1) / static_cast<A>(std::max(1.0, *count));
  T* const out = dx + n * V;
  const int classes = static_cast<int>(V);
  const int c = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x) * kVectorSize - phase_of(out);
  if (c >= classes) return;
  A v[kVectorSize];
  const uint4 word = load_unaligned_vector(logits + n * V, c, classes, T{});
  load(v, reinterpret_cast<const T*>(&word));
#pragma unroll
  for (int k = 0; k < kVectorSize; ++k) {
    const A hot = c + k == t ? A(1) - p.smoothing : A(0);
    v[k] = counts ? weight * (exp_of<T>(v[k] - shift) - uniform - hot) : A(0);
  }
  store_inside(out, c, classes, v);
}

// --- launchers ---

template <class T>
CrossEntropyRow<Compute<T>> row_parameters(const View& target, const CrossEntropyParameters& p) {
  return {target.as<const int64_t>(), target.strides[0], p.ignore_index,
          static_cast<Compute<T>>(p.label_smoothing)};
}

// losses: of N rows, or null. A block adds 8192 rows, or more if there would be over 1024 blocks.
template <class A>
void sum_losses(const LossTotals& totals, const A* losses, const View& target,
                const CrossEntropyParameters& p, int64_t N) {
  constexpr int64_t kEach = 8 * kLossThreads;
  const int64_t blocks = std::clamp<int64_t>(ceil_div(N, kEach), 1, kLossThreads),
                each = ceil_div(std::max<int64_t>(N, 1), blocks);
  const DeviceScratch<LossSums> partial(blocks > 1 ? blocks : 0);
  launch(sum_losses_kernel<A>, {dim3(static_cast<unsigned>(blocks)), dim3(kLossThreads)}, totals,
         partial.data(), losses, target.as<const int64_t>(), target.strides[0], p.ignore_index, N, each);
  if (blocks == 1) return;
  launch(finish_losses_kernel, {dim3(1), dim3(kWarp)}, totals, partial.data(), static_cast<int>(blocks), true,
         N);
}

template <class A>
void finish_loss(const View& loss, const A* losses, const View& target, const CrossEntropyParameters& p,
                 int64_t N) {
  if (p.reduction == LossReduction::none) return copy(loss, {const_cast<A*>(losses), dtype_of<A>, {N}, {1}});
  const DeviceScratch<double> total(1);
  sum_losses<A>({total.data(), nullptr, p.reduction == LossReduction::mean}, losses, target, p, N);
  copy(loss, {total.data(), DType::f64, {}, {}});
}

// count = number of targets that are not ignored.
inline void count_targets(double* count, const View& target, const CrossEntropyParameters& p, int64_t N) {
  sum_losses<float>({nullptr, count, false}, nullptr, target, p, N);
}

// Return false if the rows need another kernel.
template <class T>
bool cross_entropy_in_tiles(const CrossEntropyArrays<T>& a, int64_t N, int64_t V, bool aligned) {
  using Work = CrossEntropyTiles<T>;
  if (!is_narrow<T>(V, aligned) || N == 0) return false;
  launch_tiles<Work>(plan_tiles<Work>(N, V), a, N, V);
  return true;
}
template <class T>
bool cross_entropy_in_registers(const CrossEntropyArrays<T>& a, int64_t N, int64_t V, bool aligned) {
  const auto run = [&]<class R>() { launch(cross_entropy_rows<R>, rows_grid<R::kGroup>(N), a, N, V); };
  return aligned ? dispatch_register_row<T, true>(V, run) : dispatch_register_row<T, false>(V, run);
}

void cross_entropy(const View& loss, const View& lse, const View& logits, const View& target,
                   const CrossEntropyParameters& parameters) {
  const int64_t N = logits.shape[0], V = logits.shape[1];
  dispatch_stored(logits.dtype, [&]<class T>(T*) {
    using A = Compute<T>;
    const ContiguousInput<T> in(logits);
    const DeviceScratch<A> losses(N);
    const CrossEntropyArrays<T> a{
        nullptr, losses.data(), lse.as<A>(), in.data(), row_parameters<T>(target, parameters), nullptr, A(0)};
    const bool aligned = rows_are_aligned<T>(V, {in.data()});
    if (!cross_entropy_in_tiles<T>(a, N, V, aligned) && !cross_entropy_in_registers<T>(a, N, V, aligned)) {
      launch(cross_entropy_kernel<T>, {dim3(static_cast<unsigned>(N)), dim3(kLossThreads)}, a.losses, a.lse,
             a.logits, a.p, V);
    }
    finish_loss<A>(loss, losses.data(), target, parameters, N);
  });
}

void cross_entropy_grad(const View& dx, const View& grad, const View& logits, const View& target,
                        const View& lse, const CrossEntropyParameters& parameters) {
  if (dx.numel() == 0) return;
  const int64_t N = logits.shape[0], V = logits.shape[1];
  dispatch_stored(dx.dtype, [&]<class T>(T*) {
    using A = Compute<T>;
    const ContiguousInput<T> in(logits), g(grad);
    ContiguousOutput<T> out(dx);
    const bool mean = parameters.reduction == LossReduction::mean;
    const DeviceScratch<double> count(1);
    if (mean) count_targets(count.data(), target, parameters, N);
    const int64_t words = vectors_of_row<T>(V, rows_are_aligned<T>(V, {out.data()}));
    unsigned threads = kWarp;
    while (threads < kLossThreads && threads < words) threads *= 2;
    for (int64_t first = 0; first < N; first += 65535) {  // limit of the second dimension of a CUDA grid
      const int64_t rows = std::min<int64_t>(N - first, 65535);
      CrossEntropyRow<A> p = row_parameters<T>(target, parameters);
      p.target += first * p.target_step;
      const int64_t step = parameters.reduction == LossReduction::none ? 1 : 0;
      launch(
          cross_entropy_grad_kernel<T>,
          {dim3(static_cast<unsigned>(ceil_div(words, threads)), static_cast<unsigned>(rows)), dim3(threads)},
          out.data() + first * V, g.data() + first * step, step, in.data() + first * V, p,
          lse.as<const A>() + first, mean ? count.data() : static_cast<double*>(nullptr), V);
    }
    out.write_back();
  });
}

// Loss and gradient of all rows by the kernels that read a row once; false if the rows are too long for all
// of them.
template <class T>
bool cross_entropy_in_one(const CrossEntropyArrays<T>& a, int64_t N, int64_t V) {
  const bool aligned = rows_are_aligned<T>(V, {a.logits, a.dx});
  if (rows_are_few<T>(N, V) && try_strips<CrossEntropyStrips<T>>(a, N, V)) return true;
  if (cross_entropy_in_tiles<T>(a, N, V, aligned) || cross_entropy_in_registers<T>(a, N, V, aligned))
    return true;
  const size_t bytes = static_cast<size_t>(vectors_of_row<T>(V, aligned)) * 16;
  if (bytes + 1024 <= properties(current_device()).shared_per_block_optin) {
    launch(aligned ? cross_entropy_with_grad_kernel<T, true> : cross_entropy_with_grad_kernel<T, false>,
           {dim3(static_cast<unsigned>(N)), dim3(kLossGradThreads), bytes}, a, V);
    return true;
  }
  return try_strips<CrossEntropyStrips<T>>(a, N, V);
}

void cross_entropy_with_grad(const View& loss, const View& lse, const View& dx, const View& logits,
                             const View& target, const CrossEntropyParameters& parameters, double grad) {
  const int64_t N = logits.shape[0], V = logits.shape[1];
  const bool fits =
      logits.contiguous() && dx.contiguous() && parameters.reduction != LossReduction::none && dx.numel() > 0;
  bool done = false;
  dispatch_stored(logits.dtype, [&]<class T>(T*) {
    using A = Compute<T>;
    if (!fits) return;
    const bool mean = parameters.reduction == LossReduction::mean;
    const DeviceScratch<double> count(1);
    const DeviceScratch<A> losses(N);
    if (mean) count_targets(count.data(), target, parameters, N);
    done = cross_entropy_in_one<T>(
        {dx.as<T>(), losses.data(), lse.as<A>(), logits.as<const T>(), row_parameters<T>(target, parameters),
         mean ? count.data() : static_cast<double*>(nullptr), static_cast<A>(grad)},
        N, V);
    if (done) finish_loss<A>(loss, losses.data(), target, parameters, N);
  });
  if (done) return;
  const DeviceScratch<double> one(1);
  const View given{one.data(), DType::f64, {}, {}};
  fill(given, grad);
  cross_entropy(loss, lse, logits, target, parameters);
  const View each{one.data(), DType::f64, loss.shape, Strides::filled(loss.rank(), 0)};
  const DeviceScratch<char> narrow(std::max<int64_t>(1, loss.numel()) *
                                   static_cast<int64_t>(size_of(dx.dtype)));
  const View g = contiguous_view(narrow.data(), dx.dtype, loss.shape);
  copy(g, each);
  cross_entropy_grad(dx, g, logits, target, lse, parameters);
}

// --- losses of single elements ---

template <PointwiseLoss fn>
struct PointwiseLossAs {
  template <class A>
  __device__ A value(A x, A t) const {
    return loss_value<fn>(x, t);
  }
  template <class A>
  __device__ A slope(A x, A t) const {
    return loss_derivative<fn>(x, t);
  }
  template <class A>
  __device__ A target_slope(A x, A t) const {
    return loss_target_derivative<fn>(x, t);
  }
};
template <class F>
void dispatch_pointwise_loss(PointwiseLoss fn, F&& f) {
  if (fn == PointwiseLoss::mse) return f(PointwiseLossAs<PointwiseLoss::mse>());
  f(PointwiseLossAs<PointwiseLoss::bce_with_logits>());
}

void pointwise_loss(PointwiseLoss fn, const View& loss, const View& x, const View& target,
                    LossReduction reduction) {
  dispatch_pointwise_loss(fn, [&]<class Fn>(Fn f) {
    dispatch_stored(x.dtype, [&]<class T>(T*) { pair_loss<T>(f, loss, x, target, reduction); });
  });
}

void pointwise_loss_grad(PointwiseLoss fn, const View& dx, const View& dtarget, const View& grad,
                         const View& x, const View& target, LossReduction reduction) {
  dispatch_pointwise_loss(fn, [&]<class Fn>(Fn f) {
    dispatch_stored(x.dtype,
                    [&]<class T>(T*) { pair_loss_grad<T>(f, dx, dtarget, grad, x, target, reduction); });
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
