// Losses, each fused with what precedes it, and their gradients (contracts and formulas:
// backend/cpu/loss.hpp).
//
// cross_entropy_with_grad makes loss and gradient in one visit: a row of logits waits in registers or shared
// memory between the two, or in strips of several blocks (strips.cuh), so logits are read once and the
// gradient, which may take their place, is written once. A row's loss goes to scratch memory, and one block
// adds the rows' losses in order, in double. cross_entropy alone walks longer rows than registers hold by a
// block each. Limit: memory.
#pragma once

#include <algorithm>
#include <tinytorch/backend/cuda/dense.cuh>
#include <tinytorch/backend/cuda/kernels/reduce.cuh>
#include <tinytorch/backend/cuda/kernels/softmax_strips.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kLossThreads = 1024, kPointwiseThreads = 256;

// What a row needs besides its logits. count: targets not ignored.
template <class A>
struct CrossEntropyRow {
  const int64_t* target;
  int64_t target_step, ignored;
  A smoothing;
};

// One visit of a row: its maximum, sum of exponentials, and sum. f(c) is the logit at column c.
template <class T>
struct LogitSums {
  ScaledSum<Wide<T>> exps;
  Wide<T> sum;
};

template <class T>
__device__ __forceinline__ LogitSums<T> measure_logits(const T* row, int V, bool with_sum) {
  using A = Wide<T>;
  constexpr int kWide = kWideOf<T>;
  ScaledSum<A> sum;
  A plain = 0;
#pragma unroll 2
  for (int c = static_cast<int>(threadIdx.x) * kWide - phase_of(row); c < V; c += kLossThreads * kWide) {
    A v[kWide];
    const uint4 word = aligned_word(row, c, V, to<T>(kMinusInfinity<A>));
    load(v, reinterpret_cast<const T*>(&word));
    A m = v[0];
#pragma unroll
    for (int k = 1; k < kWide; ++k) m = Maximum()(m, v[k]);
    m = Maximum()(sum.m, m);
    A s = sum.m == kMinusInfinity<A> ? A(0) : sum.s * exp_of<T>(sum.m - m);
#pragma unroll
    for (int k = 0; k < kWide; ++k) s += v[k] == kMinusInfinity<A> ? A(0) : exp_of<T>(v[k] - m);
    sum = {m, s};
    if (with_sum) {
#pragma unroll
      for (int k = 0; k < kWide; ++k) plain += is_inside(c + k, V) ? v[k] : A(0);
    }
  }
  const A m = block_reduce<kLossThreads>(sum.m, Maximum());
  const A scaled = sum.m == kMinusInfinity<A> ? A(0) : sum.s * exp_of<T>(sum.m - m);
  const A s = block_reduce<kLossThreads>(scaled, Sum());
  if (with_sum) plain = block_reduce<kLossThreads>(plain, Sum());
  return {{m, s}, plain};
}

// (1 - s) (lse - x_t) + s (lse - mean(x)), by differences from the largest logit, so that a common offset of
// the row costs no precision.
template <class T>
__device__ __forceinline__ Wide<T> row_loss(const LogitSums<T>& sums, Wide<T> at_target, Wide<T> smoothing,
                                            int64_t V) {
  using A = Wide<T>;
  const A log_sum = std::log(sums.exps.s);
  const A value = log_sum - (at_target - sums.exps.m);
  if (smoothing == A(0)) return value;
  const A mean = sums.sum / static_cast<A>(V);
  return (A(1) - smoothing) * value + smoothing * (log_sum - (mean - sums.exps.m));
}

template <class T>
static __global__ void __launch_bounds__(kLossThreads)
    cross_entropy_kernel(Wide<T>* losses, Wide<T>* lse, const T* logits, CrossEntropyRow<Wide<T>> p,
                         int64_t V) {
  using A = Wide<T>;
  const int64_t n = blockIdx.x, t = p.target[n * p.target_step];
  const T* row = logits + n * V;
  const LogitSums<T> sums = measure_logits<T>(row, static_cast<int>(V), p.smoothing != A(0));
  if (threadIdx.x != 0) return;
  lse[n] = sums.exps.m + std::log(finished(sums.exps));
  const bool counts = t != p.ignored && t >= 0 && t < V;
  losses[n] = counts ? row_loss<T>(sums, to<A>(row[t]), p.smoothing, V) : A(0);
}

