#include <tinytorch/backend/cpu/attention_grad.hpp>

#include "reference.hpp"

using namespace course;
using backend::AttentionParameters;

namespace {

constexpr DType kDTypes[] = {f32, f64, bf16, f16};

void check(DType dtype, const AttentionSizes& s, AttentionParameters p = {},
           Layout layout = Layout::contiguous) {
  p.scale = 1 / std::sqrt(static_cast<double>(s.D));
  Values q = Values::random(dtype, s.q(), layout), k = Values::random(dtype, s.k(), layout);
  Values v = Values::random(dtype, s.k(), layout), dout = Values::random(dtype, s.q(), layout);
  AttentionReference want{.s = s, .p = p, .q = q.numbers(), .k = k.numbers(), .v = v.numbers()};
  want.forward();
  want.backward(dout.numbers());
  Values out = Values::of(dtype, s.q(), want.out, layout);
  Values lse = Values::of(dtype == f64 ? f64 : f32, {s.B, s.H, s.T}, want.lse);
  Values dq(dtype, s.q(), layout), dk(dtype, s.k(), layout), dv(dtype, s.k(), layout);
  backend::cpu::attention_grad(dq.view(), dk.view(), dv.view(), dout.view(), q.view(), k.view(), v.view(),
                               out.view(), lse.view(), p);
  const std::string what = "attention_grad, " + s.str() + course::name_of(p) + ", " +
                           tinytorch::name_of(dtype) + ", " + name_of_layout(layout);
  const double share = static_cast<double>(s.H / s.G * s.T);  // number of queries that add to a key
  // For a 16-bit dtype `out` was rounded, which adds an error to dout . out.
  const double rounded = is_16_bit(dtype) ? epsilon_of(dtype) / epsilon_of(f32) : 1;
  const double n = roundings_of(s.S + s.D) * rounded;
  expect_close(what + ": dv", dv, want.dv, {.roundings = roundings_of(s.S + s.D) * share});
  expect_close(what + ": dq", dq, want.dq, {.roundings = n});
  expect_close(what + ": dk", dk, want.dk, {.roundings = n * share});
}

}  // namespace

TEST_CASE("4.7 one key: only its value has a gradient") {
  check(f64, {1, 1, 1, 1, 1, 2});
  check(f32, {1, 1, 1, 1, 1, 4});
}

TEST_CASE("4.7 one query") {
  check(f64, {1, 1, 1, 1, 2, 1});
  check(f32, {1, 1, 1, 1, 5, 3});
}

TEST_CASE("4.7 queries add to the keys that they share") {
  check(f32, {1, 1, 1, 4, 3, 2});
  check(f64, {1, 1, 1, 13, 7, 5});
}

TEST_CASE("4.7 samples, heads, dtypes and layouts") {
  for (const DType dtype : kDTypes) {
    for (const Layout layout : kLayouts) check(dtype, {2, 3, 3, 5, 7, 4}, {}, layout);
  }
}

TEST_CASE("4.7 heads of a group add to the same keys and values") {
  check(f32, {2, 4, 2, 3, 5, 4});
  check(f64, {1, 6, 1, 2, 5, 3});
}

TEST_CASE("4.7 hidden keys and values get no gradient") {
  for (const AttentionSizes& s : {AttentionSizes{1, 1, 1, 4, 4, 2}, {2, 2, 1, 9, 9, 3}, {1, 2, 2, 3, 8, 4}}) {
    check(f32, s, {.causal = true});
    check(f64, s, {.causal = true, .window = 3});
  }
  const int64_t lengths[] = {5, 2};
  check(f32, {2, 2, 1, 3, 6, 4}, {.lengths = lengths});
}

TEST_CASE("4.7 a query that sees no key has no gradient") {
  check(f32, {1, 2, 1, 6, 3, 4}, {.causal = true});
  const int64_t lengths[] = {3, 0};
  check(f64, {2, 1, 1, 2, 4, 3}, {.lengths = lengths});
}

TEST_CASE("4.7 dropout drops the same probabilities as the forward pass") {
  check(f32, {2, 2, 1, 5, 9, 3}, {.p = 0.5, .seed = 7, .first_block = 11});
  check(f64, {1, 2, 2, 5, 6, 3}, {.causal = true, .p = 0.25, .seed = 3});
}
