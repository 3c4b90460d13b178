// Row programs: shapes of some rows, and the steps on tiles of rows.
#include <doctest/doctest.h>

#include <support/row_functions.hpp>
#include <tinytorch/acceleration/agreement.hpp>
#include <tinytorch/acceleration/device_rows.hpp>
#include <tinytorch/acceleration/row_program.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace tt = tinytorch;
using tt::Shape;
using tt::Tensor;
using tt::Tensors;

TEST_CASE("the shape of some rows") {
  CHECK(tt::with_rows({2, 3, 5}, 6, 4) == Shape{1, 4, 5});
  CHECK(tt::with_rows({6, 5}, 6, 1) == Shape{1, 5});
  CHECK(tt::with_rows({6, 1}, 6, 4) == Shape{4, 1});
  CHECK(tt::with_rows({6}, 6, 4) == Shape{4});
  CHECK(tt::with_rows({1, 2, 3, 1, 1}, 6, 4) == Shape{1, 1, 4, 1, 1});
  CHECK(tt::with_rows({1, 5}, 1, 1) == Shape{1, 5});
}

TEST_CASE("rows minus their mean, in tiles: more tiles than threads, and a last tile of fewer rows") {
  for (const int64_t length : {2, 5, 1000, 40000}) {
    const int64_t rows = length > 1000 ? 5 : 4097;
    const Tensor x = tt::randn({rows, length});
    const tt::RowProgram program = tinytorch_tests::rows_of_function(
        [](const Tensors& in) {
          const Tensor mean = tt::mean(in[0], {-1}, true);
          return Tensors{mean, in[0] - mean};
        },
        {x});
    REQUIRE(program.inputs == 1);
    REQUIRE(program.outputs.size() == 2);
    const Tensor mean = tt::empty({rows, 1}, tt::f32, tt::cpu),
                 y = tt::empty({rows, length}, tt::f32, tt::cpu);
    tt::run_rows(program, {x}, {mean, y});
    const Tensor want = tt::mean(x, {-1}, true);
    CHECK(tt::same_bits(want, mean));
    CHECK(tt::same_bits(x - want, y));
    // Every row for itself.
    tt::RowsRun some(program, 2);
    const Tensor part = tt::empty({2, length}, tt::f32, tt::cpu);
    some.set(0, tt::rows_of(program, 0, x, 3, 2));
    some.set(program.outputs[1], part);
    some.run(tt::cpu);
    CHECK(part.to_vector() == (x - want).slice(0, 3, 5).to_vector());
  }
}
