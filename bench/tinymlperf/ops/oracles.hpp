// Oracles: for each op, a function that computes one row of the output in f64, from the definition, with
// plain loops. They use no code of the library, so a mistake in the library is not repeated here.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>
#include <tinymlperf/channel/tensor.hpp>

namespace tinymlperf::judge::kernels::oracle {

using In = std::span<const channel::Tensor>;
using Out = std::span<double>;

// The values of an input, starting at an element.
inline const float* at(const channel::Tensor& t, int64_t element = 0) {
  return t.values<float>().data() + element;
}

inline double half_value(uint16_t bits) {
  const uint64_t exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double magnitude = exponent == 31  ? (fraction ? NAN : INFINITY)
                           : exponent == 0 ? static_cast<double>(fraction) * 0x1p-24
                                           : std::bit_cast<double>((exponent + 1008) << 52 | fraction << 42);
  return bits >> 15 ? -magnitude : magnitude;
}
inline std::vector<double> row_of_halves(const channel::Tensor& t, int64_t row) {
  const int64_t k = t.shape[1];
  std::vector<double> out;
  for (const uint16_t bits :
       t.values<uint16_t>().subspan(static_cast<size_t>(row * k), static_cast<size_t>(k)))
    out.push_back(half_value(bits));
  return out;
}

inline double square(double x) { return x * x; }

// out = x [k] times the matrix [k, n] whose elements are element(i, j).
template <class F>
void product_row(const float* x, int64_t k, Out out, F&& element) {
  std::ranges::fill(out, 0.0);
  for (int64_t i = 0; i < k; ++i)
    for (size_t j = 0; j < out.size(); ++j)
      out[j] += double{x[i]} * double{element(i, static_cast<int64_t>(j))};
}

// [..., m, k] x [..., k, n]: each batch has its own matrix.
inline void matmul(In in, int64_t row, Out out) {
  const auto& a = in[0].shape;
  const int64_t k = a.back(), m = a[a.size() - 2], n = in[1].shape.back();
  const float* b = at(in[1], row / m * k * n);
  product_row(at(in[0], row * k), k, out, [=](int64_t i, int64_t j) { return b[i * n + j]; });
}

inline void linear(In in, int64_t row, Out out) {
  const int64_t k = in[0].shape[1];
  const float* w = at(in[1]);
  product_row(at(in[0], row * k), k, out, [=](int64_t i, int64_t j) { return w[j * k + i]; });
  for (size_t j = 0; j < out.size(); ++j) out[j] += double{at(in[2])[j]};
}

// Computes a row of pixels of one output channel: 3 x 3 filters, stride 1, padding 1.
inline void conv2d(In in, int64_t row, Out out) {
  const auto& x = in[0].shape;
  const int64_t c = x[1], h = x[2], w = x[3], m = in[1].shape[0];
  const int64_t image = row / (m * h), filter = row / h % m, y = row % h;
  std::ranges::fill(out, double{at(in[2])[filter]});
  for (int64_t channel = 0; channel < c; ++channel)
    for (int64_t tap = 0; tap < 9; ++tap) {
      const int64_t from_y = y + tap / 3 - 1;
      if (from_y < 0 || from_y >= h) continue;
      const double weight = at(in[1])[(filter * c + channel) * 9 + tap];
      const float* pixels = at(in[0], ((image * c + channel) * h + from_y) * w);
      for (int64_t i = 0; i < w; ++i) {
        const int64_t from = i + tap % 3 - 1;
        if (from >= 0 && from < w) out[static_cast<size_t>(i)] += weight * double{pixels[from]};
      }
    }
}

inline void add(In in, int64_t row, Out out) {
  const float *x = at(in[0], row * in[0].shape[1]), *b = at(in[1]);
  for (size_t j = 0; j < out.size(); ++j) out[j] = double{x[j]} + double{b[j]};
}

inline void gelu(In in, int64_t row, Out out) {
  const float* x = at(in[0], row * in[0].shape[1]);
  for (size_t j = 0; j < out.size(); ++j)
    out[j] = 0.5 * double{x[j]} * std::erfc(-double{x[j]} / std::numbers::sqrt2);
}

// Writes exp(x - max) of a row, and returns their sum. The maximum of a row with a NaN is NaN.
inline double exponentials(const float* x, Out out) {
  double most = -INFINITY, sum = 0;
  for (size_t j = 0; j < out.size(); ++j)
    most = std::isnan(x[j]) || std::isnan(most) ? NAN : std::max(most, double{x[j]});
  for (size_t j = 0; j < out.size(); ++j) sum += out[j] = std::exp(double{x[j]} - most);
  return sum;
}
inline void softmax(In in, int64_t row, Out out) {
  const double sum = exponentials(at(in[0], row * in[0].shape[1]), out);
  for (double& y : out) y /= sum;
}
inline void log_softmax(In in, int64_t row, Out out) {
  const float* x = at(in[0], row * in[0].shape[1]);
  const double log_sum = std::log(exponentials(x, out)), most = *std::max_element(x, x + out.size());
  for (size_t j = 0; j < out.size(); ++j) out[j] = (double{x[j]} - most) - log_sum;
}

inline void layer_norm(In in, int64_t row, Out out) {
  const float* x = at(in[0], row * in[0].shape[1]);
  const auto n = static_cast<double>(out.size());
  double mean = 0, variance = 0;
  for (size_t j = 0; j < out.size(); ++j) mean += double{x[j]} / n;
  for (size_t j = 0; j < out.size(); ++j) variance += (double{x[j]} - mean) * (double{x[j]} - mean) / n;
  for (size_t j = 0; j < out.size(); ++j)
    out[j] = (double{x[j]} - mean) / std::sqrt(variance + 1e-5) * double{at(in[1])[j]} + double{at(in[2])[j]};
}
inline void rms_norm(In in, int64_t row, Out out) {
  const float* x = at(in[0], row * in[0].shape[1]);
  double square = 0;
  for (size_t j = 0; j < out.size(); ++j)
    square += double{x[j]} * double{x[j]} / static_cast<double>(out.size());
  for (size_t j = 0; j < out.size(); ++j)
    out[j] = double{x[j]} / std::sqrt(square + 1e-6) * double{at(in[1])[j]};
}

inline void sum_rows(In in, int64_t, Out out) {
  const int64_t n = in[0].shape[1];
  for (size_t i = 0; i < out.size(); ++i) {
    const float* x = at(in[0], static_cast<int64_t>(i) * n);
    out[i] = 0;
    for (int64_t j = 0; j < n; ++j) out[i] += double{x[j]};
  }
}

inline void max_pool2d(In in, int64_t row, Out out) {
  const int64_t h = in[0].shape[2], w = in[0].shape[3], plane = row / (h / 2), y = row % (h / 2);
  const float* x = at(in[0], (plane * h + 2 * y) * w);
  for (size_t j = 0; j < out.size(); ++j) {
    out[j] = -INFINITY;
    for (const int64_t place : {int64_t{0}, int64_t{1}, w, w + 1}) {
      const double v = x[2 * static_cast<int64_t>(j) + place];
      out[j] = std::isnan(v) || std::isnan(out[j]) ? NAN : std::max(out[j], v);
    }
  }
}

// Causal attention: query t of a head attends to the keys 0 to t.
inline void attention(In in, int64_t row, Out out) {
  const int64_t t = in[0].shape[1], d = in[0].shape[2], seen = row % t + 1, first = row / t * t;
  std::vector<double> score(static_cast<size_t>(seen));
  double most = -INFINITY, sum = 0;
  for (int64_t s = 0; s < seen; ++s) {
    double dot = 0;
    for (int64_t i = 0; i < d; ++i)
      dot += double{at(in[0])[row * d + i]} * double{at(in[1])[(first + s) * d + i]};
    most = std::max(most, score[static_cast<size_t>(s)] = dot / std::sqrt(static_cast<double>(d)));
  }
  for (double& s : score) sum += s = std::exp(s - most);
  std::ranges::fill(out, 0.0);
  for (int64_t s = 0; s < seen; ++s)
    for (int64_t i = 0; i < d; ++i)
      out[static_cast<size_t>(i)] +=
          score[static_cast<size_t>(s)] / sum * double{at(in[2])[(first + s) * d + i]};
}

inline void embedding(In in, int64_t row, Out out) {
  const float* from = at(in[0], in[1].values<int64_t>()[static_cast<size_t>(row)] * in[0].shape[1]);
  std::copy_n(from, out.size(), out.begin());
}

// Row 0 is the parameter; rows 1 and 2 are the first and the second moment. Step 10 with a learning rate of
// 0.001 and a weight decay of 0.01.
inline void adamw(In in, int64_t row, Out out) {
  constexpr double kRate = 1e-3, kBeta1 = 0.9, kBeta2 = 0.999, kEps = 1e-8, kDecay = 0.01, kStep = 10;
  for (size_t i = 0; i < out.size(); ++i) {
    const double p = at(in[0])[i], g = at(in[1])[i];
    const double m = kBeta1 * double{at(in[2])[i]} + (1 - kBeta1) * g,
                 v = kBeta2 * double{at(in[3])[i]} + (1 - kBeta2) * g * g;
    const double step =
        m / (1 - std::pow(kBeta1, kStep)) / (std::sqrt(v / (1 - std::pow(kBeta2, kStep))) + kEps);
    out[i] = row == 1 ? m : row == 2 ? v : p * (1 - kRate * kDecay) - kRate * step;
  }
}

}  // namespace tinymlperf::judge::kernels::oracle
