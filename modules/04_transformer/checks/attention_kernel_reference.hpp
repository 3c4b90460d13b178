// Attention and its gradients in double, with the whole matrix of probabilities, for the checks of the CUDA
// kernels.
#pragma once

#include <limits>
#include <support/check.hpp>
#include <tinytorch/backend/parameters.hpp>
#include <tinytorch/core/random.hpp>

namespace course {

struct AttentionCase {
  int64_t B = 1, H = 1, G = 1, T = 5, S = 5, D = 4;
  bool causal = false;
  int64_t window = 0;
  std::vector<int64_t> lengths = {};
  double p = 0;  // probability of dropout
  DType dtype = f32;
  Layout layout = Layout::contiguous;
  double size = 1;  // magnitude of queries and keys

  Shape q() const { return {B, H, T, D}; }
  Shape k() const { return {B, G, S, D}; }
  double scale() const { return 1 / std::sqrt(static_cast<double>(D)); }
  std::string text() const {
    std::string s = "q " + q().str() + ", k and v " + k().str();
    if (causal) s += ", causal";
    if (window > 0) s += ", window " + std::to_string(window);
    if (!lengths.empty()) s += ", lengths " + shown(lengths);
    if (p > 0) s += ", dropout " + shown(p);
    return s + ", " + name_of(dtype) + ", " + name_of_layout(layout);
  }
  bool sees(int64_t b, int64_t t, int64_t s) const {
    const int64_t position = t + S - T;
    if (causal && s > position) return false;
    if (window > 0 && std::abs(position - s) >= window) return false;
    return lengths.empty() || s < lengths[static_cast<size_t>(b)];
  }
};

struct AttentionOperands {
  AttentionCase c;
  backend::AttentionParameters parameters;
  Values q, k, v, lengths;
  explicit AttentionOperands(const AttentionCase& given)
      : c(given),
        q(Values::random(c.dtype, c.q(), c.layout, -c.size, c.size).on_device()),
        k(Values::random(c.dtype, c.k(), c.layout, -c.size, c.size).on_device()),
        v(Values::random(c.dtype, c.k(), c.layout).on_device()),
        lengths(Values::of(i64, {static_cast<int64_t>(std::max<size_t>(c.lengths.size(), 1))},
                           c.lengths.empty() ? Numbers{0} : Numbers(c.lengths.begin(), c.lengths.end()))
                    .on_device()) {
    parameters.scale = c.scale();
    parameters.causal = c.causal;
    parameters.window = c.window;
    if (!c.lengths.empty()) parameters.lengths = lengths.view().as<const int64_t>();
    parameters.p = c.p;
    parameters.seed = 77;
    parameters.first_block = 3;
  }
  size_t place(int64_t b, int64_t h, int64_t heads, int64_t row, int64_t rows, int64_t d) const {
    return static_cast<size_t>(((b * heads + h) * rows + row) * c.D + d);
  }
};

struct AttentionAnswer {
  Numbers out, lse, dq, dk, dv;
};

// With an empty dout only the forward pass is computed.
inline AttentionAnswer attention_by_hand(AttentionOperands& o, const Numbers& dout = {}) {
  const AttentionCase& c = o.c;
  const Numbers q = o.q.numbers(), k = o.k.numbers(), v = o.v.numbers();
  AttentionAnswer a{Numbers(q.size()), {}, Numbers(q.size()), Numbers(k.size()), Numbers(k.size())};
  const auto columns = static_cast<size_t>(c.D), keys = static_cast<size_t>(c.S);
  for (int64_t b = 0; b < c.B; ++b) {
    for (int64_t h = 0; h < c.H; ++h) {
      const int64_t g = h / (c.H / c.G);
      for (int64_t t = 0; t < c.T; ++t) {
        const double* const query = q.data() + o.place(b, h, c.H, t, c.T, 0);
        Numbers score(keys), keep(keys, 1);
        double largest = -std::numeric_limits<double>::infinity(), sum = 0;
        for (size_t s = 0; s < keys; ++s) {
          const double* const key = k.data() + o.place(b, g, c.G, static_cast<int64_t>(s), c.S, 0);
          for (size_t d = 0; d < columns; ++d) score[s] += c.scale() * query[d] * key[d];
          if (!c.sees(b, t, static_cast<int64_t>(s))) score[s] = -std::numeric_limits<double>::infinity();
          largest = std::max(largest, score[s]);
        }
        const int64_t line = (b * c.H + h) * c.T + t;
        a.lse.push_back(largest);
        if (!std::isfinite(largest)) continue;
        for (size_t s = 0; s < keys; ++s) sum += std::exp(score[s] - largest);
        a.lse.back() = largest + std::log(sum);
        Numbers probability(keys), dp(keys);
        double* const result = a.out.data() + o.place(b, h, c.H, t, c.T, 0);
        double delta = 0;
        for (size_t s = 0; s < keys; ++s) {
          const auto key = static_cast<int64_t>(s);
          probability[s] = std::exp(score[s] - a.lse.back());
          const uint32_t word = philox(77, o.parameters.dropout_block(line, key, c.S)).v[s % 4];
          if (c.p > 0) keep[s] = static_cast<double>(word) >= c.p * 0x1p32 ? 1 / (1 - c.p) : 0;
          const double* const value = v.data() + o.place(b, g, c.G, key, c.S, 0);
          for (size_t d = 0; d < columns; ++d) {
            result[d] += probability[s] * keep[s] * value[d];
            if (!dout.empty()) dp[s] += dout[o.place(b, h, c.H, t, c.T, 0) + d] * value[d] * keep[s];
          }
          delta += probability[s] * dp[s];
        }
        if (dout.empty()) continue;
        for (size_t s = 0; s < keys; ++s) {
          const size_t row = o.place(b, g, c.G, static_cast<int64_t>(s), c.S, 0);
          const double ds = c.scale() * probability[s] * (dp[s] - delta);
          for (size_t d = 0; d < columns; ++d) {
            a.dq[o.place(b, h, c.H, t, c.T, 0) + d] += ds * k[row + d];
            a.dk[row + d] += ds * query[d];
            a.dv[row + d] += probability[s] * keep[s] * dout[o.place(b, h, c.H, t, c.T, 0) + d];
          }
        }
      }
    }
  }
  return a;
}

}  // namespace course
