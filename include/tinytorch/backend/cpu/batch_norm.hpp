// Normalization of channels on the CPU: batch_norm and group_norm, forward and backward. x is [N, C, S].
//
//   y = (x - mean) rstd w[c] + b[c],  rstd = 1 / sqrt(var + eps)
//   batch_norm: mean and var of a channel over N and S; group_norm: of C / G channels of one sample.
//
// Both reduce to two loops over runs (the S values of one channel of one sample): sums per run, and
// out = a dy + b (x - center) + c with coefficients per run. The statistics between them are small and in
// double. With S = 1 neighbours are different channels, and the loops run across them instead; for batch_norm
// so do those over images that lie pixel by pixel, each of which then counts as a sample. Sources: Ioffe and
// Szegedy, "Batch normalization", 2015; Wu and He, "Group normalization", 2018.
#pragma once

#include <tinytorch/backend/parameters.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// x [N, C, ...]; mean, var [C] in the compute type (f32, or f64 for f64); var biased.
TT_API void channel_moments(const View& mean, const View& var, const View& x);
// out = (x - mean) / sqrt(var + eps) w + b; weight, bias [C] or without data.
TT_API void batch_norm(const View& out, const View& x, const View& mean, const View& var, const View& weight,
                       const View& bias, double eps);
// of_batch: mean and var were computed from x; then gmean, gvar are gradients flowing into them (or without
// data).
TT_API void batch_norm_grad(const BatchNormGrads& out, const View& dy, const View& x, const View& mean,
                            const View& var, const View& weight, double eps, bool of_batch, const View& gmean,
                            const View& gvar);

// mean, rstd [N, G] in the compute type.
TT_API void group_norm(const View& out, const View& mean, const View& rstd, const View& x, int64_t groups,
                       const View& weight, const View& bias, double eps);
TT_API void group_norm_grad(const View& dx, const View& dweight, const View& dbias, const View& dy,
                            const View& x, const View& mean, const View& rstd, int64_t groups,
                            const View& weight);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(BACKEND)
#include <cmath>
#include <tinytorch/backend/cpu/dense.hpp>
#include <tinytorch/backend/cpu/norm.hpp>
#include <tinytorch/backend/layout.hpp>
#include <utility>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend::cpu {

struct ChannelShape {
  int64_t N = 1, C = 1, S = 1;
  explicit ChannelShape(const View& x) : N(x.shape[0]), C(x.shape[1]) {
    for (int d = 2; d < x.rank(); ++d) S *= x.shape[d];
  }
  double count() const { return static_cast<double>(N * S); }
};

// The same for batch_norm. operand() shows a tensor of x's shape as these sizes count it.
struct BatchShape : ChannelShape {
  bool by_pixel;
  explicit BatchShape(const View& x) : ChannelShape(x), by_pixel(is_dense_channels_last(x)) {
    if (by_pixel) N *= std::exchange(S, 1);
  }
  View operand(const View& v) const { return by_pixel && v.data ? channels_at_end(v) : v; }
};

// What is summed over a run: x; (x - m)^2; or dy and dy (x - m) together.
enum class RunSum : uint8_t { value, square, products };

// Sums per channel over blocks of consecutive samples: first[block * C + c], and second for products. The
// center m of sample n, channel c is center[n * center_step + c].
template <class T>
struct RunSums {
  RunSum kind;
  const T *x, *dy, *center;
  int64_t center_step;
};

template <class T>
void sum_one_run(const RunSums<T>& s, const T* x, const T* dy, T center, int64_t n, double& first,
                 double& second) {
  const auto add = [&](auto&& f) { return sum_pieces(n, f); };
  if (s.kind == RunSum::value) first += add([&](int64_t i, int64_t m) { return sum_run(x + i, m); });
  if (s.kind == RunSum::square)
    first += add([&](int64_t i, int64_t m) { return square_run(x + i, center, m); });
  if (s.kind == RunSum::products) {
    first += add([&](int64_t i, int64_t m) { return sum_run(dy + i, m); });
    second += add([&](int64_t i, int64_t m) { return centered_dot_run(x + i, center, dy + i, m); });
  }
}

