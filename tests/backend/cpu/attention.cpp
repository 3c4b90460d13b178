// Attention forward. attention_grad is compared with the definition here, and has more tests in
// attention_grad.cpp.
#include <support/attention_reference.hpp>
#include <tinytorch/backend/cpu/attention.hpp>
#include <tinytorch/backend/cpu/attention_grad.hpp>
#include <tinytorch/core/parallel.hpp>

using namespace test;
namespace kernels = tinytorch::backend::cpu;

TEST_CASE("attention and its gradients equal the definition") {
  uint64_t seed = 1;
  attention_cases(false, [&](const AttentionCase& c) {
    check_attention<Array>(c, seed += 10, false, kernels::attention, kernels::attention_grad);
  });
}

TEST_CASE("a query that sees no key gives zeros; empty operands are accepted") {
  // Queries have the last positions: with 6 queries and 2 keys, the first four queries precede every key.
  Array q = Array::random(f32, {1, 1, 6, 8}, 1), k = Array::random(f32, {1, 1, 2, 8}, 2),
        out(f32, {1, 1, 6, 8}), lse(f32, {1, 1, 6});
  kernels::attention(out.view(), lse.view(), q.view(), k.view(), k.view(), {.causal = true});
  const std::vector<double> y = out.values(), sums = lse.values();
  for (size_t t = 0; t < 6; ++t) {
    CHECK((sums[t] == -INFINITY) == (t < 4));
    for (size_t d = 0; t < 4 && d < 8; ++d) CHECK(y[t * 8 + d] == 0);
  }
  Array none(f32, {1, 1, 0, 8}), no_lse(f32, {1, 1, 0});
  kernels::attention(none.view(), no_lse.view(), none.view(), k.view(), k.view(), {});
  kernels::attention(out.view(), lse.view(), q.view(), none.view(), none.view(), {});
  CHECK(out.values() == std::vector<double>(48, 0));
}

TEST_CASE("NaN in a key reaches the queries that see it, and no others") {
  Array q = Array::random(f32, {1, 1, 40, 8}, 1), k = Array::random(f32, {1, 1, 40, 8}, 2),
        v = Array::random(f32, {1, 1, 40, 8}, 3), out(f32, {1, 1, 40, 8}), lse(f32, {1, 1, 40});
  std::vector<double> values = k.values();
  values[20 * 8 + 3] = NAN;
  Array spoiled = Array::from(f32, {1, 1, 40, 8}, values);
  kernels::attention(out.view(), lse.view(), q.view(), spoiled.view(), v.view(), {.causal = true});
  const std::vector<double> y = out.values();
  for (size_t i = 0; i < y.size(); ++i) CHECK(std::isnan(y[i]) == (i / 8 >= 20));
}

namespace {

// Puts `bad` at row `position` of operand 0 to 3 (q, k, v, dout) and compares with the definition which
// results are finite, and the values of these.
void check_spoiled(const AttentionCase& c, int spoiled, int64_t position, double bad) {
  CAPTURE(spoiled);
  CAPTURE(position);
  const AttentionSizes& n = c.n;
  const Shape queries{n.B, n.H, n.T, n.D}, keys{n.B, n.G, n.S, n.D};
  std::vector<std::vector<double>> values;
  for (uint64_t i = 0; i < 4; ++i)
    values.push_back(Array::random(c.dtype, i % 3 == 0 ? queries : keys, i + 1, -1, 1).values());
  values[static_cast<size_t>(spoiled)][static_cast<size_t>(position * n.D + n.D / 2)] = bad;
  Array q = Array::from(c.dtype, queries, values[0]), k = Array::from(c.dtype, keys, values[1]),
        v = Array::from(c.dtype, keys, values[2]), dout = Array::from(c.dtype, queries, values[3]);
  Array out(c.dtype, queries), lse(c.dtype, {n.B, n.H, n.T}), dq(c.dtype, queries), dk(c.dtype, keys),
      dv(c.dtype, keys);
  AttentionParameters rules = c.rules;
  if (!c.lengths.empty()) rules.lengths = c.lengths.data();
  kernels::attention(out.view(), lse.view(), q.view(), k.view(), v.view(), rules);
  kernels::attention_grad(dq.view(), dk.view(), dv.view(), dout.view(), q.view(), k.view(), v.view(),
                          out.view(), lse.view(), rules);
  const AttentionExpected e = attention_reference(n, rules, c.lengths, q.values(), k.values(), v.values(),
                                                  dout.values(), out.values());
  const std::pair<std::vector<double>, const std::vector<double>*> results[] = {{out.values(), &e.out},
                                                                                {lse.values(), &e.lse},
                                                                                {dq.values(), &e.dq},
                                                                                {dk.values(), &e.dk},
                                                                                {dv.values(), &e.dv}};
  for (const auto& [got, want] : results) {
    size_t wrong = 0, finite = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      const double w = (*want)[i];
      finite += std::isfinite(w);
      wrong += std::isfinite(w) ? !(std::abs(got[i] - w) <= 1e-4 * (1 + std::abs(w))) : std::isfinite(got[i]);
    }
    CHECK(wrong == 0);
    CHECK((finite > 0 || want != &e.out));
  }
}

}  // namespace

TEST_CASE("NaN and infinities reach exactly the results that depend on them") {
  const AttentionCase cases[] = {
      {{1, 1, 1, 150, 150, 20}, f32, Layout::dense, {.scale = 0.2, .causal = true}},
      {{1, 1, 1, 70, 110, 8}, f64, Layout::dense, {.scale = 0.2, .causal = true, .window = 9}},
      {{1, 2, 1, 40, 107, 12}, f32, Layout::dense, {.scale = 0.2}, {100}},  // no query sees row 103
  };
  for (const AttentionCase& c : cases) {
    for (int spoiled = 0; spoiled < 4; ++spoiled) {
      for (const double bad : {static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
        const bool of_keys = spoiled == 1 || spoiled == 2;
        if (spoiled == 0 && std::isinf(bad)) continue;  // some of its keys have probability 0, or NaN
        for (const int64_t position : {int64_t{3}, of_keys ? c.n.S - 4 : c.n.T - 4})
          if (c.lengths.empty() || position > 100 || !of_keys) check_spoiled(c, spoiled, position, bad);
      }
    }
  }
}

TEST_CASE("results do not depend on the number of threads") {
  Array q = Array::random(f32, {2, 3, 70, 16}, 1), k = Array::random(f32, {2, 3, 70, 16}, 2),
        one(f32, {2, 3, 70, 16}), three(f32, {2, 3, 70, 16}), lse(f32, {2, 3, 70});
  const int before = thread_count();
  set_thread_count(1);
  kernels::attention(one.view(), lse.view(), q.view(), k.view(), k.view(), {.causal = true});
  set_thread_count(3);
  kernels::attention(three.view(), lse.view(), q.view(), k.view(), k.view(), {.causal = true});
  set_thread_count(before);
  CHECK(one.bytes() == three.bytes());
}
