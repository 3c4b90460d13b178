// Sums and linear combinations over runs. A run is the S values of one channel of one sample of x [N, C, S].
//
// batch_norm and group_norm consist of two loops over runs: sums per run, and out = a dy + b (x - center) + c
// with coefficients per run. The statistics between the two loops are small and in double. If S = 1, adjacent
// values belong to different channels, and the loops vectorize across channels.
#pragma once

#include <tinytorch/backend/view.hpp>

#include <algorithm>
#include <tinytorch/backend/cpu/loops/runs.hpp>
#include <tinytorch/core/parallel.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// Sizes of x [N, C, ...], with all dimensions after C as S.
struct ChannelShape {
  int64_t N = 1, C = 1, S = 1;
  explicit ChannelShape(const View& x) : N(x.shape[0]), C(x.shape[1]) {
    for (int d = 2; d < x.rank(); ++d) S *= x.shape[d];
  }
  double count() const { return static_cast<double>(N * S); }
};

// The terms that are summed: x; (x - center)^2; or dy and dy (x - center), as two sums.
enum class RunSum : uint8_t { value, square, products };

// Operands of a sum over runs. The center of sample n, channel c is center[n * center_step + c].
template <class T>
struct RunSums {
  RunSum kind;
  const T *x, *dy, *center;
  int64_t center_step;
};

// Adds the sums over one run of n values to first, and to second for RunSum::products.
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

// Adds the terms of sample n to the sums of all C channels, for S = 1.
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

// Sums per channel over blocks of consecutive samples: first[block * C + c], and second for
// RunSum::products.
template <class T>
void sum_runs(const RunSums<T>& s, const ChannelShape& shape, int64_t blocks, double* first, double* second) {
  const int64_t C = shape.C, S = shape.S, strips = S == 1 ? 1 : C;  // with S = 1 a task sums all channels
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

// Sums per channel over the whole batch. Sums of blocks of samples are added in order, so the result does not
// depend on the number of threads.
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

// Coefficients of out = a dy + b (x - center) + c, those of sample n, channel k at index n * step + k.
template <class T>
struct RunCoefficients {
  std::vector<T> a, b, c, center;
  int64_t step;
  RunCoefficients(int64_t n, int64_t s)
      : a(static_cast<size_t>(n)), b(a.size()), c(a.size()), center(a.size()), step(s) {}
};

// out = b (x - center) + c for n values of one channel, and for n adjacent values of different channels. They
// are not inlined, so that all callers get the same bits: a compiler may join a product and a sum, or not.
template <class T>
[[gnu::noinline]] void scale_run(T* out, const T* x, T b, T center, T c, int64_t n) {
  TT_SIMD
  for (int64_t i = 0; i < n; ++i) out[i] = b * (x[i] - center) + c;
}
template <class T>
[[gnu::noinline]] void scale_across(T* out, const T* x, const T* b, const T* center, const T* c, int64_t n) {
  TT_SIMD
  for (int64_t i = 0; i < n; ++i) out[i] = b[i] * (x[i] - center[i]) + c[i];
}

// out = a dy + b (x - center) + c; dy may be null, and then a is not used.
template <class T>
void combine_runs(T* out, const T* dy, const T* x, const RunCoefficients<T>& k, const ChannelShape& shape) {
  const int64_t C = shape.C, S = shape.S;
  parallel_for(shape.N * C, std::max<int64_t>(1, 16384 / S), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end;) {
      const int64_t n = r / C, c = r % C, at = n * k.step + c;
      if (S == 1) {
        const int64_t width = std::min(end - r, C - c);
        const T *a = k.a.data() + at, *b = k.b.data() + at, *d = k.c.data() + at, *m = k.center.data() + at;
        if (dy) {
          TT_SIMD
          for (int64_t i = 0; i < width; ++i) out[r + i] = a[i] * dy[r + i] + b[i] * (x[r + i] - m[i]) + d[i];
        } else {
          scale_across(out + r, x + r, b, m, d, width);
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
        scale_run(to, in, b, m, d, S);
      }
      ++r;
    }
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