// S = 1: one sample's channels side by side.
template <class T>
void sum_across(const RunSums<T>& s, int64_t n, int64_t C, double* first, double* second) {
  const T *x = s.x + n * C, *dy = s.dy ? s.dy + n * C : nullptr;
  if (s.kind == RunSum::value) {
    TT_SIMD
    for (int64_t c = 0; c < C; ++c) first[c] += static_cast<double>(x[c]);
    return;
  }
  const T* center = s.center + n * s.center_step;
  if (s.kind == RunSum::square) {
    TT_SIMD
    for (int64_t c = 0; c < C; ++c) first[c] += static_cast<double>((x[c] - center[c]) * (x[c] - center[c]));
    return;
  }
  TT_SIMD
  for (int64_t c = 0; c < C; ++c) {
    first[c] += static_cast<double>(dy[c]);
    second[c] += static_cast<double>(dy[c] * (x[c] - center[c]));
  }
}

template <class T>
void sum_runs(const RunSums<T>& s, const ChannelShape& shape, int64_t blocks, double* first, double* second) {
  const int64_t C = shape.C, S = shape.S, strips = S == 1 ? 1 : C;  // with S = 1 a task takes all channels
  const int64_t grain = grain_of(shape.N / blocks * S * (C / strips));
  parallel_for(blocks * strips, grain, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t block = task / strips, c = task % strips, width = C / strips;
      const int64_t n0 = shape.N * block / blocks, n1 = shape.N * (block + 1) / blocks;
      double *a = first + block * C + c, *b = second ? second + block * C + c : nullptr;
      std::fill_n(a, width, 0.0);
      if (b) std::fill_n(b, width, 0.0);
      double unused = 0;
      for (int64_t n = n0; n < n1; ++n) {
        if (S == 1) {
          sum_across(s, n, C, a, b);
        } else {
          const int64_t at = (n * C + c) * S;
          sum_one_run(s, s.x + at, s.dy ? s.dy + at : nullptr,
                      s.center ? s.center[n * s.center_step + c] : T(0), S, *a, b ? *b : unused);
        }
      }
    }
  });
}

// Sums per channel over the whole batch: blocks of samples are added in order.
template <class T>
struct ChannelSums {
  std::vector<double> first, second;
  ChannelSums(const RunSums<T>& s, const ChannelShape& shape) {
    const int64_t blocks = std::clamp<int64_t>(shape.N, 1, 8), C = shape.C;
    first.resize(static_cast<size_t>(blocks * C));
    if (s.kind == RunSum::products) second.resize(first.size());
    sum_runs(s, shape, blocks, first.data(), second.empty() ? nullptr : second.data());
    for (std::vector<double>* v : {&first, &second}) {
      for (size_t i = static_cast<size_t>(C); i < v->size(); ++i) (*v)[i % static_cast<size_t>(C)] += (*v)[i];
    }
  }
};

// out = a dy + b (x - center) + c, coefficients at [n * step + channel]. dy and a may be null.
template <class T>
struct RunCoefficients {
  std::vector<T> a, b, c, center;
  int64_t step;
  RunCoefficients(int64_t n, int64_t s)
      : a(static_cast<size_t>(n)), b(a.size()), c(a.size()), center(a.size()), step(s) {}
};

template <class T>
void combine_runs(T* out, const T* dy, const T* x, const RunCoefficients<T>& k, const ChannelShape& shape) {
  const int64_t C = shape.C, S = shape.S;
  parallel_for(shape.N * C, std::max<int64_t>(1, 16384 / S), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end;) {
      const int64_t n = r / C, c = r % C, at = n * k.step + c;
      if (S == 1) {
        const int64_t width = std::min(end - r, C - c);
        const T *a = k.a.data() + at, *b = k.b.data() + at, *d = k.c.data() + at, *m = k.center.data() + at;
        TT_SIMD
        for (int64_t i = 0; i < width; ++i) {
          out[r + i] = (dy ? a[i] * dy[r + i] : T(0)) + b[i] * (x[r + i] - m[i]) + d[i];
        }
        r += width;
        continue;
      }
      const auto i = static_cast<size_t>(at);
      const T a = k.a[i], b = k.b[i], d = k.c[i], m = k.center[i];
      const T *in = x + r * S, *grad = dy ? dy + r * S : nullptr;
      T* to = out + r * S;
      if (dy) {
        TT_SIMD
        for (int64_t j = 0; j < S; ++j) to[j] = a * grad[j] + b * (in[j] - m) + d;
      } else {
        TT_SIMD
        for (int64_t j = 0; j < S; ++j) to[j] = b * (in[j] - m) + d;
      }
      ++r;
    }
  });
}

