#include <doctest/doctest.h>

#include <tinytorch/backend/strips24.hpp>

using namespace tinytorch;
using backend::Int4Strips24, backend::Strips24;

TEST_CASE("strips are whole for any matrix, and have 9/16 and 25/128 of the bytes of bf16") {
  CHECK(Strips24::shape(1, 4) == Shape{1, 1152});
  CHECK(Strips24::shape(17, 65) == Shape{2, 2304});
  CHECK(Strips24::shape(0, 64) == Shape{0, 1152});
  CHECK(Strips24::shape(4096, 8192).numel() * 16 == int64_t{4096} * 8192 * 2 * 9);
  const int64_t int4 =
      Int4Strips24::shape(4096, 8192).numel() + 2 * Int4Strips24::scales_shape(4096, 8192).numel();
  CHECK(int4 * 128 == int64_t{4096} * 8192 * 2 * 25);
  CHECK(Int4Strips24::scales_shape(17, 129) == Shape{2, 32});
}
