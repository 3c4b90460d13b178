#include <tinytorch/tensor/ops/conv_transpose.hpp>

#include <doctest/doctest.h>

#include <support/errors.hpp>
#include <support/golden_calls.hpp>
#include <support/gradients.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using errors::thrown_by;
using nlohmann::json;

namespace {
tt::Tensor third(const tt::Tensors& in) { return in.size() > 2 ? in[2] : tt::Tensor(); }
tt::ConvTransposeOptions transposed(const json& o) {
  return {.stride = o.value("stride", 1),
          .padding = o.value("padding", 0),
          .output_padding = o.value("output_padding", 0),
          .groups = o.value("groups", 1),
          .dilation = o.value("dilation", 1)};
}
}  // namespace

TEST_CASE("conv1d and transposed convolutions have PyTorch's values and gradients") {
  CHECK(golden::check_calls("conv1d", [](const json& o, const tt::Tensors& in) -> tt::Tensors {
          return {tt::conv1d(in[0], in[1], third(in),
                             {.stride = o.value("stride", 1),
                              .padding = o.value("padding", 0),
                              .dilation = o.value("dilation", 1),
                              .groups = o.value("groups", 1)})};
        }) == 3);
  CHECK(golden::check_calls("conv_transpose1d", [](const json& o, const tt::Tensors& in) -> tt::Tensors {
          return {tt::conv_transpose1d(in[0], in[1], third(in), transposed(o))};
        }) == 4);
  CHECK(golden::check_calls("conv_transpose2d", [](const json& o, const tt::Tensors& in) -> tt::Tensors {
          return {tt::conv_transpose2d(in[0], in[1], third(in), transposed(o))};
        }) == 4);
}

TEST_CASE("conv_transpose2d is the transpose of conv2d: <conv(a), b> = <a, conv_transpose(b)>") {
  tt::manual_seed(1);
  const tt::Tensor weight = tt::randn({5, 3, 3, 4}, tt::f64), a = tt::randn({2, 3, 11, 8}, tt::f64);
  const tt::Tensor y = tt::conv2d(a, weight, {}, {.stride = 2, .padding = 1});
  const tt::Tensor b = tt::randn(y.shape(), tt::f64);
  const tt::Tensor back = tt::conv_transpose2d(b, weight, {}, {.stride = 2, .padding = 1});
  REQUIRE(back.shape() == a.shape());
  const double right = tt::sum(back * a).item<double>();
  CHECK(std::abs(tt::sum(y * b).item<double>() - right) < 1e-9 * (1 + std::abs(right)));
}

TEST_CASE("channels-last images give channels-last results of the same values on the CPU") {
  tt::manual_seed(2);
  const tt::Tensor x = tt::randn({2, 8, 5, 6}), w = tt::randn({8, 4, 3, 3});
  const tt::Tensor last = x.permute({0, 2, 3, 1}).contiguous().permute({0, 3, 1, 2});
  const tt::Tensor y = tt::conv_transpose2d(x, w, {}, {.stride = 2}),
                   z = tt::conv_transpose2d(last, w, {}, {.stride = 2});
  CHECK(z.strides() == (z.device().is_cpu() ? tt::Strides{572, 1, 52, 4} : y.strides()));
  check_values(z.contiguous().to_vector<double>(), y.to_vector<double>(), 1e-5);
}

TEST_CASE("NaN stays in its window; empty batches; float16") {
  tt::Tensor x = tt::zeros({1, 1, 4});
  x = tt::where(tt::arange(0, 4).reshape({1, 1, 4}) == 3, tt::full({}, NAN), x);
  const std::vector<float> y = tt::conv_transpose1d(x, tt::ones({1, 1, 2})).to_vector();
  CHECK(y[0] == 0);
  CHECK(y[2] == 0);
  CHECK(std::isnan(y[3]));
  CHECK(std::isnan(y[4]));
  CHECK(tt::conv_transpose2d(tt::zeros({0, 2, 3, 3}), tt::zeros({2, 4, 2, 2})).shape() ==
        tt::Shape{0, 4, 4, 4});
  CHECK(tt::conv1d(tt::zeros({0, 2, 3}), tt::zeros({4, 2, 2})).shape() == tt::Shape{0, 4, 2});
  const tt::Tensor half = tt::conv_transpose1d(tt::ones({1, 1, 2}, tt::f16), tt::ones({1, 1, 2}, tt::f16));
  CHECK(half.to(tt::f32).to_vector() == std::vector<float>{1, 2, 1});
}

TEST_CASE("convolutions refuse sizes and options that do not fit") {
  const tt::Tensor x = tt::zeros({2, 4, 5}), w = tt::zeros({4, 3, 3});
  const tt::Tensor image = tt::zeros({2, 4, 5, 5}), filter = tt::zeros({4, 3, 3, 3});
  CHECK(thrown_by([&] { tt::conv1d(image, w); }).code == "TT-SHAPE-04");
  CHECK(thrown_by([&] { tt::conv1d(x, w); }).code == "TT-SHAPE-02");
  CHECK(thrown_by([&] { tt::conv1d(x, tt::zeros({3, 4, 9})); }).code == "TT-SHAPE-20");
  CHECK(thrown_by([&] { tt::conv1d(x, tt::zeros({3, 4, 3}), {}, {.padding = -1}); }).code == "TT-RANGE-08");
  CHECK(thrown_by([&] { tt::conv_transpose1d(image, w); }).code == "TT-SHAPE-04");
  CHECK(thrown_by([&] { tt::conv_transpose1d(x, w, {}, {.padding = 4}); }).code == "TT-RANGE-08");
  CHECK(thrown_by([&] { tt::conv_transpose1d(x, w, tt::zeros({4})); }).code == "TT-SHAPE-02");
  CHECK(thrown_by([&] { tt::conv_transpose2d(x, filter); }).code == "TT-SHAPE-04");
  CHECK(thrown_by([&] { tt::conv_transpose2d(image, tt::zeros({3, 4, 3, 3})); }).code == "TT-SHAPE-02");
  CHECK(thrown_by([&] { tt::conv_transpose2d(image, filter, {}, {.groups = 3}); }).code == "TT-SHAPE-02");
  CHECK(thrown_by([&] { tt::conv_transpose2d(image, filter, {}, {.output_padding = 1}); }).code ==
        "TT-RANGE-08");
  CHECK(thrown_by([&] { tt::conv_transpose2d(image, filter, {}, {.stride = 0}); }).code == "TT-RANGE-08");
  CHECK(thrown_by([&] { tt::conv_transpose2d(image, filter, {}, {.padding = 4}); }).code == "TT-SHAPE-20");
  CHECK(thrown_by([&] { tt::conv_transpose2d(image, filter.to(tt::f64)); }).code == "TT-DTYPE-03");
  CHECK(thrown_by([&] { tt::conv_transpose2d(image.to(tt::i32), filter.to(tt::i32)); }).code ==
        "TT-DTYPE-02");
}
