// Normalization of channels on CUDA: batch_norm, forward and backward, and the kernels that it shares with
// group_norm.cuh. x is [N, C, S] (contract: backend/cpu/batch_norm.hpp).
//
// There are two large kernels, as on the CPU: statistics of channels, and out = a dy + b (x - center) + c
// with coefficients per channel, or per sample and channel. Small kernels compute the coefficients from the
// statistics in double. The blocks that share a statistic depend only on the shape, and their parts are
// added in a fixed order, so results are deterministic. Means and sums of squared distances are merged
// pairwise, which reads x once and avoids cancellation. Limit: memory bandwidth. Source: Chan, Golub,
// LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979.
#pragma once

#include <algorithm>
#include <tinytorch/backend/cuda/device/collective.cuh>
#include <tinytorch/backend/cuda/device/planes.cuh>
#include <tinytorch/backend/cuda/launch.hpp>
#include <tinytorch/backend/parameters.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kChannelBlock = 256, kChannelWidth = 4;

struct ChannelShape {
  int64_t N = 1, C = 1, S = 1;
  ChannelShape(int64_t n, int64_t c, int64_t s) : N(n), C(c), S(s) {}
  explicit ChannelShape(const View& x) : N(x.shape[0]), C(x.shape[1]) {
    for (int d = 2; d < x.rank(); ++d) S *= x.shape[d];
  }
  int64_t numel() const { return N * C * S; }
  // Blocks that share the statistics of a channel: enough to fill a large GPU, with at least 4096 elements
  // each.
  int64_t parts() const {
    const int64_t wanted = std::max<int64_t>(1, 2048 / std::max<int64_t>(1, C));
    return std::clamp<int64_t>(N * S / 4096, 1, wanted);
  }
};

// The elements of block (c, part). Element e of a channel is at position e % S of sample e / S.
struct ChannelSplit {
  int64_t C, S, count, part_size;
  Divider by_run;
  ChannelSplit(const ChannelShape& s, int64_t parts, int64_t align)
      : C(s.C), S(s.S), count(s.N * s.S), part_size(ceil_div(count, parts)), by_run(s.S, count) {
    part_size = ceil_div(part_size, align) * align;
  }
  __device__ __forceinline__ int64_t offset(int64_t c, int64_t e) const {
    const int64_t n = by_run.quotient(e);
    return (n * C + c) * S + e - n * S;
  }
};

// Count, mean, and sum of squared distances from the mean.
template <class A>
struct Moments {
  A count = 0, mean = 0, m2 = 0;
};
template <class A>
__device__ __forceinline__ Moments<A> merge(const Moments<A>& a, const Moments<A>& b) {
  const A count = a.count + b.count;
  if (count == A(0)) return a;
  const A distance = b.mean - a.mean, share = b.count / count;
  return {count, a.mean + distance * share, a.m2 + b.m2 + distance * distance * a.count * share};
}

template <class A>
__device__ __forceinline__ Moments<A> merge_warp(Moments<A> m) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) {
    const Moments<A> other{__shfl_xor_sync(kAllLanes, m.count, step),
                           __shfl_xor_sync(kAllLanes, m.mean, step), __shfl_xor_sync(kAllLanes, m.m2, step)};
    // Both lanes merge in the same order, lower lane first, so that they get the same bits.
    m = (threadIdx.x & static_cast<unsigned>(step)) == 0 ? merge(m, other) : merge(other, m);
  }
  return m;
}

// Moments of kWidth elements, with one division for all of them.
template <class C, int kWidth>
__device__ __forceinline__ Moments<C> moments_of(const C (&v)[kWidth]) {
  Moments<C> m{C(kWidth), 0, 0};
#pragma unroll
  for (int k = 0; k < kWidth; ++k) m.mean += v[k];
  m.mean *= C(1) / C(kWidth);
#pragma unroll
  for (int k = 0; k < kWidth; ++k) m.m2 += (v[k] - m.mean) * (v[k] - m.mean);
  return m;
}

