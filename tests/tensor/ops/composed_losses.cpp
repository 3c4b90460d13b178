#include <tinytorch/tensor/ops/composed_losses.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <support/errors.hpp>
#include <support/golden_file.hpp>
#include <support/gradients.hpp>
#include <support/values.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using nlohmann::json;

namespace {

tt::Shape shape_of(const json& tensor) {
  tt::Shape shape;
  for (const json& size : tensor["shape"]) shape.push_back(size.get<int64_t>());
  return shape;
}
tt::Tensor tensor_of(const json& tensor) {
  return tt::from_data(tensor["values"].get<std::vector<double>>()).reshape(shape_of(tensor));
}
tt::Reduction reduction_of(const json& options) {
  const std::string name = options.value("reduction", "mean");
  if (name == "none") return tt::Reduction::none;
  return name == "sum" ? tt::Reduction::sum : tt::Reduction::mean;
}

// The loss that a golden case names. x has the inputs; target the classes, if there are any.
tt::Tensor call(const json& c, const tt::Tensors& x, const tt::Tensor& target) {
  const std::string name = c["name"];
  const json& o = c["options"];
  const tt::Reduction reduction = reduction_of(o);
  tt::Tensor weight;
  if (o.contains("weight")) weight = tt::from_data(o["weight"].get<std::vector<double>>()).to(x[0].dtype());
  if (name == "l1_loss") return tt::l1_loss(x[0], x[1], reduction);
  if (name == "smooth_l1_loss") return tt::smooth_l1_loss(x[0], x[1], o["beta"], reduction);
  if (name == "huber_loss") return tt::huber_loss(x[0], x[1], o["delta"], reduction);
  if (name == "binary_cross_entropy") return tt::binary_cross_entropy(x[0], x[1], reduction);
  if (name == "cosine_similarity") return tt::cosine_similarity(x[0], x[1], o["dim"]);
  if (name == "kl_div") {
    return tt::kl_div(x[0], x[1],
                      {.reduction = reduction,
                       .batch_mean = o["reduction"] == "batchmean",
                       .log_target = o.value("log_target", false)});
  }
  if (name == "cosine_embedding_loss") {
    const tt::Tensor signs = tt::from_data({1.0, -1.0, -1.0, 1.0, -1.0}).to(x[0].dtype());
    return tt::cosine_embedding_loss(x[0], x[1], signs, o["margin"], reduction);
  }
  if (name == "triplet_margin_loss") {
    return tt::triplet_margin_loss(
        x[0], x[1], x[2], {.margin = o["margin"], .p = o["p"], .swap = o["swap"], .reduction = reduction});
  }
  if (name == "nll_loss") return tt::nll_loss(x[0], target, {.weight = weight, .reduction = reduction});
  REQUIRE(name == "cross_entropy");
  return tt::cross_entropy(
      x[0], x.size() > 1 ? x[1] : target,
      {.label_smoothing = o.value("label_smoothing", 0.0), .reduction = reduction, .weight = weight});
}

}  // namespace

