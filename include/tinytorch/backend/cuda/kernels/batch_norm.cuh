// Normalization of channels by CUDA: batch_norm and group_norm, forward and backward. x is [N, C, S].
//
// Both reduce to two kernels, as on the CPU: statistics of runs, and out = a dy + b (x - center) + c with
// coefficients per channel or per run; between them small kernels turn the one into the other in double.
// A statistic is shared out among blocks by shape alone and the parts are added in order: results are
// deterministic. Means and squared distances are merged pairwise, which reads x once and does not cancel.
// Limit: memory. Source: Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing
// sample variances", 1979.
#pragma once

#include <algorithm>
#include <tinytorch/backend/cuda/device/collective.cuh>
#include <tinytorch/backend/cuda/device/planes.cuh>
#include <tinytorch/backend/cuda/kernels/launch.hpp>
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
  // Blocks that share one channel's statistics: enough to fill a large device, of at least 4096 elements.
  int64_t parts() const {
    const int64_t wanted = std::max<int64_t>(1, 2048 / std::max<int64_t>(1, C));
    return std::clamp<int64_t>(N * S / 4096, 1, wanted);
  }
};

// Where block (c, part) finds its elements: number e of the channel is sample e / S, place e % S.
struct ChannelWalk {
  int64_t C, S, count, part_size;
  Divider by_run;
  ChannelWalk(const ChannelShape& s, int64_t parts, int64_t align)
      : C(s.C), S(s.S), count(s.N * s.S), part_size((count + parts - 1) / parts), by_run(s.S, count) {
    part_size = (part_size + align - 1) / align * align;
  }
  __device__ __forceinline__ int64_t offset(int64_t c, int64_t e) const {
    const int64_t n = by_run.quotient(e);
    return (n * C + c) * S + e - n * S;
  }
};

// Count, mean and sum of squared distances from it.
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
    // The lower lane's part comes first for both, so that both get the same.
    m = (threadIdx.x & static_cast<unsigned>(step)) == 0 ? merge(m, other) : merge(other, m);
  }
  return m;
}

// Of a few elements at once: one division for kWidth of them.
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

// partial[part * C + c] = count, mean, m2 of part `part` (blockIdx.y) of channel c (blockIdx.x).
template <class T, int kWidth>
static __global__ void __launch_bounds__(kChannelBlock)
    channel_moments_kernel(Moments<double>* partial, const T* x, const __grid_constant__ ChannelWalk walk) {
  using C = Compute<T>;
  const int64_t c = blockIdx.x, first = static_cast<int64_t>(blockIdx.y) * walk.part_size;
  const int64_t last = first + walk.part_size < walk.count ? first + walk.part_size : walk.count;
  Moments<C> m;
  for (int64_t e = first + threadIdx.x * kWidth; e < last; e += kChannelBlock * kWidth) {
    C v[kWidth];
    load(v, x + walk.offset(c, e));
    m = merge(m, moments_of(v));
  }
  Moments<double> all = merge_warp(
      Moments<double>{static_cast<double>(m.count), static_cast<double>(m.mean), static_cast<double>(m.m2)});
  __shared__ Moments<double> warps[kChannelBlock / kWarp];
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = all;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int w = 1; w < kChannelBlock / kWarp; ++w) all = merge(all, warps[w]);
  partial[blockIdx.y * walk.C + c] = all;
}

// mean[c] and var[c] (eps < 0), or mean and 1 / sqrt(var + eps).
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