// partial[part * C + c] = moments of part `part` (blockIdx.y) of channel c (blockIdx.x).
template <class T, int kWidth>
static __global__ void __launch_bounds__(kChannelBlock)
    channel_moments_kernel(Moments<double>* partial, const T* x, const __grid_constant__ ChannelSplit split) {
  using C = Compute<T>;
  const int64_t c = blockIdx.x, first = static_cast<int64_t>(blockIdx.y) * split.part_size;
  const int64_t last = first + split.part_size < split.count ? first + split.part_size : split.count;
  Moments<C> m;
  for (int64_t e = first + threadIdx.x * kWidth; e < last; e += kChannelBlock * kWidth) {
    C v[kWidth];
    load(v, x + split.offset(c, e));
    m = merge(m, moments_of(v));
  }
  Moments<double> all = merge_warp(
      Moments<double>{static_cast<double>(m.count), static_cast<double>(m.mean), static_cast<double>(m.m2)});
  __shared__ Moments<double> warps[kChannelBlock / kWarp];
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = all;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int w = 1; w < kChannelBlock / kWarp; ++w) all = merge(all, warps[w]);
  partial[blockIdx.y * split.C + c] = all;
}

// Merges the parts. spread is the variance if eps < 0, else 1 / sqrt(variance + eps).
template <class C>
static __global__ void __launch_bounds__(kPlaneBlock)
    merge_moments_kernel(C* mean, C* spread, const Moments<double>* partial, int64_t channels, int64_t parts,
                         double eps) {
  const int64_t c = global_thread_index();
  if (c >= channels) return;
  Moments<double> m = partial[c];
  for (int64_t k = 1; k < parts; ++k) m = merge(m, partial[k * channels + c]);
  const double var = m.m2 / m.count;
  mean[c] = static_cast<C>(m.mean);
  spread[c] = static_cast<C>(eps < 0 ? var : 1 / std::sqrt(var + eps));
}

// partial[part * C + c] = {sum of dy, sum of dy (x - center)}.
template <class T, int kWidth>
static __global__ void __launch_bounds__(kChannelBlock)
    channel_gradient_sums_kernel(double2* partial, const T* dy, const T* x, const Compute<T>* center,
                                 int64_t channels_per_center, const __grid_constant__ ChannelSplit split) {
  using C = Compute<T>;
  const int64_t c = blockIdx.x, first = static_cast<int64_t>(blockIdx.y) * split.part_size;
  const int64_t last = first + split.part_size < split.count ? first + split.part_size : split.count;
  const C middle = center[c / channels_per_center];
  C sum = 0, dot = 0;
  for (int64_t e = first + threadIdx.x * kWidth; e < last; e += kChannelBlock * kWidth) {
    C u[kWidth], v[kWidth];
    const int64_t at = split.offset(c, e);
    load(u, dy + at);
    load(v, x + at);
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
      sum += u[k];
      dot += u[k] * (v[k] - middle);
    }
  }
  const double total = block_reduce<kChannelBlock>(static_cast<double>(sum), Sum());
  const double product = block_reduce<kChannelBlock>(static_cast<double>(dot), Sum());
  if (threadIdx.x == 0) partial[blockIdx.y * split.C + c] = {total, product};
}

// out = a dy + b (x - center) + c, with coefficients per channel, or per sample and channel.
template <class C>
struct RunCoefficients {
  const C *a, *b, *c, *center;
  bool per_sample;
  int64_t channels_per_center;  // consecutive channels that share a value of center
};

template <class T, int kWidth>
static __global__ void __launch_bounds__(kPlaneBlock)
    apply_coefficients_kernel(T* out, const T* dy, const T* x,
                              const __grid_constant__ RunCoefficients<Compute<T>> k,
                              const __grid_constant__ Planes runs, int64_t channels) {
  using C = Compute<T>;
  const int64_t first = global_thread_index() * kWidth;
  if (first >= runs.count) return;
  C v[kWidth], grad[kWidth] = {};
  load(v, x + first);
  if (dy) load(grad, dy + first);
  const Planes::Place at = runs.place(first);
  int64_t sample = at.plane, channel = at.h, s = at.w;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    const int64_t run = k.per_sample ? sample * channels + channel : channel;
    C y = k.b[run] * (v[i] - k.center[run / k.channels_per_center]);
    if (dy) y += k.a[run] * grad[i];
    v[i] = y + (k.c ? k.c[run] : C(0));
    if (++s == runs.w) {
      s = 0;
      if (++channel == channels) {
        channel = 0;
        ++sample;
      }
    }
  }
  store(out + first, v);
}

