// median, quantile, cov, corrcoef, cdist, histc and histogram: values and gradients of PyTorch, NaN, empty
// tensors, errors.
#include <tinytorch/tensor/ops/statistics.hpp>
// The header above must compile by itself.

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <support/errors.hpp>
#include <support/golden_calls.hpp>

namespace tt = tinytorch;
using nlohmann::json;
using tt::Tensor;
using tt::Tensors;

namespace {

Tensor call(const std::string& name, const json& o, const Tensors& in) {
  if (name == "median") return tt::median(in[0], o["dim"].get<int>(), o["keepdim"].get<bool>()).values;
  if (name == "quantile")
    return tt::quantile(in[0], o["q"].get<std::vector<double>>(), o["dim"].get<int>(),
                        o["keepdim"].get<bool>());
  if (name == "cov") return tt::cov(in[0], o["correction"].get<int64_t>());
  if (name == "corrcoef") return tt::corrcoef(in[0]);
  if (name == "histc")
    return tt::histc(in[0], o["bins"].get<int64_t>(), o["low"].get<double>(), o["high"].get<double>());
  REQUIRE(name == "cdist");
  const auto p = o["p"].get<double>();  // 3 stands for infinity, which JSON does not have
  return tt::cdist(in[0], in[1], p == 3 ? std::numeric_limits<double>::infinity() : p);
}

}  // namespace

TEST_CASE("statistics: PyTorch's values and gradients, with and without gaps in memory") {
  const json golden = read_golden("tensor_statistics");
  for (const json& c : golden["cases"]) {
    const auto name = c["name"].get<std::string>();
    for (const tt::DType dtype : {tt::f64, tt::f32}) {
      INFO(name, " ", c["options"].dump(), " ", tt::name_of(dtype));
      Tensors inputs, gaps;
      for (const json& tensor : c["inputs"]) {
        inputs.push_back(golden::tensor_of(tensor, dtype).requires_grad_());
        gaps.push_back(golden::strided(inputs.back().detach()));
      }
      const Tensor y = call(name, c["options"], inputs);
      CHECK(y.dtype() == dtype);
      golden::check_equal(y, c["result"], dtype == tt::f64 ? 1e-8 : 2e-5);
      golden::check_equal(call(name, c["options"], gaps), c["result"], dtype == tt::f64 ? 1e-8 : 2e-5);
      if (c["gradients"].empty()) continue;
      std::vector<double> upstream(static_cast<size_t>(y.numel()));
      for (size_t k = 0; k < upstream.size(); ++k) upstream[k] = std::cos(static_cast<double>(k));
      tt::sum(y * tt::from_data(upstream).reshape(y.shape()).to(dtype).to(y.device())).backward();
      for (size_t i = 0; i < inputs.size(); ++i)
        golden::check_equal(inputs[i].grad(), c["gradients"][i], dtype == tt::f64 ? 1e-8 : 1e-4);
    }
  }
}

TEST_CASE("statistics: NaN, integers, scalars and empty tensors") {
  const float nan = std::nanf("");
  const Tensor x = tt::from_data({3.0f, nan, 1.0f, nan, 5.0f, 4.0f}, {2, 3});
  const auto m = tt::median(x, 1);
  CHECK(m.indices.to_vector<int64_t>() == std::vector<int64_t>{1, 0});
  CHECK(std::isnan(tt::median(x).item<float>()));
  CHECK(std::isnan(tt::quantile(x, 0.0).item<float>()));
  CHECK(tt::median(tt::from_data<int64_t>({4, 1, 3, 2})).item<int64_t>() == 2);
  CHECK(tt::median(tt::full({}, 7.0)).item<float>() == 7);
  CHECK(tt::quantile(tt::full({}, 7.0), 0.5).rank() == 0);
  CHECK(tt::histc(x, 2, 1, 5).to_vector() == std::vector<float>{1, 3});
  CHECK(tt::histc(tt::zeros({0}), 3).to_vector() == std::vector<float>{0, 0, 0});
  const auto h = tt::histogram(x, 2, 1, 5);
  CHECK(h.counts.to_vector() == std::vector<float>{1, 3});
  CHECK(h.edges.to_vector() == std::vector<float>{1, 3, 5});
  CHECK(tt::cdist(tt::zeros({0, 3}), tt::zeros({2, 3})).shape() == tt::Shape{0, 2});
  CHECK(tt::corrcoef(tt::from_data({1.0f, 2.0f, 4.0f})).item<float>() == 1);
  test::expect_error("TT-SHAPE-10", "median", [&] { tt::median(tt::zeros({0})); });
  test::expect_error("TT-SHAPE-10", "quantile", [&] { tt::quantile(tt::zeros({0}), 0.5); });
  test::expect_error("TT-RANGE-02", "quantile", [&] { tt::quantile(x, 1.5); });
  test::expect_error("TT-SHAPE-04", "cov", [&] { tt::cov(tt::zeros({1, 2, 3})); });
  test::expect_error("TT-SHAPE-02", "cdist", [&] { tt::cdist(tt::zeros({2, 3}), tt::zeros({2, 4})); });
  test::expect_error("TT-RANGE-08", "cdist", [&] { tt::cdist(x, x, 3); });
  test::expect_error("TT-RANGE-03", "histc", [&] { tt::histc(x, 0); });
  test::expect_error("TT-RANGE-01", "histc", [&] { tt::histc(x, 3); });
  test::expect_error("TT-RANGE-03", "histogram", [&] { tt::histogram(x, 0); });
  test::expect_error("TT-RANGE-01", "histogram", [&] { tt::histogram(x, 3); });
}

