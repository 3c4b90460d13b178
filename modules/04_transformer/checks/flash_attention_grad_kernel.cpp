#include <support/check.hpp>
#include <tinytorch/backend/cuda/launch.hpp>

#include "attention_kernel_reference.hpp"

using namespace course;

namespace {

void check(const AttentionCase& c) {
  AttentionOperands o(c);
  Values dout = Values::random(c.dtype, c.q(), c.layout).on_device();
  const AttentionAnswer want = attention_by_hand(o, dout.numbers());
  Values out = Values::of(c.dtype, c.q(), want.out, c.layout).on_device();
  Values lse = Values::of(c.dtype == f64 ? f64 : f32, {c.B, c.H, c.T}, want.lse).on_device();
  Values dq = Values(c.dtype, c.q(), c.layout).on_device();
  Values dk = Values(c.dtype, c.k(), c.layout).on_device(), dv = Values(c.dtype, c.k(), c.layout).on_device();
  backend::cuda::attention_grad(dq.view(), dk.view(), dv.view(), dout.view(), o.q.view(), o.k.view(),
                                o.v.view(), out.view(), lse.view(), o.parameters);
  // For a 16-bit dtype `out` was rounded, which adds an error to delta.
  const double stored = epsilon_of(c.dtype) / epsilon_of(c.dtype == f64 ? f64 : f32);
  const Tolerance close{.roundings =
                            256 + 4 * static_cast<double>(c.T * c.H) + stored * std::sqrt(2.0 * c.D)};
  expect_close("attention_grad: " + c.text() + ": dq", dq, want.dq, close);
  expect_close("attention_grad: " + c.text() + ": dv", dv, want.dv, close);
  expect_close("attention_grad: " + c.text() + ": dk", dk, want.dk, close);
}

}  // namespace

TEST_CASE("4.16 few queries and keys") {
  check({.T = 1, .S = 1});
  check({.T = 1, .S = 2});
  check({.T = 3, .S = 4});
  check({.B = 2, .H = 3, .G = 3, .T = 3, .S = 4});
}

TEST_CASE("4.16 more than a tile of keys, and of queries") {
  for (const int64_t S : {16, 17, 33}) check({.T = 2, .S = S});
  for (const int64_t T : {16, 17, 33}) check({.T = T, .S = 2});
  check({.H = 2, .G = 2, .T = 18, .S = 19});
}

TEST_CASE("4.16 heads of any length up to 256") {
  for (const int64_t D : {1, 15, 17, 40, 256}) check({.T = 3, .S = 5, .D = D});
}

TEST_CASE("4.16 causal: no gradient flows to a later key") {
  check({.T = 3, .S = 3, .causal = true});
  check({.T = 34, .S = 34, .causal = true});
  check({.T = 3, .S = 20, .causal = true});
  check({.T = 20, .S = 3, .causal = true});
}

TEST_CASE("4.16 windows and lengths; keys that no query sees have gradient zero") {
  check({.T = 35, .S = 35, .window = 5});
  check({.T = 35, .S = 35, .causal = true, .window = 18});
  check({.B = 3, .T = 18, .S = 18, .lengths = {7, 0, 18}});
}

TEST_CASE("4.16 heads that share keys: their gradients are added") {
  check({.B = 2, .H = 6, .G = 2, .T = 4, .S = 5});
  check({.H = 4, .G = 1, .T = 18, .S = 3});
}

TEST_CASE("4.16 dropout drops the same probabilities as the forward pass") {
  check({.B = 2, .H = 2, .G = 1, .T = 6, .S = 19, .p = 0.4});
}

TEST_CASE("4.16 any dtype and layout") {
  for (const DType t : {f64, bf16, f16}) check({.T = 5, .S = 18, .D = 9, .dtype = t});
  for (const Layout l : kLayouts)
    check({.B = 2, .H = 2, .G = 1, .T = 4, .S = 5, .causal = true, .layout = l});
}