TEST_CASE("values and gradients of every loss, reduction and option equal PyTorch's") {
  std::map<std::string, int> seen;
  const json golden = read_golden("losses");
  for (const json& c : golden["cases"]) {
    for (const tt::DType dtype : {tt::f64, tt::f32, tt::bf16}) {
      INFO(c["name"].dump(), " ", c["options"].dump(), " ", tt::name_of(dtype));
      ++seen[c["name"]];
      tt::Tensors inputs;
      bool rounds = false;  // an input at the edge of the domain would be rounded beyond it
      for (const json& tensor : c["inputs"]) {
        const tt::Tensor exact = tensor_of(tensor);
        inputs.push_back(exact.to(dtype).requires_grad_());
        rounds = rounds || dtype == tt::bf16;
      }
      if (rounds && c["name"] == "binary_cross_entropy") continue;
      tt::Tensor target;
      if (!c["classes"].is_null()) target = tensor_of(c["classes"]).to(tt::i64);
      const tt::Tensor loss = call(c, inputs, target);
      CHECK(loss.dtype() == dtype);
      CHECK(loss.shape() == shape_of(c["value"]));
      const double tolerance = dtype == tt::f64 ? 1e-11 : (dtype == tt::f32 ? 2e-5 : 0.2);
      check_values(loss.detach().to_vector<double>(), c["value"]["values"], tolerance);
      std::vector<double> upstream(static_cast<size_t>(loss.numel()));
      for (size_t i = 0; i < upstream.size(); ++i) upstream[i] = std::cos(static_cast<double>(i));
      loss.backward(tt::from_data(upstream).reshape(loss.shape()).to(dtype));
      if (dtype == tt::bf16) continue;
      for (size_t i = 0; i < inputs.size(); ++i) {
        INFO("gradient ", i);
        const json& want = c["gradients"][i];
        const std::vector<double> got = inputs[i].grad().to_vector<double>();
        REQUIRE(got.size() == want.size());
        for (size_t k = 0; k < got.size(); ++k) {
          if (want[k].is_null()) continue;
          const double exact = want[k];
          CHECK(std::abs(got[k] - exact) <= (dtype == tt::f64 ? 1e-8 : 1e-4) * (1 + std::abs(exact)));
        }
      }
    }
  }
  CHECK(seen.size() == 10);
}

TEST_CASE("strided inputs, empty tensors, rank 0 and NaN") {
  tt::manual_seed(4);
  const tt::Tensor x = tt::randn({5, 4}, tt::f64), y = tt::randn({5, 4}, tt::f64);
  const std::vector<double> rows = tt::l1_loss(x, y, tt::Reduction::none).to_vector<double>();
  CHECK(tt::l1_loss(x.t(), y.t(), tt::Reduction::none).t().contiguous().to_vector<double>() == rows);
  const tt::Tensor none = tt::zeros({0, 3}, tt::f64);
  CHECK(std::isnan(tt::huber_loss(none, none).item<double>()));
  CHECK(tt::huber_loss(none, none, 1, tt::Reduction::sum).item<double>() == 0);
  CHECK(std::isnan(tt::nll_loss(none, tt::zeros({0}, tt::i64)).item<double>()));
  CHECK(tt::cross_entropy(none, none, {.reduction = tt::Reduction::none}).shape() == tt::Shape{0});
  CHECK(tt::l1_loss(tt::full({}, 3), tt::full({}, 5)).item() == 2);
  CHECK(tt::kl_div(tt::zeros({}), tt::ones({}), {.batch_mean = true}).item() == 0);
  const tt::Tensor nan = tt::full({2}, std::numeric_limits<double>::quiet_NaN(), tt::f64);
  const tt::Tensor one = tt::ones({2}, tt::f64);
  CHECK(std::isnan(tt::smooth_l1_loss(nan, one).item<double>()));
  CHECK(std::isnan(tt::huber_loss(one, nan).item<double>()));
  CHECK(std::isnan(tt::kl_div(one, nan).item<double>()));
  CHECK(std::isnan(tt::kl_div(one, -one).item<double>()));  // a negative probability has no logarithm
  CHECK(std::isnan(tt::binary_cross_entropy(nan, one).item<double>()));
  const tt::Tensor numbers = tt::from_data({-2.0f, 0.5f, 7.0f}), targets = tt::from_data({0.0f, 1.0f, 0.25f});
  CHECK(tt::binary_cross_entropy_with_logits(numbers, targets, tt::Reduction::none).to_vector() ==
        tt::bce_with_logits(numbers, targets, tt::Reduction::none).to_vector());
  CHECK(std::isnan(tt::cosine_similarity(nan, one, 0).item<double>()));
  // All samples ignored: the mean has no samples, and the gradient is not a number either, as in PyTorch.
  CHECK(std::isnan(tt::nll_loss(x, tt::full({5}, -100, tt::i64)).item<double>()));
}

