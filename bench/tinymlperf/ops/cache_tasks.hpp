// The ops of `krn` on a paged KV cache. Both have one layout:
//
//   pools   keys and values [pages, g, page, d]: the rows of each head of a page in turn
//   table   i32 [s, width]: token t of sequence b is row t % page of page table[b, t / page]
//   step    rows first_row[b] to first_row[b + 1] (i64 [s + 1]) of the n rows of a step are the last tokens
//           of sequence b, which has lengths[b] tokens (i64 [s]), with these
//
// Pages lie in any order, some pages of the pool belong to nobody, and last pages are partly filled. Whatever
// no sequence holds is NaN, so that a kernel which reads it is wrong.
#pragma once

#include <bit>
#include <cmath>
#include <tinymlperf/ops/oracles.hpp>
#include <tinymlperf/ops/task.hpp>

namespace tinymlperf::judge::kernels {

// The numbers of a shape {s, t, g, r, d, page, width}: s sequences with t new tokens each on average, g heads
// of keys with r query heads each, d features; sequences that have about width * page older tokens.
struct PagedSides {
  explicit PagedSides(const Shape& x)
      : s(x[0]), t(x[1]), g(x[2]), r(x[3]), d(x[4]), page(x[5]), past(x[5] * x[6]), n(s * t) {
    width = x[6] + (2 * t + page - 1) / page;  // no sequence has more than 2 t new tokens
    pages = s * width + kSpare;
  }
  static constexpr int64_t kSpare = 3;  // pages of nobody
  int64_t s, t, g, r, d, page, past, n, width = 0, pages = 0;
};

namespace oracle {

// The step's operands, which follow one another in both ops.
struct PagedStep {
  PagedStep(const channel::Tensor& t, const channel::Tensor& l, const channel::Tensor& f, int64_t rows)
      : table(t.values<int32_t>()),
        lengths(l.values<int64_t>()),
        first_row(f.values<int64_t>()),
        width(t.shape[1]),
        page(rows) {}
  // The sequence of a row of the step.
  size_t sequence_of(int64_t row) const {
    size_t b = 0;
    while (first_row[b + 1] <= row) ++b;
    return b;
  }
  int64_t position_of(size_t b, int64_t row) const { return lengths[b] - (first_row[b + 1] - row); }
  // The row of a token within the pool, for head h of g.
  int64_t place(size_t b, int64_t token, int64_t h, int64_t g) const {
    const int64_t at = table[b * static_cast<size_t>(width) + static_cast<size_t>(token / page)];
    return (at * g + h) * page + token % page;
  }
  std::span<const int32_t> table;
  std::span<const int64_t> lengths, first_row;
  int64_t width, page;
};

// q [n, h, d], keys and values, table, lengths, first_row.
inline void attention_paged(In in, int64_t row, Out out) {
  const int64_t heads = in[0].shape[1], g = in[1].shape[1], d = in[0].shape[2];
  const PagedStep step(in[3], in[4], in[5], in[1].shape[2]);
  const size_t b = step.sequence_of(row / heads);
  const int64_t seen = step.position_of(b, row / heads) + 1, group = row % heads / (heads / g);
  const float *q = in[0].values<float>().data() + row * d, *keys = in[1].values<float>().data(),
              *values = in[2].values<float>().data();
  std::vector<double> score;
  double most = -INFINITY, sum = 0;
  for (int64_t t = 0; t < seen; ++t) {
    double dot = 0;
    for (int64_t i = 0; i < d; ++i) dot += double{q[i]} * double{keys[step.place(b, t, group, g) * d + i]};
    score.push_back(dot / std::sqrt(static_cast<double>(d)));
    most = std::max(most, score.back());
  }
  for (double& x : score) sum += x = std::exp(x - most);
  std::ranges::fill(out, 0.0);
  for (int64_t t = 0; t < seen; ++t)
    for (int64_t i = 0; i < d; ++i)
      out[static_cast<size_t>(i)] +=
          score[static_cast<size_t>(t)] / sum * double{values[step.place(b, t, group, g) * d + i]};
}

inline double rounded_to_bf16(float x) {
  if (!std::isfinite(x)) return double{x};
  const auto bits = std::bit_cast<uint32_t>(x);
  return double{std::bit_cast<float>((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u)};
}

// k and v [n, g, d], table, lengths, first_row, and the numbers of pages and of rows of a page. A row of the
// result [2, pages, g, page, d] is NaN unless a new token belongs there.
inline void kv_append(In in, int64_t row, Out out) {
  const int64_t g = in[0].shape[1], d = in[0].shape[2], page = in[5].values<int64_t>()[1];
  const PagedStep step(in[2], in[3], in[4], page);
  const int64_t half = in[5].values<int64_t>()[0] * g * page;
  const channel::Tensor& from = in[static_cast<size_t>(row / half)];
  std::ranges::fill(out, NAN);
  for (int64_t n = 0; n < in[0].shape[0]; ++n) {
    const size_t b = step.sequence_of(n);
    const int64_t h = row / page % g;
    if (step.place(b, step.position_of(b, n), h, g) != row % half) continue;
    for (int64_t i = 0; i < d; ++i)
      out[static_cast<size_t>(i)] =
          rounded_to_bf16(from.values<float>()[static_cast<size_t>((n * g + h) * d + i)]);
  }
}

}  // namespace oracle

namespace detail {

// Table, lengths and first_row of a step, from operand `at` on. `share`: sequences may have the same first
// page, as those with a common beginning have.
inline void arrange_step(const PagedSides& p, bool share, tinytorch::Generator& random, channel::Tensors& in,
                         size_t at) {
  const auto table = in[at].mutable_values<int32_t>();
  const auto lengths = in[at + 1].mutable_values<int64_t>(), first = in[at + 2].mutable_values<int64_t>();
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random.below(static_cast<uint64_t>(n))); };
  std::vector<int32_t> order(static_cast<size_t>(p.pages));
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  std::copy_n(order.begin(), table.size(), table.begin());
  std::vector<int64_t> news(static_cast<size_t>(p.s), p.t);
  for (int64_t i = 0; i < p.s * p.t; ++i) {
    int64_t &from = news[random.below(news.size())], &to = news[random.below(news.size())];
    if (from > 1 && to < 2 * p.t) --from, ++to;
  }
  for (size_t b = 0; b < news.size(); ++b) {
    first[b + 1] = first[b] + news[b];
    const int64_t past = p.past / 2 + below(p.past - p.past / 2 + 1);
    lengths[b] = past + news[b];
    const auto w = static_cast<size_t>(p.width);
    const bool both_full = b > 0 && past >= p.page && lengths[b - 1] - news[b - 1] >= p.page;
    if (share && both_full && random.below(2) == 0) table[b * w] = table[(b - 1) * w];
  }
}

// Fills the rows of a pool that no sequence holds with NaN.
inline void poison(const PagedSides& p, const channel::Tensors& in, size_t pool, channel::Tensor& out) {
  const oracle::PagedStep step(in[pool], in[pool + 1], in[pool + 2], p.page);
  std::vector<bool> held(static_cast<size_t>(p.pages * p.g * p.page));
  for (size_t b = 0; b < static_cast<size_t>(p.s); ++b)
    for (int64_t t = 0; t < step.lengths[b]; ++t)
      for (int64_t h = 0; h < p.g; ++h) held[static_cast<size_t>(step.place(b, t, h, p.g))] = true;
  const auto values = out.mutable_values<float>();
  for (size_t row = 0; row < held.size(); ++row)
    if (!held[row])
      std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(row) * p.d, p.d,
                  std::numeric_limits<float>::quiet_NaN());
}

