// Shared shape and dtype rules: the complete text of every error.
#include <support/errors.hpp>
#include <tinytorch/tensor/rules.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using errors::check_error;
using tt::Tensor;

namespace {
const tt::Loc kHere{__FILE__, 1};
}

TEST_CASE("operands are described in order, without undefined ones") {
  const Tensor a = tt::empty({2}).named("a"), b = tt::empty({3}, tt::i64);
  CHECK(tt::describe_operands({a, Tensor(), b}) == errors::here("'a' f32 [2] on cpu and i64 [3] on cpu"));
  CHECK(tt::describe_operands({}).empty());
}

TEST_CASE("errors of the rank rule") {
  tt::require_rank("op", tt::empty({2, 3}), 2, "a matrix [M, N]", kHere);
  check_error(
      "TT-SHAPE-04: op: expected a matrix [M, N] (rank 2), got f32 [2] on cpu\n  hint: reshape, unsqueeze or "
      "squeeze "
      "the operand",
      [] { tt::require_rank("op", tt::empty({2}), 2, "a matrix [M, N]", kHere); });
}

TEST_CASE("errors of the dtype rules") {
  for (const auto t : {tt::f32, tt::f64, tt::bf16, tt::f16})
    tt::require_floating("op", tt::empty({}, t), kHere);
  check_error(
      "TT-DTYPE-02: op: needs a floating dtype, got i64 [2] on cpu\n  hint: convert first with .to(f32)",
      [] { tt::require_floating("op", tt::empty({2}, tt::i64), kHere); });
  check_error(
      "TT-DTYPE-05: op: bool is not a number type here, got bool [2] on cpu\n  hint: convert first with "
      ".to(f32) or "
      ".to(i64), or use logical_and / logical_or",
      [] { tt::require_accepted("op", tt::Accepts::numbers, tt::empty({2}, tt::boolean), kHere); });
  tt::require_accepted("op", tt::Accepts::anything, tt::empty({2}, tt::boolean), kHere);
  tt::require_accepted("op", tt::Accepts::numbers, tt::empty({2}, tt::u8), kHere);
  CHECK_THROWS_AS(tt::require_accepted("op", tt::Accepts::floating, tt::empty({2}, tt::u8), kHere),
                  tt::Error);
  tt::require_same_dtype("op", {tt::empty({2}), Tensor(), tt::empty({3})}, kHere);
  check_error(
      "TT-DTYPE-03: op: operands differ in dtype: f32 [2] on cpu and 'w' f64 [3] on cpu\n  hint: convert one "
      "with "
      ".to(f32) or .to(f64)",
      [] {
        tt::require_same_dtype("op", {tt::empty({2}), tt::empty({3}, tt::f64).named("w")}, kHere);
      });
  tt::require_index("op", tt::empty({2}, tt::i64), kHere);
  check_error("TT-DTYPE-04: op: indices must be i64, got i32 [2] on cpu\n  hint: convert them with .to(i64)",
              [] { tt::require_index("op", tt::empty({2}, tt::i32), kHere); });
}

TEST_CASE("errors of the broadcasting rule") {
  CHECK(tt::broadcast_or_fail("op", tt::empty({2, 1}), tt::empty({3}), kHere) == tt::Shape{2, 3});
  check_error(
      "TT-SHAPE-02: op: shapes do not broadcast: 'a' f32 [2, 3] on cpu and 'b' f32 [4] on cpu\n  rule: "
      "aligned at the "
      "right, each pair of sizes is equal or one of them is 1\n  hint: insert a dimension with unsqueeze, or "
      "transpose "
      "one operand",
      [] {
        tt::broadcast_or_fail("op", tt::empty({2, 3}).named("a"), tt::empty({4}).named("b"), kHere);
      });
}
