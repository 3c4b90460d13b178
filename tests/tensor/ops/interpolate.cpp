#include <tinytorch/tensor/ops/interpolate.hpp>

#include <doctest/doctest.h>

#include <support/errors.hpp>
#include <support/golden_calls.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using errors::thrown_by;
using nlohmann::json;

TEST_CASE("interpolate has PyTorch's values and gradients, by sizes and by factors") {
  CHECK(golden::check_calls("interpolate", [](const json& o, const tt::Tensors& in) -> tt::Tensors {
          tt::InterpolateOptions options{.scale_factor = o.value("scale_factor", 0.0),
                                         .align_corners = o["align_corners"]};
          for (const json& size : o["size"]) options.size.push_back(size.get<int64_t>());
          if (o["mode"] == "linear") options.mode = tt::Interpolation::linear;
          if (o["mode"] == "bilinear") options.mode = tt::Interpolation::bilinear;
          return {tt::interpolate(in[0], options)};
        }) >= 20);
}

TEST_CASE("16-bit images are interpolated in f32; NaN stays between its neighbors; empty batches") {
  const tt::Tensor x = tt::from_data({0.0f, 2048.0f}).reshape({1, 1, 2});
  const tt::Tensor fine = tt::interpolate(x.to(tt::f16), {.size = {8}, .mode = tt::Interpolation::linear});
  const std::vector<float> exact = tt::interpolate(x, {.size = {8}, .mode = tt::Interpolation::linear})
                                       .to(tt::f16)
                                       .to(tt::f32)
                                       .to_vector();
  CHECK(fine.to(tt::f32).to_vector() == exact);
  const tt::Tensor nan = tt::from_data({1.0f, 1.0f, NAN}).reshape({1, 1, 3});
  const std::vector<float> y = tt::interpolate(nan, {.size = {6}}).to_vector();
  CHECK(y[3] == 1);
  CHECK(std::isnan(y[4]));
  CHECK(tt::interpolate(tt::zeros({0, 2, 3, 3}), {.scale_factor = 2}).shape() == tt::Shape{0, 2, 6, 6});
}

TEST_CASE("interpolate refuses ranks, sizes and options that do not fit") {
  const tt::Tensor x = tt::zeros({1, 2, 4, 4});
  CHECK(thrown_by([&] { tt::interpolate(x, {}); }).code == "TT-RANGE-08");
  CHECK(thrown_by([&] { tt::interpolate(x, {.size = {2, 2}, .scale_factor = 2}); }).code == "TT-RANGE-08");
  CHECK(thrown_by([&] { tt::interpolate(x, {.size = {2}}); }).code == "TT-RANGE-08");
  CHECK(thrown_by([&] { tt::interpolate(x, {.scale_factor = -1}); }).code == "TT-RANGE-08");
  CHECK(thrown_by([&] { tt::interpolate(x, {.scale_factor = 0.2}); }).code == "TT-SHAPE-20");
  CHECK(thrown_by([&] { tt::interpolate(x, {.size = {0, 3}}); }).code == "TT-SHAPE-20");
  CHECK(thrown_by([&] { tt::interpolate(x, {.scale_factor = 2, .mode = tt::Interpolation::linear}); }).code ==
        "TT-SHAPE-04");
  CHECK(thrown_by([&] { tt::interpolate(x.to(tt::i32), {.scale_factor = 2}); }).code == "TT-DTYPE-02");
}
