#include <tinytorch/tensor/ops/windows.hpp>

#include <doctest/doctest.h>

#include <support/errors.hpp>
#include <support/golden_calls.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using errors::thrown_by;
using nlohmann::json;

namespace {
tt::Pool1dOptions options_of(const json& o) {
  return {.kernel = o["kernel_size"],
          .stride = o["stride"],
          .padding = o["padding"],
          .ceil_mode = o["ceil_mode"],
          .count_include_pad = o.value("count_include_pad", true)};
}
}  // namespace

TEST_CASE("pooling of sequences and adaptive maxima have PyTorch's values and gradients") {
  CHECK(golden::check_calls("max_pool1d", [](const json& o, const tt::Tensors& in) -> tt::Tensors {
          return {tt::max_pool1d(in[0], options_of(o))};
        }) == 25);
  CHECK(golden::check_calls("avg_pool1d", [](const json& o, const tt::Tensors& in) -> tt::Tensors {
          return {tt::avg_pool1d(in[0], options_of(o))};
        }) == 28);
  CHECK(golden::check_calls("adaptive_max_pool2d", [](const json& o, const tt::Tensors& in) -> tt::Tensors {
          return {tt::adaptive_max_pool2d(in[0], o["size"][0], o["size"][1])};
        }) == 5);
}

TEST_CASE("a window with NaN has the maximum NaN, -inf is a maximum, and batches may be empty") {
  const tt::Tensor x = tt::from_data({1.0f, NAN, 3.0f, 2.0f, -INFINITY, -INFINITY}).reshape({1, 1, 6});
  const std::vector<float> y = tt::max_pool1d(x).to_vector();
  CHECK(std::isnan(y[0]));
  CHECK(y[1] == 3);
  CHECK(y[2] == -INFINITY);
  CHECK(tt::max_pool1d(tt::zeros({0, 2, 4})).shape() == tt::Shape{0, 2, 2});
  CHECK(tt::adaptive_max_pool2d(tt::zeros({0, 2, 4, 4}), 1, 3).shape() == tt::Shape{0, 2, 1, 3});
}

TEST_CASE("pooling refuses ranks, windows and options that do not fit") {
  const tt::Tensor x = tt::zeros({1, 2, 4});
  CHECK(thrown_by([&] { tt::max_pool1d(tt::zeros({2, 4})); }).code == "TT-SHAPE-04");
  CHECK(thrown_by([&] { tt::max_pool1d(x, {.kernel = 5}); }).code == "TT-SHAPE-20");
  CHECK(thrown_by([&] { tt::avg_pool1d(x, {.kernel = 2, .padding = 2}); }).code == "TT-RANGE-08");
  CHECK(thrown_by([&] { tt::avg_pool1d(x, {.kernel = 0}); }).code == "TT-RANGE-08");
  CHECK(thrown_by([&] { tt::max_pool1d(x.to(tt::i32)); }).code == "TT-DTYPE-02");
  CHECK(thrown_by([&] { tt::adaptive_max_pool2d(x, 1, 1); }).code == "TT-SHAPE-04");
  CHECK(thrown_by([&] { tt::adaptive_max_pool2d(tt::zeros({1, 1, 0, 3}), 1, 1); }).code == "TT-SHAPE-20");
  CHECK(thrown_by([&] { tt::adaptive_max_pool2d(tt::zeros({1, 1, 3, 3}), 0, 1); }).code == "TT-SHAPE-20");
}