// Number of targets not ignored, and the sum or mean of all losses: one block, in a fixed order.
template <class A>
static __global__ void __launch_bounds__(kLossThreads)
    finish_loss_kernel(double* total, double* count, const A* losses, const int64_t* target,
                       int64_t target_step, int64_t ignored, int64_t N, bool mean) {
  double sum = 0, used = 0;
#pragma unroll 8
  for (int64_t n = threadIdx.x; n < N; n += kLossThreads) {
    if (losses) sum += static_cast<double>(losses[n]);
    if (target) used += target[n * target_step] != ignored ? 1 : 0;
  }
  sum = block_reduce<kLossThreads>(sum, Sum());
  used = block_reduce<kLossThreads>(used, Sum());
  if (threadIdx.x != 0) return;
  if (total) *total = mean ? sum / (target ? used : static_cast<double>(N)) : sum;
  if (count) *count = used;
}

// dl/dx_j = scale (exp(x_j - lse) - s / V - (1 - s) [j = t]); count: of targets for the mean, or null. A block
// of any size for part of a row.
template <class T>
static __global__ void __launch_bounds__(kLossThreads)
    cross_entropy_grad_kernel(T* dx, const T* grad, int64_t grad_step, const T* logits,
                              CrossEntropyRow<Wide<T>> p, const Wide<T>* lse, const double* count,
                              int64_t V) {
  using A = Wide<T>;
  constexpr int kWide = kWideOf<T>;
  const int64_t n = blockIdx.y, t = p.target[n * p.target_step];
  const bool counts = t != p.ignored;
  const A shift = lse[n], uniform = p.smoothing / static_cast<A>(V);
  A weight = counts ? to<A>(grad[n * grad_step]) : A(0);
  if (count) weight *= A(1) / static_cast<A>(std::max(1.0, *count));
  T* const out = dx + n * V;
  const int classes = static_cast<int>(V);
  const int c = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x) * kWide - phase_of(out);
  if (c >= classes) return;
  A v[kWide];
  const uint4 word = any_word(logits + n * V, c, classes, T{});
  load(v, reinterpret_cast<const T*>(&word));
#pragma unroll
  for (int k = 0; k < kWide; ++k) {
    const A hot = c + k == t ? A(1) - p.smoothing : A(0);
    v[k] = counts ? weight * (exp_of<T>(v[k] - shift) - uniform - hot) : A(0);
  }
  store_inside(out, c, classes, v);
}

// --- loss and gradient together ---

// dx may be logits, or null where the loss alone is wanted. count: as above; grad: of the loss.
template <class T>
struct CrossEntropyArrays {
  T* dx;
  Wide<T>*losses, *lse;
  const T* logits;
  CrossEntropyRow<Wide<T>> p;
  const double* count;
  Wide<T> grad;
};
// One row: its target and the logit there, read before the gradient may take its place.
template <class T>
struct CrossEntropyFacts {
  int64_t target;
  bool counts;
  Wide<T> at_target;
};
template <class T>
__device__ __forceinline__ CrossEntropyFacts<T> facts_of(const CrossEntropyArrays<T>& a, int64_t n,
                                                         int64_t V) {
  const int64_t t = a.p.target[n * a.p.target_step];
  const bool counts = t != a.p.ignored && t >= 0 && t < V;
  return {t, counts, counts ? to<Wide<T>>(a.logits[n * V + t]) : Wide<T>(0)};
}
// By one thread of a row. A row of -inf alone has no sum: 0/0, as everywhere.
template <class T>
__device__ __forceinline__ void leave_loss(const CrossEntropyArrays<T>& a, const CrossEntropyFacts<T>& row,
                                           const LogitSums<T>& sums, int64_t n, int64_t V) {
  a.lse[n] = sums.exps.m + std::log(finished(sums.exps));
  a.losses[n] = row.counts ? row_loss<T>(sums, row.at_target, a.p.smoothing, V) : Wide<T>(0);
}
// The gradient of a row whose sums are known.
template <class T>
struct LogitGrad {
  using A = Wide<T>;
  CrossEntropyFacts<T> row;
  A m, scale, uniform, hot;
  __device__ __forceinline__ LogitGrad(const CrossEntropyArrays<T>& a, const CrossEntropyFacts<T>& facts,
                                       const ScaledSum<A>& exps, int64_t V)
      : row(facts), m(exps.m) {
    const A all = a.count ? a.grad / static_cast<A>(std::max(1.0, *a.count)) : a.grad;
    const A weight = row.counts ? all : A(0);
    scale = weight / finished(exps);
    uniform = weight * a.p.smoothing / static_cast<A>(V);
    hot = weight * (A(1) - a.p.smoothing);
  }
  // Logits at columns c ... become their gradients.
  template <int kWide>
  __device__ __forceinline__ void apply(int c, A (&v)[kWide]) const {
#pragma unroll
    for (int k = 0; k < kWide; ++k) v[k] = row.counts ? scale * exp_of<T>(v[k] - m) - uniform : A(0);
    if (row.counts && c <= row.target && row.target < c + kWide) {
#pragma unroll
      for (int k = 0; k < kWide; ++k) v[k] -= c + k == row.target ? hot : A(0);
    }
  }
};

