// ConstantCopy: equal elements in memory of its own.
#include <doctest/doctest.h>

#include <tinytorch/acceleration/constant_copy.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tensor/ops.hpp>

TEST_CASE("a copy of a constant has its shape, dtype and elements, and other memory") {
  namespace tt = tinytorch;
  for (const tt::DType dtype : {tt::f32, tt::bf16, tt::i64}) {
    const tt::Tensor constant = tt::arange(7).to(dtype).reshape({7, 1}), view = constant.expand({7, 3});
    for (const tt::Tensor& x : {constant, view}) {
      const tt::Tensor copy = tt::apply(tt::ConstantCopy(), {x});
      CHECK(copy.describe() == x.describe());
      CHECK(copy.to_vector<double>() == x.to_vector<double>());
      CHECK(copy.storage() != x.storage());
    }
  }
}