TEST_CASE("losses of large and small numbers are finite where their values are") {
  const tt::Tensor large = tt::full({2}, 1e30).requires_grad_(), zero = tt::zeros({2}).requires_grad_();
  tt::huber_loss(large, zero).backward();
  CHECK(large.grad().to_vector() == std::vector<float>{0.5f, 0.5f});
  const tt::Tensor y = tt::ones({2}).requires_grad_();
  tt::cosine_similarity(zero, y, 0).backward();
  for (const float g : zero.grad().to_vector()) CHECK(std::isfinite(g));
  CHECK(tt::cosine_similarity(tt::zeros({2}, tt::f16), tt::zeros({2}, tt::f16), 0).item() == 0);
}

TEST_CASE("second arguments of losses are differentiable, too") {
  const tt::Tensors pair = {test::leaf({3, 2}, 1), test::leaf({3, 2}, 2)};
  test::check_gradients([](const tt::Tensors& in) { return tt::smooth_l1_loss(in[0], in[1], 0.3); }, pair);
  test::check_gradients([](const tt::Tensors& in) { return tt::cosine_similarity(in[0], in[1]); }, pair);
  test::check_gradients([](const tt::Tensors& in) { return tt::cross_entropy(in[0], tt::softmax(in[1], 1)); },
                        pair);
}

TEST_CASE("losses refuse shapes, dtypes, classes and options that do not fit") {
  const auto code = [](const std::function<void()>& f) {
    return message_of(f).substr(0, message_of(f).find(':'));
  };
  const tt::Tensor x = tt::zeros({4, 3}), column = tt::zeros({4, 1}), classes = tt::zeros({4}, tt::i64);
  CHECK(code([&] { tt::l1_loss(x, column); }).find("TT-SHAPE-02") == 0);
  CHECK(code([&] { tt::huber_loss(x, x.to(tt::f64)); }).find("TT-DTYPE") == 0);
  CHECK(code([&] { tt::l1_loss(x.to(tt::i32), x.to(tt::i32)); }).find("TT-DTYPE") == 0);
  CHECK(code([&] { tt::smooth_l1_loss(x, x, -1); }).find("TT-RANGE-08") == 0);
  CHECK(code([&] { tt::huber_loss(x, x, 0); }).find("TT-RANGE-08") == 0);
  CHECK(code([&] { tt::triplet_margin_loss(x, x, x, {.p = 0}); }).find("TT-RANGE-08") == 0);
  CHECK(code([&] { tt::binary_cross_entropy((x + 2).to(tt::cpu), x.to(tt::cpu)); }).find("TT-RANGE-02") == 0);
  CHECK(code([&] { tt::nll_loss(x, classes + 3); }).find("TT-RANGE-05") == 0);
  CHECK(code([&] { tt::nll_loss(x, tt::zeros({3}, tt::i64)); }).find("TT-SHAPE-02") == 0);
  CHECK(code([&] { tt::nll_loss(x, classes, {.weight = tt::ones({2})}); }).find("TT-SHAPE-02") == 0);
  CHECK(code([&] {
          tt::cross_entropy(x, classes, {.weight = tt::ones({3}, tt::f64)});
        }).find("TT-SHAPE-02") == 0);
  CHECK(code([&] { tt::cross_entropy(x, column); }).find("TT-DTYPE") == 0);
  CHECK(code([&] { tt::cross_entropy(tt::zeros({}), tt::zeros({}, tt::i64)); }).find("TT-SHAPE-04") == 0);
  CHECK(code([&] { tt::cosine_embedding_loss(x, x, column); }).find("TT-SHAPE-02") == 0);
  CHECK(code([&] {
          tt::linear_cross_entropy(x, x, classes, {.weight = tt::ones({4})});
        }).find("TT-RANGE-07") == 0);
}
