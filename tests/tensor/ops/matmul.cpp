// The matmul family: every case in every dtype and layout.
#include <support/cases/matmul.hpp>
#include <support/check.hpp>
#include <support/errors.hpp>
#include <tinytorch/core/parallel.hpp>

using namespace cases;

TEST_CASE("matmul ops match their oracles") {
  for (const OpCase& c : matmul_cases()) check_values(c);
}
TEST_CASE("linear ops match their oracles") {
  for (const OpCase& c : linear_cases()) check_values(c);
}
TEST_CASE("matmul ops report their FLOPs and bytes") {
  for (const OpCase& c : matmul_cases()) check_cost(c);
  for (const OpCase& c : linear_cases()) check_cost(c);
}

using errors::check_error;

TEST_CASE("errors of matrix products, complete texts") {
  const Tensor a = tt::zeros({2, 3}).named("a"), b = tt::zeros({4, 5}).named("b"), s = tt::zeros({});
  check_error(
      "TT-SHAPE-02: matmul: inner sizes differ: 'a' f32 [2, 3] on cpu and 'b' f32 [4, 5] on cpu\n  rule: "
      "[..., M, K] x [..., K, N]: 3 is not 4\n  hint: transpose one operand with .t()",
      [&] { tt::matmul(a, b); });
  check_error(
      "TT-SHAPE-02: matmul: batch dimensions do not broadcast: f32 [2, 3, 4] on cpu and f32 [3, 4, 5] on cpu",
      [] {
        tt::matmul(tt::zeros({2, 3, 4}), tt::zeros({3, 4, 5}));
      });
  check_error(
      "TT-SHAPE-04: matmul: needs at least rank 1: 'a' f32 [2, 3] on cpu and f32 [] on cpu\n  hint: use * "
      "for scalars",
      [&] { tt::matmul(a, s); });
  check_error(
      "TT-DTYPE-03: matmul: operands differ in dtype: 'a' f32 [2, 3] on cpu and f64 [3, 2] on cpu\n  hint: "
      "convert one with .to(f32) or .to(f64)",
      [&] {
        tt::matmul(a, tt::zeros({3, 2}, tt::f64));
      });
  check_error(
      "TT-SHAPE-02: linear: sizes differ: 'a' f32 [2, 3] on cpu and 'b' f32 [4, 5] on cpu\n  rule: x [..., "
      "K], weight [N, K], bias [N]: the last size of x is the second of weight",
      [&] { tt::linear(a, b); });
  check_error("TT-SHAPE-04: linear: x needs at least rank 1, got f32 [] on cpu", [&] { tt::linear(s, b); });
}

TEST_CASE("batched products are bitwise the same with one and two threads") {
  tt::Generator g(1);
  const Tensor a = tt::randn({5, 1, 67, 129}, tt::f32, tt::cpu, g),
               b = tt::randn({3, 129, 71}, tt::f32, tt::cpu, g);
  tt::set_thread_count(1);
  const auto one = tt::matmul(a, b).to_vector();
  tt::set_thread_count(2);
  CHECK(tt::matmul(a, b).to_vector() == one);
}

TEST_CASE("NaN and infinity affect only the results that depend on them") {
  Tensor a = tt::ones({20, 20});
  a[3].slice(0, 4, 5).fill_(NAN);
  const Tensor y = tt::matmul(a, tt::ones({20, 20}));
  CHECK(std::isnan(y[3][7].item()));
  CHECK(y[2][7].item() == 20);
  CHECK(tt::sum(y == y).item<int>() == 380);
}