// partial[part * C + c] = sum of dy and of dy (x - center).
template <class T, int kWidth>
static __global__ void __launch_bounds__(kChannelBlock)
    channel_products_kernel(double2* partial, const T* dy, const T* x, const Compute<T>* center,
                            int64_t channels_per_center, const __grid_constant__ ChannelWalk walk) {
  using C = Compute<T>;
  const int64_t c = blockIdx.x, first = static_cast<int64_t>(blockIdx.y) * walk.part_size;
  const int64_t last = first + walk.part_size < walk.count ? first + walk.part_size : walk.count;
  const C middle = center[c / channels_per_center];
  C sum = 0, dot = 0;
  for (int64_t e = first + threadIdx.x * kWidth; e < last; e += kChannelBlock * kWidth) {
    C u[kWidth], v[kWidth];
    const int64_t at = walk.offset(c, e);
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
  if (threadIdx.x == 0) partial[blockIdx.y * walk.C + c] = {total, product};
}

// out = a dy + b (x - center) + c with coefficients per channel, or per sample and channel.
template <class C>
struct RunCoefficients {
  const C *a, *b, *c, *center;
  bool per_sample;
  int64_t channels_per_center;  // that share one value of center
};

template <class T, int kWidth>
static __global__ void __launch_bounds__(kPlaneBlock)
    combine_runs_kernel(T* out, const T* dy, const T* x,
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

// b = rstd w, c = bias, for batch_norm; rstd from the variance, in double.
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
  double sum = 0, dot = 0;  // of dy, and of dy (x - mean)
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

// b = rstd w, c = bias per sample and channel, for group_norm.
template <class T>
static __global__ void __launch_bounds__(kPlaneBlock)
    group_norm_coefficients(Compute<T>* b, Compute<T>* c, const Compute<T>* rstd, const T* weight,
                            const T* bias, int64_t runs, int64_t channels, int64_t group_c) {
  using C = Compute<T>;
  const int64_t r = global_thread_index();
  if (r >= runs) return;
  const int64_t channel = r % channels;
  b[r] = rstd[r / group_c] * (weight ? to<C>(weight[channel]) : C(1));
  c[r] = bias ? to<C>(bias[channel]) : C(0);
}

// Coefficients of dx for the runs of one group a warp.
template <class T>
static __global__ void __launch_bounds__(kPlaneBlock)
    group_norm_grad_coefficients(Compute<T>* a, Compute<T>* b, Compute<T>* c, const double2* sums,
                                 const Compute<T>* rstd, const T* weight, int64_t groups, int64_t channels,
                                 int64_t group_c, double length) {
  using C = Compute<T>;
  const int64_t thread = global_thread_index(), group = thread / kWarp, lane = thread % kWarp;
  const bool inside = group < groups;
  double sum = 0, dot = 0;
  for (int64_t k = lane; inside && k < group_c; k += kWarp) {
    const int64_t r = group * group_c + k;
    const double w = weight ? static_cast<double>(to<C>(weight[r % channels])) : 1.0;
    sum += w * sums[r].x;
    dot += w * sums[r].y;
  }
  sum = warp_reduce(sum, Sum());
  dot = warp_reduce(dot, Sum());
  const double scale = inside ? static_cast<double>(rstd[group]) : 0.0;
  for (int64_t k = lane; inside && k < group_c; k += kWarp) {
    const int64_t r = group * group_c + k;
    a[r] = static_cast<C>(scale * (weight ? static_cast<double>(to<C>(weight[r % channels])) : 1.0));
    b[r] = static_cast<C>(-scale * scale * scale * dot / length);
    c[r] = static_cast<C>(-scale * sum / length);
  }
}

// dweight and dbias: the runs of a channel, added over samples in order.
template <class C>
static __global__ void __launch_bounds__(kPlaneBlock)
    group_norm_parameter_grads(C* dweight, C* dbias, const double2* sums, const C* rstd, int64_t samples,
                               int64_t channels, int64_t group_c) {
  const int64_t c = global_thread_index();
  if (c >= channels) return;
  double weight = 0, bias = 0;
  for (int64_t r = c; r < samples * channels; r += channels) {
    weight += sums[r].y * static_cast<double>(rstd[r / group_c]);
    bias += sums[r].x;
  }
  if (dweight) dweight[c] = static_cast<C>(weight);
  if (dbias) dbias[c] = static_cast<C>(bias);
}

// --- launchers ---

// Elements that kernels may move at once: kChannelWidth if runs and addresses allow.
template <class T>
bool moves_wide(int64_t run, std::initializer_list<const void*> data) {
  bool wide = run % kChannelWidth == 0;
  for (const void* p : data) wide = wide && reinterpret_cast<uintptr_t>(p) % (sizeof(T) * kChannelWidth) == 0;
  return wide;
}

// mean and spread (merge_moments_kernel) of the C channels of x.
template <class T>
void moments(Compute<T>* mean, Compute<T>* spread, const T* x, const ChannelShape& shape, double eps) {
  const int64_t parts = shape.parts();
  const DeviceScratch<Moments<double>> partial(parts * shape.C);
  const bool wide = moves_wide<T>(shape.S, {x});
  launch(wide ? channel_moments_kernel<T, kChannelWidth> : channel_moments_kernel<T, 1>,
         {dim3(static_cast<unsigned>(shape.C), static_cast<unsigned>(parts)), dim3(kChannelBlock)},
         partial.data(), x, ChannelWalk(shape, parts, kChannelWidth));
  launch(merge_moments_kernel<Compute<T>>, over(shape.C, kPlaneBlock), mean, spread, partial.data(), shape.C,
         parts, eps);
}

template <class T>
void products(double2* partial, const T* dy, const T* x, const Compute<T>* center,
              int64_t channels_per_center, const ChannelShape& shape, int64_t parts) {
  const bool wide = moves_wide<T>(shape.S, {dy, x});
  launch(wide ? channel_products_kernel<T, kChannelWidth> : channel_products_kernel<T, 1>,
         {dim3(static_cast<unsigned>(shape.C), static_cast<unsigned>(parts)), dim3(kChannelBlock)}, partial,
         dy, x, center, channels_per_center, ChannelWalk(shape, parts, kChannelWidth));
}

template <class T>
void combine(T* out, const T* dy, const T* x, const RunCoefficients<Compute<T>>& k,
             const ChannelShape& shape) {
  const bool wide = moves_wide<T>(shape.numel(), {out, dy, x});
  launch(wide ? combine_runs_kernel<T, kChannelWidth> : combine_runs_kernel<T, 1>,
         over(shape.numel() / (wide ? kChannelWidth : 1), kPlaneBlock), out, dy, x, k,
         Planes(shape.N, shape.C, shape.S), shape.C);
}

void channel_moments(const View& mean, const View& var, const View& x) {
  dispatch_stored(x.dtype, [&]<class T>(T*) {
    const ContiguousInput<T> in(x);
    moments<T>(mean.as<Compute<T>>(), var.as<Compute<T>>(), in.data(), ChannelShape(x), -1);
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
    combine<T>(result.data(), nullptr, in.data(), {nullptr, scale, scale + shape.C, m.data(), false, 1},
               shape);
    result.finish();
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
  products<T>(partial.data(), grad.data(), in.data(), m.data(), 1, shape, parts);
  // clang-format off
  const BatchNormGradWork<T> work{
      a, b, c, dweight.data(), dbias.data(), dmean.data(), dvar.data(), v.data(), gm.data(),
      gv.data(), w.data(), partial.data(), parts, channels,
      static_cast<double>(shape.N * shape.S), eps, of_batch};
  // clang-format on
  launch(batch_norm_grad_coefficients<T>, over(channels, kPlaneBlock), work);
  if (dx.data()) combine<T>(dx.data(), grad.data(), in.data(), {a, b, c, m.data(), false, 1}, shape);
  dx.finish();
  for (ContiguousOutput<C>* d : {&dweight, &dbias, &dmean, &dvar}) d->finish();
}

void batch_norm_grad(const BatchNormGrads& out, const View& dy, const View& x, const View& mean,
                     const View& var, const View& weight, double eps, bool of_batch, const View& gmean,
                     const View& gvar) {
  dispatch_stored(x.dtype, [&]<class T>(T*) {
    batch_norm_grad_as<T>(out, dy, x, mean, var, weight, eps, of_batch, gmean, gvar);
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