TT_API void channel_moments(const View& mean, const View& var, const View& x) {
  const BatchShape shape(x);
  dispatch_floating(x.dtype, [&]<class T>(T*) {
    const DenseInput<T> in(shape.operand(x));
    const ChannelSums<T> sums({RunSum::value, in.data(), nullptr, nullptr, 0}, shape);
    for (int64_t c = 0; c < shape.C; ++c) {
      mean.as<T>()[c] = static_cast<T>(sums.first[static_cast<size_t>(c)] / shape.count());
    }
    const ChannelSums<T> squares({RunSum::square, in.data(), nullptr, mean.as<T>(), 0}, shape);
    for (int64_t c = 0; c < shape.C; ++c) {
      var.as<T>()[c] = static_cast<T>(squares.first[static_cast<size_t>(c)] / shape.count());
    }
  });
}

TT_API void batch_norm(const View& out, const View& x, const View& mean, const View& var, const View& weight,
                       const View& bias, double eps) {
  if (out.numel() == 0) return;
  const BatchShape shape(x);
  dispatch_floating(x.dtype, [&]<class T>(T*) {
    const DenseInput<T> in(shape.operand(x)), m(mean), v(var), w(weight), b(bias);
    DenseOutput<T> to(shape.operand(out));
    RunCoefficients<T> k(shape.C, 0);
    for (int64_t c = 0; c < shape.C; ++c) {
      const auto i = static_cast<size_t>(c);
      const double rstd = 1 / std::sqrt(static_cast<double>(v.data()[c]) + eps);
      k.b[i] = static_cast<T>(rstd * (w.data() ? static_cast<double>(w.data()[c]) : 1.0));
      k.c[i] = b.data() ? b.data()[c] : T(0);
      k.center[i] = m.data()[c];
    }
    combine_runs<T>(to.data(), nullptr, in.data(), k, shape);
    to.finish();
  });
}

template <class T>
void batch_norm_grad_as(const BatchNormGrads& out, const View& dy, const View& x, const View& mean,
                        const View& var, const View& weight, double eps, bool of_batch, const View& gmean,
                        const View& gvar) {
  const BatchShape shape(x);
  const DenseInput<T> grad(shape.operand(dy)), in(shape.operand(x)), m(mean), v(var), w(weight), gm(gmean),
      gv(gvar);
  DenseOutput<T> dx(shape.operand(out.dx)), dweight(out.dweight), dbias(out.dbias), dmean(out.dmean),
      dvar(out.dvar);
  const ChannelSums<T> sums({RunSum::products, in.data(), grad.data(), m.data(), 0}, shape);
  RunCoefficients<T> k(shape.C, 0);
  for (int64_t c = 0; c < shape.C; ++c) {
    const auto i = static_cast<size_t>(c);
    const double rstd = 1 / std::sqrt(static_cast<double>(v.data()[c]) + eps), n = shape.count();
    const double scale = rstd * (w.data() ? static_cast<double>(w.data()[c]) : 1.0);
    const double sum = sums.first[i], dot = sums.second[i];  // of dy, and of dy (x - mean)
    double by_x = 0, constant = 0;
    if (of_batch) {
      by_x = -scale * rstd * rstd * dot / n + (gv.data() ? 2 * static_cast<double>(gv.data()[c]) / n : 0);
      constant = -scale * sum / n + (gm.data() ? static_cast<double>(gm.data()[c]) / n : 0);
    }
    k.a[i] = static_cast<T>(scale);
    k.b[i] = static_cast<T>(by_x);
    k.c[i] = static_cast<T>(constant);
    k.center[i] = m.data()[c];
    if (dweight.data()) dweight.data()[c] = static_cast<T>(dot * rstd);
    if (dbias.data()) dbias.data()[c] = static_cast<T>(sum);
    if (dmean.data()) dmean.data()[c] = static_cast<T>(-scale * sum);
    if (dvar.data()) dvar.data()[c] = static_cast<T>(-0.5 * scale * rstd * rstd * dot);
  }
  if (dx.data()) combine_runs<T>(dx.data(), grad.data(), in.data(), k, shape);
  for (DenseOutput<T>* d : {&dx, &dweight, &dbias, &dmean, &dvar}) d->finish();
}

TT_API void batch_norm_grad(const BatchNormGrads& out, const View& dy, const View& x, const View& mean,
                            const View& var, const View& weight, double eps, bool of_batch, const View& gmean,
                            const View& gvar) {
  dispatch_floating(x.dtype, [&]<class T>(T*) {
    batch_norm_grad_as<T>(out, dy, x, mean, var, weight, eps, of_batch, gmean, gvar);
  });
}