// Coefficients of batch_norm: b = weight / sqrt(var + eps), computed in double, and c = bias.
template <class T>
static __global__ void __launch_bounds__(kPlaneBlock)
    batch_norm_coefficients(Compute<T>* b, Compute<T>* c, const Compute<T>* var, const T* weight,
                            const T* bias, int64_t channels, double eps) {
  using C = Compute<T>;
  const int64_t i = global_thread_index();
  if (i >= channels) return;
  const double rstd = 1 / std::sqrt(static_cast<double>(var[i]) + eps);
  b[i] = static_cast<C>(rstd * (weight ? static_cast<double>(to<C>(weight[i])) : 1.0));
  c[i] = bias ? to<C>(bias[i]) : C(0);
}

template <class T>
struct BatchNormGradWork {
  using C = Compute<T>;
  C *a, *b, *c;  // coefficients of dx
  C *dweight, *dbias, *dmean, *dvar;
  const C *var, *gmean, *gvar;
  const T* weight;
  const double2* partial;
  int64_t parts, channels;
  double count, eps;
  bool of_batch;
};
template <class T>
static __global__ void __launch_bounds__(kPlaneBlock)
    batch_norm_grad_coefficients(const __grid_constant__ BatchNormGradWork<T> w) {
  using C = Compute<T>;
  const int64_t i = global_thread_index();
  if (i >= w.channels) return;
  double sum = 0, dot = 0;  // sums of dy, and of dy (x - mean)
  for (int64_t k = 0; k < w.parts; ++k) {
    sum += w.partial[k * w.channels + i].x;
    dot += w.partial[k * w.channels + i].y;
  }
  const double rstd = 1 / std::sqrt(static_cast<double>(w.var[i]) + w.eps), n = w.count;
  const double scale = rstd * (w.weight ? static_cast<double>(to<C>(w.weight[i])) : 1.0);
  double by_x = 0, constant = 0;
  if (w.of_batch) {
    by_x = -scale * rstd * rstd * dot / n + (w.gvar ? 2 * static_cast<double>(w.gvar[i]) / n : 0);
    constant = -scale * sum / n + (w.gmean ? static_cast<double>(w.gmean[i]) / n : 0);
  }
  w.a[i] = static_cast<C>(scale);
  w.b[i] = static_cast<C>(by_x);
  w.c[i] = static_cast<C>(constant);
  if (w.dweight) w.dweight[i] = static_cast<C>(dot * rstd);
  if (w.dbias) w.dbias[i] = static_cast<C>(sum);
  if (w.dmean) w.dmean[i] = static_cast<C>(-scale * sum);
  if (w.dvar) w.dvar[i] = static_cast<C>(-0.5 * scale * rstd * rstd * dot);
}

// --- launchers ---

// True if run length and addresses allow accesses of kChannelWidth elements.
template <class T>
bool can_vectorize(int64_t run, std::initializer_list<const void*> data) {
  bool vectorized = run % kChannelWidth == 0;
  for (const void* p : data)
    vectorized = vectorized && reinterpret_cast<uintptr_t>(p) % (sizeof(T) * kChannelWidth) == 0;
  return vectorized;
}

// mean and spread (merge_moments_kernel) of the C channels of x.
template <class T>
void channel_statistics(Compute<T>* mean, Compute<T>* spread, const T* x, const ChannelShape& shape,
                        double eps) {
  const int64_t parts = shape.parts();
  const DeviceScratch<Moments<double>> partial(parts * shape.C);
  const bool vectorized = can_vectorize<T>(shape.S, {x});
  launch(vectorized ? channel_moments_kernel<T, kChannelWidth> : channel_moments_kernel<T, 1>,
         {dim3(static_cast<unsigned>(shape.C), static_cast<unsigned>(parts)), dim3(kChannelBlock)},
         partial.data(), x, ChannelSplit(shape, parts, kChannelWidth));
  launch(merge_moments_kernel<Compute<T>>, over(shape.C, kPlaneBlock), mean, spread, partial.data(), shape.C,
         parts, eps);
}