// Rows in registers.
template <class R, class T = typename R::Element>
static __global__ void __launch_bounds__(kRowThreads<R::kGroup>)
    cross_entropy_rows(CrossEntropyArrays<T> a, int64_t rows, int64_t V) {
  using A = Wide<T>;
  constexpr int kGroup = R::kGroup;
  const GroupRow mine = row_of_group<kGroup>(rows, V, blockIdx.x);
  if (mine.leaves) return;
  const int64_t n = mine.row;
  const int C = mine.C;
  T* const out = a.dx + n * V;
  R r;
  r.align_with(a.dx ? out : a.logits + n * V);
  r.read(a.logits + n * V, C, 0, to<T>(kMinusInfinity<A>));
  const CrossEntropyFacts<T> facts = facts_of(a, n, V);
  A m = kMinusInfinity<A>, s = 0, plain = 0;
  r.each(C, [&](int, const A(&v)[R::kWide]) {
#pragma unroll
    for (int k = 0; k < R::kWide; ++k) m = Maximum()(m, v[k]);
  });
  m = group_reduce<kGroup>(m, Maximum());
  r.each(C, [&](int c, const A(&v)[R::kWide]) {
#pragma unroll
    for (int k = 0; k < R::kWide; ++k) {
      s += exp_of<T>(v[k] - m);
      plain += R::holds(c + k, C) ? v[k] : A(0);
    }
  });
  s = group_reduce<kGroup>(s, Sum());
  if (a.p.smoothing != A(0)) plain = group_reduce<kGroup>(plain, Sum());
  const LogitSums<T> sums{{m, s}, plain};
  if (R::lane() == 0 && mine.there) leave_loss(a, facts, sums, n, V);
  if (!a.dx) return;
  const LogitGrad<T> grad(a, facts, sums.exps, V);
  r.each(C, [&](int c, A(&v)[R::kWide]) {
    grad.apply(c, v);
    R::write(out, c, C, v);
  });
}

// Rows in shared memory, summed as they arrive: each thread's sum is of exponentials below its own
// maximum. Two blocks share a multiprocessor (512 threads leave each 64 registers), so that one computes while
// the other waits for memory.
inline constexpr int kLossGradThreads = 512;
template <class T, bool kAligned>
static __global__ void __launch_bounds__(kLossGradThreads, 2)
    cross_entropy_with_grad_kernel(CrossEntropyArrays<T> a, int64_t columns) {
  using A = Wide<T>;
  using R = SharedRow<T, kLossGradThreads, kAligned>;
  const int V = static_cast<int>(columns);
  const int64_t n = blockIdx.x;
  const bool smooth = a.p.smoothing != A(0);
  const CrossEntropyFacts<T> facts = facts_of(a, n, V);
  R r;
  A m = kMinusInfinity<A>, s = 0, plain = 0;
  r.align_with(a.dx + n * columns);
  r.read_each(a.logits + n * columns, V, to<T>(kMinusInfinity<A>), [&](int c, const A(&v)[R::kWide]) {
    A largest = m;
#pragma unroll
    for (int k = 0; k < R::kWide; ++k) largest = Maximum()(largest, v[k]);
    if (largest != m) s = m == kMinusInfinity<A> ? A(0) : s * exp_of<T>(m - largest);
    m = largest;
    if (m == kMinusInfinity<A>) return;
#pragma unroll
    for (int k = 0; k < R::kWide; ++k) s += exp_of<T>(v[k] - m);
    if (smooth) {
#pragma unroll
      for (int k = 0; k < R::kWide; ++k) plain += R::holds(c + k, V) ? v[k] : A(0);
    }
  });
  const A own = m;
  m = block_reduce<kLossGradThreads>(own, Maximum());
  s = own == kMinusInfinity<A> ? A(0) : s * exp_of<T>(own - m);
  s = block_reduce<kLossGradThreads>(s, Sum());
  if (smooth) plain = block_reduce<kLossGradThreads>(plain, Sum());
  const LogitSums<T> sums{{m, s}, plain};
  if (threadIdx.x == 0) leave_loss(a, facts, sums, n, V);
  const LogitGrad<T> grad(a, facts, sums.exps, V);
  r.each(V, [&](int c, A(&v)[R::kWide]) {
    grad.apply(c, v);
    R::write(a.dx + n * columns, c, V, v);
  });
}