TEST_CASE(
    "Euclidean distances of many rows come from products: close pairs, equal rows, batches, gradients") {
  tt::Generator generator(5);
  for (const tt::DType dtype : {tt::f32, tt::bf16, tt::f16}) {
    const Tensor a = (tt::randn({2, 40, 7}, tt::f32, tt::cpu, generator) + 3).to(dtype);
    Tensor b = (tt::randn({33, 7}, tt::f32, tt::cpu, generator) + 3).to(dtype);
    b.slice(0, 0, 9).copy_(a[0].slice(0, 0, 9));                                         // equal rows
    b.slice(0, 9, 18).copy_((a[1].slice(0, 9, 18).to(tt::f32) * (1 + 1e-5)).to(dtype));  // close ones
    Tensor x = a.clone().to(tt::default_device()).requires_grad_(),
           y = b.clone().to(tt::default_device()).requires_grad_(), x64 = a.to(tt::f64).requires_grad_(),
           y64 = b.to(tt::f64).requires_grad_();
    const Tensor d = tt::cdist(x, y), d64 = tt::cdist(x64, y64);  // differences one by one
    CHECK(d.shape() == tt::Shape{2, 40, 33});
    CHECK(d.dtype() == dtype);
    const double unit = dtype == tt::f32 ? 1e-6 : dtype == tt::f16 ? 1e-3 : 8e-3;
    CHECK(tt::max(tt::abs(d.to(tt::cpu).to(tt::f64) - d64) - unit * d64).item<double>() < 1e-6);
    // Equal rows have gradients of 0 by every way; close ones are left out, because their directions round.
    const Tensor counts = (d64 > 1e-2).detach();
    tt::sum(tt::where(counts.to(tt::default_device()), d, 0.0)).backward();
    tt::sum(tt::where(counts, d64, 0.0)).backward();
    for (const auto& [got, want] : {std::pair{x.grad(), x64.grad()}, std::pair{y.grad(), y64.grad()}}) {
      CHECK(tt::max(tt::abs(got.to(tt::cpu).to(tt::f64) - want)).item<double>() < 60 * unit);
    }
  }
}

TEST_CASE("histogram: counts of histc with the edges of the bins, and NumPy's range for a single value") {
  for (const tt::DType dtype : {tt::f32, tt::f64, tt::bf16}) {
    const tt::Tensor x = tt::from_data({0.0f, 1.0f, 1.5f, 2.0f, 4.0f, 4.0f, 8.0f}, {7, 1}).to(dtype);
    const auto [counts, edges] = tt::histogram(x, 4);
    CHECK(counts.dtype() == dtype);
    CHECK(edges.dtype() == dtype);
    CHECK(counts.to_vector<float>() == std::vector<float>{3, 1, 2, 1});
    CHECK(counts.to_vector<float>() == tt::histc(x, 4).to_vector<float>());
    CHECK(edges.to_vector<float>() == std::vector<float>{0, 2, 4, 6, 8});
  }
  const auto one = tt::histogram(tt::full({5}, 3.0), 2);
  CHECK(one.edges.to_vector() == std::vector<float>{2.5f, 3, 3.5f});
  CHECK(one.counts.to_vector() == std::vector<float>{0, 5});
  CHECK(tt::histogram(tt::zeros({0}), 2).counts.to_vector() == std::vector<float>{0, 0});
}
