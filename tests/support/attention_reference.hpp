// Reference implementation of attention in double, with all weights stored, for all attention kernels.
#pragma once

#include <cmath>
#include <support/array.hpp>
#include <tinytorch/backend/parameters.hpp>
#include <tinytorch/core/random.hpp>
#include <vector>

namespace test {

using backend::AttentionParameters;

// q [B, H, T, D], k and v [B, G, S, D]
struct AttentionSizes {
  int64_t B = 1, H = 1, G = 1, T = 1, S = 1, D = 1;
};

struct AttentionExpected {
  std::vector<double> out, lse, dq, dk, dv;
};

// `result` is the forward output that the gradient kernels get, rounded as the kernel rounds it.
inline AttentionExpected attention_reference(const AttentionSizes& n, const AttentionParameters& p,
                                             const std::vector<int64_t>& lengths,
                                             const std::vector<double>& q, const std::vector<double>& k,
                                             const std::vector<double>& v, const std::vector<double>& dout,
                                             const std::vector<double>& result) {
  const auto size = [&](int64_t heads, int64_t rows) {
    return static_cast<size_t>(n.B * heads * rows * n.D);
  };
  AttentionExpected e{std::vector<double>(size(n.H, n.T)),
                      {},
                      std::vector<double>(size(n.H, n.T)),
                      std::vector<double>(size(n.G, n.S)),
                      std::vector<double>(size(n.G, n.S))};
  const auto D = static_cast<size_t>(n.D), keys = static_cast<size_t>(n.S);
  for (int64_t line = 0; line < n.B * n.H * n.T; ++line) {
    const int64_t t = line % n.T, head = line / n.T % n.H, batch = line / n.T / n.H;
    const int64_t position = t + n.S - n.T;
    const size_t row = static_cast<size_t>(line) * D;
    const size_t first_key = static_cast<size_t>((batch * n.G + head / (n.H / n.G)) * n.S) * D;
    std::vector<double> score(keys), weight(keys), keep(keys, 1);
    std::vector<size_t> seen_keys;  // masked keys are skipped, because 0 times their value could be NaN
    double top = -INFINITY, sum = 0;
    for (size_t s = 0; s < keys; ++s) {
      const auto key = static_cast<int64_t>(s);
      const bool exists = lengths.empty() || key < lengths[static_cast<size_t>(batch)];
      const bool seen = exists && (!p.causal || key <= position) &&
                        (p.window == 0 || (key > position - p.window && key < position + p.window));
      if (seen) seen_keys.push_back(s);
      score[s] = seen ? 0 : -INFINITY;
      for (size_t d = 0; seen && d < D; ++d) score[s] += p.scale * q[row + d] * k[first_key + s * D + d];
      top = score[s] > top || score[s] != score[s] ? score[s] : top;
      if (p.p > 0) {
        const uint64_t block = p.first_block + static_cast<uint64_t>(line * ((n.S + 3) / 4) + key / 4);
        const uint32_t word = tinytorch::philox(p.seed, block).v[key % 4];
        keep[s] = p.p < 1 && word >= static_cast<uint32_t>(p.p * 0x1p32) ? 1 / (1 - p.p) : 0;
      }
    }
    for (size_t s = 0; s < keys; ++s) sum += score[s] == -INFINITY ? 0 : std::exp(score[s] - top);
    e.lse.push_back(sum == 0 ? -INFINITY : top + std::log(sum));
    double delta = 0;
    std::vector<double> slope(keys);  // gradients of the weights
    for (const size_t s : seen_keys) {
      weight[s] = sum == 0 || score[s] == -INFINITY ? 0 : std::exp(score[s] - top) / sum;
      for (size_t d = 0; d < D; ++d) {
        e.out[row + d] += weight[s] * keep[s] * v[first_key + s * D + d];
        e.dv[first_key + s * D + d] += weight[s] * keep[s] * dout[row + d];
        slope[s] += keep[s] * dout[row + d] * v[first_key + s * D + d];
      }
    }
    for (size_t d = 0; d < D; ++d) delta += dout[row + d] * result[row + d];
    for (const size_t s : seen_keys) {
      const double ds = p.scale * weight[s] * (slope[s] - delta);
      for (size_t d = 0; d < D; ++d) {
        e.dq[row + d] += ds * k[first_key + s * D + d];
        e.dk[first_key + s * D + d] += ds * q[row + d];
      }
    }
  }
  return e;
}

struct AttentionCase {
  AttentionSizes n;
  DType dtype;
  Layout layout = Layout::dense;
  AttentionParameters rules = {};
  std::vector<int64_t> lengths = {};  // per sample; empty: S
};

// Forward and backward pass of one backend on random operands. A: Array or DeviceArray. rounded: true if the
// kernels round the weights to the operands' dtype, which tensor cores require.
template <class A, class Forward, class Backward>
void check_attention(const AttentionCase& c, uint64_t seed, bool rounded, Forward&& forward,
                     Backward&& backward) {
  const AttentionSizes& n = c.n;
  INFO(name_of(c.dtype), " B ", n.B, " H ", n.H, " G ", n.G, " T ", n.T, " S ", n.S, " D ", n.D, " layout ",
       static_cast<int>(c.layout), " causal ", c.rules.causal, " window ", c.rules.window, " dropout ",
       c.rules.p);
  const Shape queries{n.B, n.H, n.T, n.D}, keys{n.B, n.G, n.S, n.D};
  A q = A::random(c.dtype, queries, seed, -2, 2, c.layout),
    k = A::random(c.dtype, keys, seed + 1, -2, 2, c.layout),
    v = A::random(c.dtype, keys, seed + 2, -1, 1, c.layout),
    dout = A::random(c.dtype, queries, seed + 3, -1, 1, c.layout);
  A out(c.dtype, queries, c.layout), lse(c.dtype == f64 ? f64 : f32, {n.B, n.H, n.T});
  A dq(c.dtype, queries, c.layout), dk(c.dtype, keys, c.layout), dv(c.dtype, keys, c.layout);
  AttentionParameters rules = c.rules;
  rules.scale = 1 / std::sqrt(static_cast<double>(n.D));
  A lengths = A::from(i64, {std::ssize(c.lengths)}, {c.lengths.begin(), c.lengths.end()});
  if (!c.lengths.empty()) rules.lengths = lengths.view().template as<const int64_t>();
  forward(out.view(), lse.view(), q.view(), k.view(), v.view(), rules);
  backward(dq.view(), dk.view(), dv.view(), dout.view(), q.view(), k.view(), v.view(), out.view(), lse.view(),
           rules);
  const AttentionExpected e = attention_reference(n, rules, c.lengths, q.values(), k.values(), v.values(),
                                                  dout.values(), out.values());
  const auto keys_of_all = static_cast<double>(n.S),
             queries_of_all = static_cast<double>(n.T * n.H / std::max<int64_t>(n.G, 1));
  const auto steps = [&](double terms) { return 100 + 8 * std::sqrt(static_cast<double>(n.D)) + terms; };
  // Values are within [-1, 1], and weights add up to 1 (1 / (1 - p) after dropout). The gradients of the
  // scores, times the scale, are bounded in the same way.
  const double rounding = rounded ? epsilon_of(c.dtype) / epsilon_of(f32) / (1 - c.rules.p) : 0;
  check_close(out.values(), e.out, c.dtype, steps(keys_of_all), 1 + rounding / steps(keys_of_all));
  check_close(lse.values(), e.lse, c.dtype == f64 ? f64 : f32, steps(keys_of_all));
  const auto of_gradient = [&](double terms) { return 2 + 2 * rounding / steps(terms); };
  check_close(dq.values(), e.dq, c.dtype, steps(keys_of_all), of_gradient(keys_of_all));
  check_close(dk.values(), e.dk, c.dtype, steps(queries_of_all), of_gradient(queries_of_all));
  check_close(dv.values(), e.dv, c.dtype, steps(queries_of_all), of_gradient(queries_of_all));
}

// Sizes below, at and above the tiles of every backend; masks; grouped-query attention; dropout. `small`: for
// the emulator.
template <class Check>
void attention_cases(bool small, Check&& check) {
  for (const DType t : kFloating) {
    for (const Layout layout : kLayouts)
      check(AttentionCase{{2, 2, 2, 5, 5, 8}, t, layout, {.causal = true}});
    check(AttentionCase{{1, 1, 1, 1, 1, 1}, t});
    check(AttentionCase{{1, 2, 1, 33, 47, 20}, t});
    check(AttentionCase{{1, 4, 2, 17, 50, 33}, t, Layout::gaps, {.causal = true}});
    check(AttentionCase{{1, 2, 2, 40, 40, 16}, t, Layout::dense, {.causal = true, .window = 7}});
    check(AttentionCase{{1, 1, 1, 40, 35, 12}, t, Layout::dense, {.window = 5}});
    check(AttentionCase{
        {1, 3, 1, 9, 18, 24}, t, Layout::dense, {.causal = true, .p = 0.3, .seed = 5, .first_block = 77}});
    check(AttentionCase{{3, 2, 1, 9, 20, 16}, t, Layout::dense, {.causal = true}, {20, 13, 0}});
    if (small && (t == f64 || t == f16)) continue;
    for (const int64_t D : {32, 64, 72, 128, 256})
      check(AttentionCase{{1, 1, 1, 35, 39, D}, t, Layout::dense, {.causal = true}});
  }
  if (small) return;
  for (const int64_t T : {95, 96, 97, 112, 127, 128, 129, 300}) {
    check(AttentionCase{{1, 2, 1, T, T, 64}, f32, Layout::dense, {.causal = true}});
    check(AttentionCase{{2, 2, 2, T, T + 31, 40}, bf16, Layout::gaps, {.causal = true, .window = 50}});
    check(AttentionCase{{1, 1, 1, 3, T, 64}, f32});
  }
}

}  // namespace test