// Rows in strips.
template <class T, bool kAligned>
struct CrossEntropyStrips : PlainStripWork {
  using Element = T;
  using Arrays = CrossEntropyArrays<T>;
  using A = Wide<T>;
  using Facts = CrossEntropyFacts<T>;
  struct Sums {
    LogitSums<T> logits;
    __device__ __forceinline__ Sums operator+(const Sums& other) const {
      return {{merge<T>(logits.exps, other.logits.exps), logits.sum + other.logits.sum}};
    }
  };
  static constexpr int kInputs = 1, kBlocks = 2, kWide = kWideOf<T>;
  using S = Strip<T, kInputs, 2, kAligned>;

  Arrays a;
  int64_t V;

  __device__ __forceinline__ CrossEntropyStrips(const Arrays& arrays, const S&, int64_t columns)
      : a(arrays), V(columns) {}
  static __host__ __device__ __forceinline__ const T* input(const Arrays& arrays, int) {
    return arrays.logits;
  }
  static __host__ __device__ __forceinline__ const T* result(const Arrays& arrays) { return arrays.dx; }
  static __device__ __forceinline__ T fill() { return to<T>(kMinusInfinity<A>); }
  __device__ __forceinline__ Facts facts(int64_t n) const { return facts_of(a, n, V); }
  __device__ __forceinline__ Sums visit(const S& strip, const Facts&) const {
    Sums sums{{sum_of_strip(strip), A(0)}};
    if (a.p.smoothing != A(0)) {
      strip.each([&](int v, const A(&in)[kInputs][kWide]) {
#pragma unroll
        for (int k = 0; k < kWide; ++k) sums.logits.sum += strip.holds(v, k) ? in[0][k] : A(0);
      });
    }
    return sums;
  }
  __device__ __forceinline__ void finish(const S& strip, const Facts& row, const Sums& sums,
                                         int64_t n) const {
    if (strip.first <= 0 && threadIdx.x == 0) leave_loss(a, row, sums.logits, n, V);
    const LogitGrad<T> grad(a, row, sums.logits.exps, V);
    strip.each([&](int v, A(&in)[kInputs][kWide]) {
      grad.apply(strip.first + S::column(v), in[0]);
      strip.write(a.dx + n * V, v, in[0]);
    });
  }
};

// --- launchers ---

template <class T>
CrossEntropyRow<Wide<T>> row_parameters(const View& target, const CrossEntropyParameters& p) {
  return {target.as<const int64_t>(), target.strides[0], p.ignore_index,
          static_cast<Wide<T>>(p.label_smoothing)};
}

template <class A>
void finish_loss(const View& loss, const A* losses, const View& target, const CrossEntropyParameters& p,
                 int64_t N) {
  if (p.reduction == LossReduction::none) return copy(loss, {const_cast<A*>(losses), dtype_of<A>, {N}, {1}});
  const DeviceScratch<double> total(1);
  launch(finish_loss_kernel<A>, {dim3(1), dim3(kLossThreads)}, total.data(), static_cast<double*>(nullptr),
         losses, target.as<const int64_t>(), target.strides[0], p.ignore_index, N,
         p.reduction == LossReduction::mean);
  copy(loss, {total.data(), DType::f64, {}, {}});
}