inline void append_step(const PagedSides& p, Operands& out) {
  out.push_back({{p.s, p.width}, Role::arranged, 0, channel::DType::i32});
  out.push_back({{p.s}, Role::arranged, 0, channel::DType::i64});
  out.push_back({{p.s + 1}, Role::arranged, 0, channel::DType::i64});
}

inline KernelTask attention_paged_task() {
  KernelTask t{
      "attention_paged",
      "softmax(q k^T / sqrt d) v of the last tokens of each sequence over its pages: q [n, g r, d]; keys and "
      "values [pages, g, page, d]; table i32 [s, width]; lengths i64 [s]; first_row i64 [s + 1]: [n, g r, "
      "d]. "
      "Query head h reads head h / r of the keys. Row i of a sequence with c rows and length l sees the "
      "tokens 0 "
      "to l - c + i. Token t is row t % page of page table[b, t / page]; sequences may share pages. All "
      "other "
      "rows of the pools are NaN",
      {{16, 1, 4, 2, 64, 16, 16},
       {8, 4, 8, 1, 64, 32, 8},
       {4, 1, 8, 4, 128, 64, 8},
       {32, 1, 12, 1, 64, 16, 4}},
      {{32, 1, 8, 4, 128, 64, 12},
       {16, 4, 12, 1, 64, 64, 32},
       {8, 1, 8, 8, 128, 16, 192},
       {64, 1, 12, 1, 64, 64, 8}},
      {1, 1, 1, 1, 1, 1, 1},
      {4, 4, 3, 3, 43, 17, 5},
      Exact::never,
      0,
      {D::huge, D::zeros, D::subnormal, D::one_hot, D::duplicates},
      [](const Shape& x) -> Operands {
        const PagedSides p(x);
        const Shape pool{p.pages, p.g, p.page, p.d};
        Operands out{{{p.n, p.g * p.r, p.d}}, {pool}, {pool}};
        append_step(p, out);
        return out;
      },
      [](const Shape& x) -> Shape {
        const PagedSides p(x);
        return {p.n, p.g * p.r, p.d};
      },
      oracle::attention_paged,
      [](const Shape& x) {  // of the shortest sequences
        const PagedSides p(x);
        return static_cast<double>(2 * p.n * p.g * p.r * p.d * (p.past / 2));
      }};
  t.arrange = [](const Shape& x, D, tinytorch::Generator& random, channel::Tensors& in) {
    const PagedSides p(x);
    arrange_step(p, true, random, in, 3);
    poison(p, in, 3, in[1]), poison(p, in, 3, in[2]);
  };
  // The tokens of one sequence, which the others may share in part: their first page.
  t.traffic = [](const Shape& x) -> Traffic {
    const PagedSides p(x);
    const int64_t tokens = std::max<int64_t>(0, p.past / 2 - p.page), row = 4 * p.g * p.d;
    return {static_cast<double>(2 * p.s * tokens * row + p.n * p.r * row),
            static_cast<double>(p.n * p.r * row)};
  };
  return t;
}