TT_API void group_norm(const View& out, const View& mean, const View& rstd, const View& x, int64_t groups,
                       const View& weight, const View& bias, double eps) {
  if (out.numel() == 0) return;
  const ChannelShape shape(x);
  dispatch_floating(x.dtype, [&]<class T>(T*) {
    const DenseInput<T> in(x), w(weight), b(bias);
    DenseOutput<T> to(out);
    const int64_t group_c = shape.C / groups, length = group_c * shape.S;
    // The statistics are those of rows [N * G, length]; w and b are applied per channel here.
    parallel_for(shape.N * groups, std::max<int64_t>(1, 8192 / length), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const auto row = [length](const T* data) {
          return View{const_cast<T*>(data), dtype_of<T>, {1, length}, {length, 1}};
        };
        const auto number = [r](const View& v) { return View{v.as<T>() + r, dtype_of<T>, {1}, {1}}; };
        layer_norm(row(to.data() + r * length), number(mean), number(rstd), row(in.data() + r * length), {},
                   {}, eps);
        for (int64_t k = 0; (w.data() || b.data()) && k < group_c; ++k) {
          const int64_t c = r % groups * group_c + k;
          const T scale = w.data() ? w.data()[c] : T(1), shift = b.data() ? b.data()[c] : T(0);
          T* run = to.data() + r * length + k * shape.S;
          TT_SIMD
          for (int64_t i = 0; i < shape.S; ++i) run[i] = run[i] * scale + shift;
        }
      }
    });
    to.finish();
  });
}

template <class T>
void group_norm_grad_as(T* dx, T* dweight, T* dbias, const T* dy, const T* x, const T* mean, const T* rstd,
                        const T* weight, const ChannelShape& shape, int64_t groups) {
  const int64_t N = shape.N, C = shape.C, group_c = C / groups;
  const double length = static_cast<double>(group_c * shape.S);
  RunCoefficients<T> k(N * C, C);
  for (int64_t r = 0; r < N * C; ++r) k.center[static_cast<size_t>(r)] = mean[r / group_c];
  std::vector<double> sum(static_cast<size_t>(N * C)), dot(sum.size());
  sum_runs<T>({RunSum::products, x, dy, k.center.data(), C}, shape, N, sum.data(), dot.data());
  std::vector<double> weight_sum(static_cast<size_t>(C)), bias_sum(weight_sum.size());
  for (int64_t g = 0; g < N * groups; ++g) {
    double group_sum = 0, group_dot = 0;
    const double scale = static_cast<double>(rstd[g]);
    for (int64_t r = g * group_c; r < (g + 1) * group_c; ++r) {
      const auto i = static_cast<size_t>(r), c = static_cast<size_t>(r % C);
      const double w = weight ? static_cast<double>(weight[c]) : 1.0;
      group_sum += w * sum[i];
      group_dot += w * dot[i];
      weight_sum[c] += dot[i] * scale;
      bias_sum[c] += sum[i];
      k.a[i] = static_cast<T>(w * scale);
    }
    for (int64_t r = g * group_c; r < (g + 1) * group_c; ++r) {
      k.b[static_cast<size_t>(r)] = static_cast<T>(-scale * scale * scale * group_dot / length);
      k.c[static_cast<size_t>(r)] = static_cast<T>(-scale * group_sum / length);
    }
  }
  for (int64_t c = 0; c < C; ++c) {
    if (dweight) dweight[c] = static_cast<T>(weight_sum[static_cast<size_t>(c)]);
    if (dbias) dbias[c] = static_cast<T>(bias_sum[static_cast<size_t>(c)]);
  }
  if (dx) combine_runs<T>(dx, dy, x, k, shape);
}

TT_API void group_norm_grad(const View& dx, const View& dweight, const View& dbias, const View& dy,
                            const View& x, const View& mean, const View& rstd, int64_t groups,
                            const View& weight) {
  dispatch_floating(x.dtype, [&]<class T>(T*) {
    const DenseInput<T> grad(dy), in(x), w(weight);
    DenseOutput<T> to(dx), to_weight(dweight), to_bias(dbias);
    group_norm_grad_as<T>(to.data(), to_weight.data(), to_bias.data(), grad.data(), in.data(),
                          mean.as<const T>(), rstd.as<const T>(), w.data(), ChannelShape(x), groups);
    for (DenseOutput<T>* d : {&to, &to_weight, &to_bias}) d->finish();
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