// The number of targets not ignored, where the mean needs it.
inline void count_targets(double* count, const View& target, const CrossEntropyParameters& p, int64_t N) {
  launch(finish_loss_kernel<float>, {dim3(1), dim3(kLossThreads)}, static_cast<double*>(nullptr), count,
         static_cast<const float*>(nullptr), target.as<const int64_t>(), target.strides[0], p.ignore_index, N,
         false);
}

// Calls f.operator()<R>() with the kind of row that holds V logits in registers; false when none does.
template <class T, class F>
bool dispatch_logits(int64_t V, bool aligned, F&& f) {
  return aligned ? dispatch_register_row<T, true>(V, f) : dispatch_register_row<T, false>(V, f);
}

void cross_entropy(const View& loss, const View& lse, const View& logits, const View& target,
                   const CrossEntropyParameters& parameters) {
  const int64_t N = logits.shape[0], V = logits.shape[1];
  dispatch_stored(logits.dtype, [&]<class T>(T*) {
    using A = Wide<T>;
    const DenseInput<T> in(logits);
    const DeviceScratch<A> losses(N);
    const CrossEntropyArrays<T> a{
        nullptr, losses.data(), lse.as<A>(), in.data(), row_parameters<T>(target, parameters), nullptr, A(0)};
    const bool held = dispatch_logits<T>(V, rows_are_aligned<T>(V, {in.data()}), [&]<class R>() {
      launch(cross_entropy_rows<R>, rows_grid<R::kGroup>(N), a, N, V);
    });
    if (!held) {
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
    using A = Wide<T>;
    const DenseInput<T> in(logits), g(grad);
    DenseOutput<T> out(dx);
    const bool mean = parameters.reduction == LossReduction::mean;
    const DeviceScratch<double> count(1);
    if (mean) count_targets(count.data(), target, parameters, N);
    const int64_t words = words_of_row<T>(V, rows_are_aligned<T>(V, {out.data()}));
    unsigned threads = kWarp;
    while (threads < kLossThreads && threads < words) threads *= 2;
    for (int64_t first = 0; first < N; first += 65535) {  // CUDA's limit for the second dimension of a grid
      const int64_t rows = std::min<int64_t>(N - first, 65535);
      CrossEntropyRow<A> p = row_parameters<T>(target, parameters);
      p.target += first * p.target_step;
      const int64_t step = parameters.reduction == LossReduction::none ? 1 : 0;
      launch(cross_entropy_grad_kernel<T>,
             {dim3(static_cast<unsigned>(divided_up(words, threads)), static_cast<unsigned>(rows)),
              dim3(threads)},
             out.data() + first * V, g.data() + first * step, step, in.data() + first * V, p,
             lse.as<const A>() + first, mean ? count.data() : static_cast<double*>(nullptr), V);
    }
    out.finish();
  });
}

// Loss and gradient of all rows by the kernels that visit them once; false where rows are too long for all.
template <class T>
bool cross_entropy_in_one(const CrossEntropyArrays<T>& a, int64_t N, int64_t V) {
  const bool aligned = rows_are_aligned<T>(V, {a.logits, a.dx});
  if (rows_are_few<T>(N, V) && try_strips<CrossEntropyStrips, T>(a, N, V, aligned)) return true;
  const bool held = dispatch_logits<T>(
      V, aligned, [&]<class R>() { launch(cross_entropy_rows<R>, rows_grid<R::kGroup>(N), a, N, V); });
  if (held) return true;
  const size_t bytes = static_cast<size_t>(words_of_row<T>(V, aligned)) * 16;
  if (bytes + 1024 <= properties(current_device()).shared_per_block_optin) {
    launch(aligned ? cross_entropy_with_grad_kernel<T, true> : cross_entropy_with_grad_kernel<T, false>,
           {dim3(static_cast<unsigned>(N)), dim3(kLossGradThreads), bytes}, a, V);
    return true;
  }
  return try_strips<CrossEntropyStrips, T>(a, N, V, aligned);
}

void cross_entropy_with_grad(const View& loss, const View& lse, const View& dx, const View& logits,
                             const View& target, const CrossEntropyParameters& parameters, double grad) {
  const int64_t N = logits.shape[0], V = logits.shape[1];
  const bool fits =
      logits.contiguous() && dx.contiguous() && parameters.reduction != LossReduction::none && dx.numel() > 0;
  bool done = false;
  dispatch_stored(logits.dtype, [&]<class T>(T*) {
    using A = Wide<T>;
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
  const View g = dense_view(narrow.data(), dx.dtype, loss.shape);
  copy(g, each);
  cross_entropy_grad(dx, g, logits, target, lse, parameters);
}

// --- losses of one element each ---

template <class T>
static __global__ void __launch_bounds__(kPointwiseThreads)
    pointwise_loss_kernel(PointwiseLoss fn, T* each, double* partial, const T* x, const T* target,
                          int64_t n) {
  using A = Wide<T>;
  double sum = 0;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kPointwiseThreads + threadIdx.x; i < n;
       i += static_cast<int64_t>(gridDim.x) * kPointwiseThreads) {
    const A a = to<A>(x[i]), t = to<A>(target[i]);
    const A l = fn == PointwiseLoss::mse ? loss_value<PointwiseLoss::mse>(a, t)
                                         : loss_value<PointwiseLoss::bce_with_logits>(a, t);
    if (each) each[i] = to<T>(l);
    sum += static_cast<double>(l);
  }
  if (!partial) return;
  sum = block_reduce<kPointwiseThreads>(sum, Sum());
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

template <class T>
static __global__ void __launch_bounds__(kPointwiseThreads)
    pointwise_loss_grad_kernel(PointwiseLoss fn, T* dx, T* dtarget, const T* grad, int64_t grad_step,
                               const T* x, const T* target, int64_t n, Wide<T> scale) {
  using A = Wide<T>;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kPointwiseThreads + threadIdx.x;
  if (i >= n) return;
  const A a = to<A>(x[i]), t = to<A>(target[i]), g = to<A>(grad[i * grad_step]) * scale;
  const bool mse = fn == PointwiseLoss::mse;
  if (dx) {
    dx[i] = to<T>(g * (mse ? loss_derivative<PointwiseLoss::mse>(a, t)
                           : loss_derivative<PointwiseLoss::bce_with_logits>(a, t)));
  }
  if (dtarget) {
    dtarget[i] = to<T>(g * (mse ? loss_target_derivative<PointwiseLoss::mse>(a, t)
                                : loss_target_derivative<PointwiseLoss::bce_with_logits>(a, t)));
  }
}

void pointwise_loss(PointwiseLoss fn, const View& loss, const View& x, const View& target,
                    LossReduction reduction) {
  const int64_t n = x.numel();
  dispatch_stored(x.dtype, [&]<class T>(T*) {
    const DenseInput<T> a(x), t(target);
    if (reduction == LossReduction::none) {
      DenseOutput<T> out(loss);
      launch(pointwise_loss_kernel<T>, over(n, kPointwiseThreads), fn, out.data(),
             static_cast<double*>(nullptr), a.data(), t.data(), n);
      return out.finish();
    }
    const int64_t blocks = std::clamp<int64_t>((n + 2047) / 2048, 1, 1024);
    const DeviceScratch<double> partial(blocks);
    launch(pointwise_loss_kernel<T>, {dim3(static_cast<unsigned>(blocks)), dim3(kPointwiseThreads)}, fn,
           static_cast<T*>(nullptr), partial.data(), a.data(), t.data(), n);
    const bool all[] = {true};
    const double scale = reduction == LossReduction::mean ? 1 / static_cast<double>(n) : 1.0;
    reduce(ReduceFn::sum, loss, {partial.data(), DType::f64, {blocks}, {1}}, all, scale);
  });
}

void pointwise_loss_grad(PointwiseLoss fn, const View& dx, const View& dtarget, const View& grad,
                         const View& x, const View& target, LossReduction reduction) {
  const int64_t n = x.numel();
  if (n == 0) return;
  dispatch_stored(x.dtype, [&]<class T>(T*) {
    const DenseInput<T> a(x), t(target), g(grad);
    DenseOutput<T> to_x(dx), to_target(dtarget);
    const Wide<T> scale =
        reduction == LossReduction::mean ? Wide<T>(1) / static_cast<Wide<T>>(n) : Wide<T>(1);
    launch(pointwise_loss_grad_kernel<T>, over(n, kPointwiseThreads), fn, to_x.data(), to_target.data(),
           g.data(), int64_t{reduction == LossReduction::none}, a.data(), t.data(), n, scale);
    to_x.finish();
    to_target.finish();
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
