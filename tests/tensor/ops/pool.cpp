#include <support/errors.hpp>
#include <support/golden_calls.hpp>

#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using test::expect_error;

TEST_CASE("pooling of a known image") {
  const tt::Tensor x = tt::arange(0, 16, 1, tt::f32).reshape({1, 1, 4, 4});
  CHECK(tt::max_pool2d(x).to_vector<double>() == std::vector<double>{5, 7, 13, 15});
  CHECK(tt::avg_pool2d(x).to_vector<double>() == std::vector<double>{2.5, 4.5, 10.5, 12.5});
  CHECK(tt::avg_pool2d(x, {.kernel = 2, .stride = 4, .padding = 1}).to_vector<double>() ==
        std::vector<double>{0, 0.75, 3, 3.75});
  CHECK(tt::adaptive_avg_pool2d(x, 1, 2).to_vector<double>() == std::vector<double>{6.5, 8.5});
}

TEST_CASE("pooling: invalid arguments are errors") {
  const tt::Tensor x = tt::zeros({1, 2, 4, 4});
  expect_error("TT-SHAPE-04", "images [N, C, H, W]", [&] { tt::max_pool2d(tt::zeros({4, 4})); });
  expect_error("TT-SHAPE-20", "5 x 5 does not fit", [&] { tt::max_pool2d(x, {.kernel = 5}); });
  expect_error("TT-SHAPE-20", "avg_pool2d", [&] { tt::avg_pool2d(x, {.kernel = 5}); });
  expect_error("TT-RANGE-08", "padding 2", [&] { tt::avg_pool2d(x, {.kernel = 2, .padding = 2}); });
  expect_error("TT-DTYPE-02", "floating", [&] { tt::max_pool2d(tt::zeros({1, 2, 4, 4}, tt::i32)); });
  expect_error("TT-SHAPE-20", "0 x 1", [&] { tt::adaptive_avg_pool2d(x, 0, 1); });
}

TEST_CASE("average pooling of ones gives 1 for any window size, with gradients that sum to 1") {
  for (const tt::DType dtype : {tt::f64, tt::f32}) {
    for (const bool by_pixel : {false, true}) {
      for (int64_t kernel = 1; kernel < 12; ++kernel) {
        INFO(kernel);
        tt::Tensor x = tt::ones({1, 2, 12, 12}, dtype);
        if (by_pixel) x = x.permute({0, 2, 3, 1}).contiguous().permute({0, 3, 1, 2});
        x.requires_grad_();
        const tt::Tensor y = tt::avg_pool2d(x, {.kernel = kernel, .stride = 1});
        CHECK(tt::all(y == 1));
        CHECK(tt::all(tt::adaptive_avg_pool2d(x, kernel, kernel) == 1));
        const tt::Tensor one = tt::avg_pool2d(x.slice(2, 0, kernel).slice(3, 0, kernel), {.kernel = kernel});
        (tt::sum(one) * static_cast<double>(kernel * kernel)).backward();
        CHECK(tt::all(x.grad().slice(2, 0, kernel).slice(3, 0, kernel) == 1));
      }
    }
  }
}

namespace {
tt::Pool2dOptions options_of(const nlohmann::json& o) {
  const auto pair = [&](const char* name, int64_t none) -> tt::Size2d {
    if (!o.contains(name)) return none;
    return {o[name][0].get<int64_t>(), o[name][1].get<int64_t>()};
  };
  return {.kernel = pair("kernel_size", 2),
          .stride = pair("stride", 0),
          .padding = pair("padding", 0),
          .ceil_mode = o.value("ceil_mode", false),
          .count_include_pad = o.value("count_include_pad", true)};
}
}  // namespace

TEST_CASE("rectangular windows and ceil_mode have PyTorch's values and gradients") {
  CHECK(golden::check_calls("max_pool2d", [](const nlohmann::json& o, const tt::Tensors& in) -> tt::Tensors {
          return {tt::max_pool2d(in[0], options_of(o))};
        }) == 5);
  CHECK(golden::check_calls("avg_pool2d", [](const nlohmann::json& o, const tt::Tensors& in) -> tt::Tensors {
          return {tt::avg_pool2d(in[0], options_of(o))};
        }) == 7);
  const tt::Tensor x = tt::zeros({1, 2, 4, 4});
  expect_error("TT-SHAPE-20", "does not fit dimension 3", [&] { tt::max_pool2d(x, {.kernel = {2, 5}}); });
  expect_error("TT-RANGE-08", "padding 2", [&] { tt::avg_pool2d(x, {.kernel = 2, .padding = {0, 2}}); });
  expect_error("TT-SHAPE-04", "images", [&] { tt::max_pool2d(x.select(0, 0), {.ceil_mode = true}); });
  expect_error("TT-DTYPE-02", "floating", [&] { tt::avg_pool2d(x.to(tt::i32), {.ceil_mode = true}); });
  CHECK(tt::max_pool2d(tt::zeros({0, 2, 4, 4}), {.kernel = {2, 1}}).shape() == tt::Shape{0, 2, 2, 4});
}

TEST_CASE("ceil_mode of sizes that divide gives what the kernel gives") {
  tt::manual_seed(3);
  const tt::Tensor x = tt::randn({2, 3, 8, 6});
  const tt::Pool2dOptions plain{.kernel = 2}, ceil{.kernel = 2, .ceil_mode = true};
  CHECK(tt::max_pool2d(x, ceil).to_vector() == tt::max_pool2d(x, plain).to_vector());
  check_values(tt::avg_pool2d(x, ceil).to_vector<double>(), tt::avg_pool2d(x, plain).to_vector<double>(),
               1e-6);
}