template <class T>
void gradient_sums(double2* partial, const T* dy, const T* x, const Compute<T>* center,
                   int64_t channels_per_center, const ChannelShape& shape, int64_t parts) {
  const bool vectorized = can_vectorize<T>(shape.S, {dy, x});
  launch(vectorized ? channel_gradient_sums_kernel<T, kChannelWidth> : channel_gradient_sums_kernel<T, 1>,
         {dim3(static_cast<unsigned>(shape.C), static_cast<unsigned>(parts)), dim3(kChannelBlock)}, partial,
         dy, x, center, channels_per_center, ChannelSplit(shape, parts, kChannelWidth));
}

template <class T>
void apply_coefficients(T* out, const T* dy, const T* x, const RunCoefficients<Compute<T>>& k,
                        const ChannelShape& shape) {
  const bool vectorized = can_vectorize<T>(shape.numel(), {out, dy, x});
  launch(vectorized ? apply_coefficients_kernel<T, kChannelWidth> : apply_coefficients_kernel<T, 1>,
         over(shape.numel() / (vectorized ? kChannelWidth : 1), kPlaneBlock), out, dy, x, k,
         Planes(shape.N, shape.C, shape.S), shape.C);
}

void channel_moments(const View& mean, const View& var, const View& x) {
  dispatch_stored(x.dtype, [&]<class T>(T*) {
    const ContiguousInput<T> in(x);
    channel_statistics<T>(mean.as<Compute<T>>(), var.as<Compute<T>>(), in.data(), ChannelShape(x), -1);
  });
}

void batch_norm(const View& out, const View& x, const View& mean, const View& var, const View& weight,
                const View& bias, double eps) {
  if (out.numel() == 0) return;
  const ChannelShape shape(x);
  dispatch_stored(x.dtype, [&]<class T>(T*) {
    using C = Compute<T>;
    const ContiguousInput<T> in(x), w(weight), b(bias);
    const ContiguousInput<C> m(mean), v(var);
    ContiguousOutput<T> result(out);
    const DeviceScratch<C> k(2 * shape.C);
    C* const scale = k.data();
    launch(batch_norm_coefficients<T>, over(shape.C, kPlaneBlock), scale, scale + shape.C, v.data(), w.data(),
           b.data(), shape.C, eps);
    apply_coefficients<T>(result.data(), nullptr, in.data(),
                          {nullptr, scale, scale + shape.C, m.data(), false, 1}, shape);
    result.write_back();
  });
}

template <class T>
void batch_norm_grad_as(const BatchNormGrads& out, const View& dy, const View& x, const View& mean,
                        const View& var, const View& weight, double eps, bool of_batch, const View& gmean,
                        const View& gvar) {
  using C = Compute<T>;
  const ChannelShape shape(x);
  const int64_t channels = shape.C, parts = shape.parts();
  const ContiguousInput<T> grad(dy), in(x), w(weight);
  const ContiguousInput<C> m(mean), v(var), gm(gmean), gv(gvar);
  ContiguousOutput<T> dx(out.dx);
  ContiguousOutput<C> dweight(out.dweight), dbias(out.dbias), dmean(out.dmean), dvar(out.dvar);
  const DeviceScratch<double2> partial(parts * channels);
  const DeviceScratch<C> k(3 * channels);
  C *const a = k.data(), *const b = a + channels, *const c = b + channels;
  gradient_sums<T>(partial.data(), grad.data(), in.data(), m.data(), 1, shape, parts);
  // clang-format off
  const BatchNormGradWork<T> work{
      a, b, c, dweight.data(), dbias.data(), dmean.data(), dvar.data(), v.data(), gm.data(),
      gv.data(), w.data(), partial.data(), parts, channels,
      static_cast<double>(shape.N * shape.S), eps, of_batch};
  // clang-format on
  launch(batch_norm_grad_coefficients<T>, over(channels, kPlaneBlock), work);
  if (dx.data())
    apply_coefficients<T>(dx.data(), grad.data(), in.data(), {a, b, c, m.data(), false, 1}, shape);
  dx.write_back();
  for (ContiguousOutput<C>* d : {&dweight, &dbias, &dmean, &dvar}) d->write_back();
}

void batch_norm_grad(const BatchNormGrads& out, const View& dy, const View& x, const View& mean,
                     const View& var, const View& weight, double eps, bool of_batch, const View& gmean,
                     const View& gvar) {
  dispatch_stored(x.dtype, [&]<class T>(T*) {
    batch_norm_grad_as<T>(out, dy, x, mean, var, weight, eps, of_batch, gmean, gvar);
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
