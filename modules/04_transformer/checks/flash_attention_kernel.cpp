#include <support/check.hpp>
#include <tinytorch/backend/cuda/launch.hpp>

#include "attention_kernel_reference.hpp"

using namespace course;

namespace {

void check(const AttentionCase& c) {
  AttentionOperands o(c);
  const AttentionAnswer want = attention_by_hand(o);
  Values out = Values(c.dtype, c.q(), c.layout).on_device();
  Values lse = Values(c.dtype == f64 ? f64 : f32, {c.B, c.H, c.T}).on_device();
  backend::cuda::attention(out.view(), lse.view(), o.q.view(), o.k.view(), o.v.view(), o.parameters);
  const double roundings = 64 + 16 * c.size * c.size * static_cast<double>(c.D);
  expect_close("attention: " + c.text() + ": out", out, want.out, {.roundings = roundings});
  expect_close("attention: " + c.text() + ": lse", lse, want.lse, {.roundings = roundings});
}

}  // namespace

TEST_CASE("4.15 a query's weighted mean of the values") {
  check({.T = 1, .S = 1});
  check({.T = 1, .S = 2});
  check({.T = 3, .S = 4});
  check({.B = 2, .H = 3, .G = 3, .T = 3, .S = 4});
}

TEST_CASE("4.15 more keys than a tile: the running maximum and sum") {
  for (const int64_t S : {15, 16, 17, 32, 33}) check({.T = 2, .S = S});
  check({.T = 2,
         .S = 50,
         .size = 8});  // large scores: e^score would overflow, and the maximum differs between tiles
}

TEST_CASE("4.15 more queries than a tile") {
  for (const int64_t T : {15, 16, 17, 33}) check({.T = T, .S = 9});
  check({.H = 2, .G = 2, .T = 18, .S = 18});
}

TEST_CASE("4.15 heads of any length up to 256") {
  for (const int64_t D : {1, 15, 16, 17, 40, 256}) check({.T = 3, .S = 18, .D = D});
  AttentionOperands o({.D = 257});
  Values out = Values(f32, o.c.q()).on_device(), lse = Values(f32, {1, 1, 5}).on_device();
  expect_throws("TT-SHAPE-04", "attention with a head size of 257", [&] {
    backend::cuda::attention(out.view(), lse.view(), o.q.view(), o.k.view(), o.v.view(), o.parameters);
  });
}

TEST_CASE("4.15 causal: no query sees a later key") {
  check({.T = 3, .S = 3, .causal = true});
  check({.T = 35, .S = 35, .causal = true});
  check({.T = 3, .S = 20, .causal = true});  // the queries are the last positions
  check({.T = 20, .S = 3, .causal = true});  // the first queries see no key: zeros, and lse is -infinity
}

TEST_CASE("4.15 windows and lengths") {
  check({.T = 40, .S = 40, .window = 5});
  check({.T = 40, .S = 40, .causal = true, .window = 18});
  check({.B = 3, .T = 20, .S = 20, .lengths = {7, 0, 20}});
  check({.B = 2, .T = 20, .S = 20, .causal = true, .lengths = {3, 17}});
}

TEST_CASE("4.15 heads that share keys") {
  check({.B = 2, .H = 6, .G = 2, .T = 4, .S = 5});
  check({.H = 4, .G = 1, .T = 4, .S = 18, .causal = true});
}

TEST_CASE("4.15 dropout changes the probabilities, not the sum that divides them") {
  check({.B = 2, .H = 2, .G = 2, .T = 6, .S = 19, .p = 0.4});
  check({.H = 2, .G = 1, .T = 18, .S = 18, .causal = true, .p = 0.25});
}

TEST_CASE("4.15 any dtype and layout") {
  for (const DType t : {f64, bf16, f16}) check({.T = 5, .S = 18, .D = 9, .dtype = t});
  for (const Layout l : kLayouts)
    check({.B = 2, .H = 2, .G = 1, .T = 4, .S = 5, .causal = true, .layout = l});
  check({.B = 0});
}
