// conv3d and pooling of volumes: PyTorch's values and gradients, gradcheck, 16-bit dtypes, no samples, NaN,
// errors; the layers.
#include <tinytorch/tensor/ops/volume.hpp>
// The header above must compile by itself.

#include <doctest/doctest.h>

#include <cmath>
#include <support/errors.hpp>
#include <support/golden_calls.hpp>
#include <tinytorch/autograd/gradcheck.hpp>
#include <tinytorch/layers/conv3d.hpp>
#include <tinytorch/layers/sequential.hpp>

namespace tt = tinytorch;
using nlohmann::json;
using tt::Tensor;
using tt::Tensors;

namespace {

tt::Size3d sides(const json& options, const char* key, int64_t otherwise) {
  if (!options.contains(key)) return otherwise;
  const auto s = options[key].get<std::vector<int64_t>>();
  return {s[0], s[1], s[2]};
}
tt::Pool3dOptions pool_options(const json& o) {
  return {sides(o, "kernel_size", 2), sides(o, "stride", 0), sides(o, "padding", 0),
          o.value("ceil_mode", false), o.value("count_include_pad", true)};
}

}  // namespace

TEST_CASE("conv3d and pooling of volumes have PyTorch's values and gradients") {
  CHECK(golden::check_calls(
            "conv3d",
            [](const json& o, const Tensors& in) -> Tensors {
              return {tt::conv3d(in[0], in[1], in.size() > 2 ? in[2] : Tensor(),
                                 {sides(o, "stride", 1), sides(o, "padding", 0), sides(o, "dilation", 1),
                                  o["groups"].get<int64_t>()})};
            },
            "volume") == 6);
  CHECK(golden::check_calls(
            "max_pool3d",
            [](const json& o, const Tensors& in) -> Tensors {
              return {tt::max_pool3d(in[0], pool_options(o))};
            },
            "volume") == 4);
  CHECK(golden::check_calls(
            "avg_pool3d",
            [](const json& o, const Tensors& in) -> Tensors {
              return {tt::avg_pool3d(in[0], pool_options(o))};
            },
            "volume") == 8);
  CHECK(golden::check_calls(
            "adaptive_avg_pool3d",
            [](const json& o, const Tensors& in) -> Tensors {
              return {tt::adaptive_avg_pool3d(in[0], sides(o, "out", 1))};
            },
            "volume") == 3);
}

TEST_CASE("conv3d passes gradcheck, and takes f16, no samples and NaN") {
  tt::Generator g(3);
  const auto random = [&](const tt::Shape& shape) {
    return tt::randn(shape, tt::f64, tt::default_device(), g).requires_grad_();
  };
  const auto result = tt::gradcheck(
      [](const Tensors& in) {
        return tt::avg_pool3d(tt::conv3d(in[0], in[1], in[2], {.stride = {2, 1, 1}, .padding = 1}));
      },
      {random({2, 2, 3, 2, 2}), random({3, 2, 2, 3, 2}), random({3})});
  INFO(result.message);
  CHECK(result.passed);
  const Tensor x = tt::ones({1, 1, 2, 2, 2}), w = tt::ones({1, 1, 2, 2, 2});
  CHECK(tt::conv3d(x.to(tt::f16), w.to(tt::f16)).item<double>() == 8);
  CHECK(tt::conv3d(x.slice(0, 0, 0), w).shape() == tt::Shape{0, 1, 1, 1, 1});
  CHECK(std::isnan(tt::conv3d(x * std::nan(""), w).item<double>()));
  CHECK(std::isnan(tt::max_pool3d(x * std::nan("")).item<double>()));
}

TEST_CASE("conv3d and pooling of volumes refuse what they cannot do") {
  const Tensor x = tt::zeros({1, 2, 3, 3, 3}), w = tt::zeros({4, 2, 2, 2, 2});
  test::expect_error("TT-SHAPE-04", "conv3d", [&] { tt::conv3d(tt::zeros({2, 3, 3, 3}), w); });
  test::expect_error("TT-SHAPE-02", "conv3d", [&] { tt::conv3d(x, w, {}, {.groups = 2}); });
  test::expect_error("TT-SHAPE-02", "conv3d", [&] { tt::conv3d(x, w, tt::zeros({3})); });
  test::expect_error("TT-SHAPE-20", "conv3d", [&] { tt::conv3d(x, w, {}, {.dilation = {3, 1, 1}}); });
  test::expect_error("TT-RANGE-08", "conv3d", [&] { tt::conv3d(x, w, {}, {.stride = {0, 1, 1}}); });
  test::expect_error("TT-SHAPE-04", "max_pool3d", [&] { tt::max_pool3d(tt::zeros({3, 3, 3})); });
  test::expect_error("TT-SHAPE-20", "pool2d", [&] { tt::max_pool3d(x, {.kernel = 5}); });
}