inline KernelTask kv_append_task() {
  KernelTask t{
      "kv_append",
      "writes k and v [n, g, d] of new tokens to their pages, rounded to bf16 (ties to even): table i32 [s, "
      "width]; lengths i64 [s], with the new tokens; first_row i64 [s + 1]; i64 [2]: pages and page. Row i "
      "of a sequence with c rows and length l is token l - c + i, which is row t % page of page table[b, t / "
      "page]. Result: keys, then values, bf16 [2, pages, g, page, d], NaN at first; whatever belongs to no "
      "new token stays NaN. Every bit must agree",
      {{16, 24, 8, 1, 64, 16, 2},
       {8, 96, 4, 1, 64, 32, 2},
       {4, 64, 8, 1, 128, 64, 1},
       {64, 8, 12, 1, 64, 16, 1}},
      {{64, 64, 8, 1, 128, 64, 1},
       {32, 256, 8, 1, 64, 64, 2},
       {8, 1024, 8, 1, 128, 64, 1},
       {256, 16, 12, 1, 64, 16, 2}},
      {1, 1, 1, 1, 1, 1, 1},
      {4, 4, 3, 1, 43, 17, 3},
      Exact::always,
      0,
      {D::offset, D::huge, D::zeros, D::subnormal, D::not_finite},
      [](const Shape& x) -> Operands {
        const PagedSides p(x);
        Operands out{{{p.n, p.g, p.d}}, {{p.n, p.g, p.d}}};
        append_step(p, out);
        out.push_back({{2}, Role::arranged, 0, channel::DType::i64});
        return out;
      },
      [](const Shape& x) -> Shape {
        const PagedSides p(x);
        return {2, p.pages, p.g, p.page, p.d};
      },
      oracle::kv_append,
      [](const Shape&) { return 0.0; }};
  t.result = channel::DType::bf16;
  t.partial = true;
  t.arrange = [](const Shape& x, D, tinytorch::Generator& random, channel::Tensors& in) {
    const PagedSides p(x);
    arrange_step(p, false, random, in, 2);
    const auto pool = in[5].mutable_values<int64_t>();
    pool[0] = p.pages, pool[1] = p.page;
  };
  t.traffic = [](const Shape& x) -> Traffic {
    const PagedSides p(x);
    return {static_cast<double>(8 * p.n * p.g * p.d), static_cast<double>(4 * p.n * p.g * p.d)};
  };
  return t;
}

inline void add_cache_ops(std::vector<KernelTask>& out) {
  out.push_back(attention_paged_task());
  out.push_back(kv_append_task());
}

}  // namespace detail
}  // namespace tinymlperf::judge::kernels
