// Attention and its gradients by the definition, in double, with all probabilities stored.
#pragma once

#include <support/check.hpp>
#include <tinytorch/backend/parameters.hpp>
#include <tinytorch/core/random.hpp>

namespace course {

struct AttentionSizes {
  int64_t B, H, G, T, S, D;
  Shape q() const { return {B, H, T, D}; }
  Shape k() const { return {B, G, S, D}; }
  std::string str() const {
    const auto part = [](const char* name, int64_t n) { return std::string(name) + std::to_string(n); };
    return part("B ", B) + part(", H ", H) + part(", G ", G) + part(", T ", T) + part(", S ", S) +
           part(", D ", D);
  }
};

inline std::string name_of(const backend::AttentionParameters& p) {
  std::string text = p.causal ? ", causal" : "";
  if (p.window > 0) text += ", window " + std::to_string(p.window);
  if (p.lengths) text += ", with lengths";
  if (p.p > 0) text += ", dropout " + shown(p.p);
  return text;
}

// Inputs, results and gradients are row-major.
struct AttentionReference {
  AttentionSizes s;
  backend::AttentionParameters p;
  Numbers q, k, v;
  Numbers out, lse;    // after forward()
  Numbers dq, dk, dv;  // after backward()

  // The probability p_ij, before and after dropout.
  struct Weight {
    double p, kept;
  };
  std::vector<Weight> weights;  // [B, H, T, S]

  bool sees(int64_t b, int64_t t, int64_t j) const {
    const int64_t position = t + s.S - s.T;
    if (p.causal && j > position) return false;
    if (p.window > 0 && std::abs(j - position) >= p.window) return false;
    return !p.lengths || j < p.lengths[b];
  }
  double dropout(int64_t line, int64_t j) const {
    if (p.p == 0) return 1;
    const uint32_t word = philox(p.seed, p.dropout_block(line, j, s.S)).v[j % 4];
    return word < p.dropout_limit() ? 0 : p.dropout_scale();
  }
  const double* row(const Numbers& x, int64_t line) const { return x.data() + line * s.D; }
  int64_t key_line(int64_t line, int64_t j) const {  // row of key j for the query `line`
    const int64_t b = line / s.T / s.H, h = line / s.T % s.H;
    return (b * s.G + h * s.G / s.H) * s.S + j;
  }

  void forward() {
    const int64_t lines = s.B * s.H * s.T;
    out.assign(static_cast<size_t>(lines * s.D), 0), lse.assign(static_cast<size_t>(lines), -HUGE_VAL);
    weights.assign(static_cast<size_t>(lines * s.S), {0, 0});
    for (int64_t line = 0; line < lines; ++line) {
      std::vector<double> score(static_cast<size_t>(s.S), -HUGE_VAL);
      double top = -HUGE_VAL, sum = 0;
      for (int64_t j = 0; j < s.S; ++j) {
        if (!sees(line / s.T / s.H, line % s.T, j)) continue;
        double& x = score[static_cast<size_t>(j)] = 0;
        for (int64_t d = 0; d < s.D; ++d) x += row(q, line)[d] * row(k, key_line(line, j))[d];
        x *= p.scale;
        top = std::max(top, x);
      }
      if (top == -HUGE_VAL) continue;  // the query sees no key
      for (const double x : score) sum += std::exp(x - top);
      lse[static_cast<size_t>(line)] = top + std::log(sum);
      for (int64_t j = 0; j < s.S; ++j) {
        Weight& w = weights[static_cast<size_t>(line * s.S + j)];
        w.p = std::exp(score[static_cast<size_t>(j)] - top) / sum;
        w.kept = w.p * dropout(line, j);
        for (int64_t d = 0; d < s.D; ++d) {
          out[static_cast<size_t>(line * s.D + d)] += w.kept * row(v, key_line(line, j))[d];
        }
      }
    }
  }
  void backward(const Numbers& dout) {
    dq.assign(q.size(), 0), dk.assign(k.size(), 0), dv.assign(v.size(), 0);
    for (int64_t line = 0; line < s.B * s.H * s.T; ++line) {
      std::vector<double> dp(static_cast<size_t>(s.S));
      double mean = 0;  // sum of p dp
      for (int64_t j = 0; j < s.S; ++j) {
        const Weight w = weights[static_cast<size_t>(line * s.S + j)];
        double& x = dp[static_cast<size_t>(j)];
        for (int64_t d = 0; d < s.D; ++d) x += row(dout, line)[d] * row(v, key_line(line, j))[d];
        x *= dropout(line, j);
        mean += w.p * x;
      }
      for (int64_t j = 0; j < s.S; ++j) {
        const Weight w = weights[static_cast<size_t>(line * s.S + j)];
        const double ds = p.scale * w.p * (dp[static_cast<size_t>(j)] - mean);
        for (int64_t d = 0; d < s.D; ++d) {
          const auto at = static_cast<size_t>(line * s.D + d);
          const auto key = static_cast<size_t>(key_line(line, j) * s.D + d);
          dq[at] += ds * k[key];
          dk[key] += ds * q[at];
          dv[key] += w.kept * dout[at];
        }
      }
    }
  }
};

// The tolerance of a sum of n terms, in rounding errors as in Tolerance.
inline double roundings_of(int64_t n) { return 8 + 2 * std::sqrt(static_cast<double>(n)); }

}  // namespace course
