#include <tinytorch/tensor/ops/unbind.hpp>

#include <doctest/doctest.h>

#include <support/errors.hpp>
#include <support/gradients.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

TEST_CASE("unbind gives what select gives, of every dtype, and of strided tensors") {
  for (const tt::DType dtype : {tt::f32, tt::f64, tt::bf16, tt::f16, tt::i64, tt::i32, tt::u8, tt::boolean}) {
    INFO(tt::name_of(dtype));
    const tt::Tensor x = tt::arange(0, 30, 1, tt::i64).reshape({5, 3, 2}).to(dtype).transpose(0, 2);
    for (const int dim : {0, 1, 2, -1, -3}) {
      const tt::Tensors parts = tt::unbind(x, dim);
      REQUIRE(static_cast<int64_t>(parts.size()) == x.size(dim));
      for (size_t i = 0; i < parts.size(); ++i) {
        const tt::Tensor want = x.select(dim, static_cast<int64_t>(i));
        CHECK(parts[i].dtype() == dtype);
        CHECK(parts[i].shape() == want.shape());
        CHECK(parts[i].to(tt::f64).to_vector<double>() == want.contiguous().to(tt::f64).to_vector<double>());
      }
    }
  }
  CHECK(tt::unbind(tt::zeros({0, 3})).empty());
  CHECK(tt::unbind(tt::zeros({2, 0})).size() == 2);
  CHECK(tt::unbind(tt::ones({2}))[1].rank() == 0);
}

TEST_CASE("the gradient of unbind is zero for parts without a loss") {
  test::check_gradients(
      [](const tt::Tensors& in) {
        const tt::Tensors parts = tt::unbind(in[0], 1);
        return tt::square(parts[2]) * parts[1];  // neither the first part nor the last
      },
      {test::leaf({3, 4}, 1)});
  const tt::Tensor x = tt::ones({2, 2}).requires_grad_();
  tt::sum(tt::unbind(x)[1] * 3).backward();
  CHECK(x.grad().to_vector() == std::vector<float>{0, 0, 3, 3});
}

TEST_CASE("unbind refuses a scalar and a dimension that does not exist") {
  CHECK(errors::thrown_by([] { tt::unbind(tt::ones({})); }).code == "TT-SHAPE-03");
  CHECK(errors::thrown_by([] { tt::unbind(tt::ones({2}), 1); }).code == "TT-SHAPE-03");
}
