// The form of pointwise programs: numbers of values, and which dtypes a program can compute.
#include <doctest/doctest.h>

#include <tinytorch/backend/pointwise.hpp>

using namespace tinytorch;
using namespace tinytorch::backend;

TEST_CASE("values are numbered from the inputs on") {
  using Kind = PointwiseStep::Kind;
  const PointwiseProgram p{
      f32,
      {f32, bf16},
      {{Kind::convert, 0, f16, {0, -1, -1}, {}}, {Kind::where, 0, boolean, {2, 0, 1}, {}}},
      {3}};
  CHECK(p.values() == 4);
  const DType expected[] = {f32, bf16, f16, boolean};
  for (int v = 0; v < 4; ++v) CHECK(p.dtype_of_value(v) == expected[v]);
  CHECK(p.steps[0].operands() == 1);
  CHECK(p.steps[1].operands() == 3);
  CHECK(PointwiseStep{Kind::binary, 0, f32, {0, 1, -1}, {}}.operands() == 2);
}

TEST_CASE("a program computes dtypes that fit its compute type exactly") {
  for (const DType d : {f32, bf16, f16, boolean}) CHECK(pointwise_dtype(d, f32));
  for (const DType d : {f64, i8, u8, i32, i64}) CHECK(!pointwise_dtype(d, f32));
  CHECK(pointwise_dtype(f64, f64));
  CHECK(pointwise_dtype(boolean, f64));
  for (const DType d : {f32, bf16, f16, i32, i64}) CHECK(!pointwise_dtype(d, f64));
}
