#include <support/errors.hpp>

#include <cmath>
#include <support/few.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using test::expect_error;

TEST_CASE("batch_norm and group_norm of known values") {
  const tt::Tensor x = tt::from_data<double>({1, 10, 3, 30}, {2, 2});
  const tt::Tensor w = tt::from_data<double>({1, 2}), b = tt::from_data<double>({0, 5});
  const tt::Tensors r = tt::batch_norm_train(x, w, b, 0);
  CHECK(r[0].to_vector<double>() == std::vector<double>{-1, 3, 1, 7});
  CHECK(r[1].to_vector<double>() == std::vector<double>{2, 20});
  CHECK(r[2].to_vector<double>() == std::vector<double>{1, 100});
  CHECK(tt::batch_norm_infer(x, r[1], r[2], w, b, 0).to_vector<double>() == r[0].to_vector<double>());
  CHECK(tt::group_norm(x.reshape({1, 4, 1}), 2, {}, {}, 0).to_vector<double>() ==
        std::vector<double>{-1, 1, -1, 1});
}

TEST_CASE("channel norms: operands that do not fit are errors") {
  const tt::Tensor x = tt::zeros({2, 3, 4}), three = tt::zeros({3}), four = tt::zeros({4});
  expect_error("TT-SHAPE-02", "every parameter [C]", [&] { tt::batch_norm_train(x, four, three); });
  expect_error("TT-SHAPE-02", "shape [3]", [&] { tt::batch_norm_infer(x, three, four, three, three); });
  expect_error("TT-SHAPE-04", "unsqueeze(0)", [&] { tt::batch_norm_train(three, three, three); });
  expect_error("TT-SHAPE-10", "empty batch", [&] { tt::batch_norm_train(tt::zeros({0, 3}), three, three); });
  expect_error("TT-SHAPE-02", "2 groups do not divide", [&] { tt::group_norm(x, 2); });
  expect_error("TT-DTYPE-03", "batch_norm_infer",
               [&] { tt::batch_norm_infer(x, three.to(tt::f64), three.to(tt::f64), three, three); });
  expect_error("TT-DTYPE-02", "group_norm", [&] { tt::group_norm(tt::zeros({2, 3}, tt::i64), 3); });
}

TEST_CASE(
    "batch_norm of channels-last x gives channels-last results and gradients, with the same "
    "values" *
    test::long_on_emulator()) {
  for (const tt::Shape& shape : {tt::Shape{2, 7, 3}, tt::Shape{3, 4, 5, 6}, tt::Shape{2, 2, 3, 2, 5}}) {
    for (const tt::DType dtype : {tt::f32, tt::f64, tt::bf16}) {
      tt::Dims order{0, shape.size() - 1};  // the last dimension becomes the channel dimension
      for (int d = 1; d + 1 < shape.size(); ++d) order.push_back(d);
      const tt::Tensor x = tt::randn(shape, dtype).permute(order),
                       dy = tt::randn(shape, dtype).permute(order);
      const auto run = [](const tt::Tensor& values, const tt::Tensor& g) {
        tt::Tensor in = values.detach();
        in.requires_grad_();
        const tt::Tensor y = tt::batch_norm_train(in, {}, {})[0];
        y.backward(g);
        return tt::Tensors{y.detach(), in.grad()};
      };
      const tt::Tensors want = run(x.contiguous(), dy.contiguous());
      for (const tt::Tensor& g : {dy, dy.contiguous()}) {
        const tt::Tensors found = run(x, g);
        for (size_t i = 0; i < 2; ++i) {
          const auto a = want[i].to_vector<double>(), b = found[i].to_vector<double>();
          REQUIRE(a.size() == b.size());
          for (size_t k = 0; k < a.size(); ++k)
            CHECK(std::abs(a[k] - b[k]) <= (dtype == tt::bf16 ? 3e-2 : 1e-5));
          // The gradient of a leaf that is not an image is row-major.
          if (x.device().is_cpu() && (i == 0 || x.rank() == 4)) CHECK(found[i].strides() == x.strides());
        }
      }
    }
  }
}
