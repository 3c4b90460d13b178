// Elementwise functions, activations and reductions composed of others: PyTorch's values and gradients, every
// floating dtype, gaps in memory, scalars, no elements, NaN and infinities, errors.
#include <tinytorch/tensor/ops/composed_math.hpp>
// The header above must compile by itself.

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <support/errors.hpp>
#include <support/everyday.hpp>
#include <tinytorch/autograd/gradcheck.hpp>

namespace tt = tinytorch;
using tt::Tensor;
using tt::Tensors;

namespace {

const everyday::Calls kMathCalls = {
    {"log2", [](const Tensors& in, const Tensor&) { return tt::log2(in[0]); }},
    {"log10", [](const Tensors& in, const Tensor&) { return tt::log10(in[0]); }},
    {"tan", [](const Tensors& in, const Tensor&) { return tt::tan(in[0]); }},
    {"sinh", [](const Tensors& in, const Tensor&) { return tt::sinh(in[0]); }},
    {"cosh", [](const Tensors& in, const Tensor&) { return tt::cosh(in[0]); }},
    {"atanh", [](const Tensors& in, const Tensor&) { return tt::atanh(in[0]); }},
    {"trunc", [](const Tensors& in, const Tensor&) { return tt::trunc(in[0]); }},
    {"frac", [](const Tensors& in, const Tensor&) { return tt::frac(in[0]); }},
    {"clamp_min", [](const Tensors& in, const Tensor&) { return tt::clamp_min(in[0], 0.3); }},
    {"clamp_max", [](const Tensors& in, const Tensor&) { return tt::clamp_max(in[0], 0.3); }},
    {"lerp", [](const Tensors& in, const Tensor&) { return tt::lerp(in[0], in[1], in[2]); }},
    {"lerp_number", [](const Tensors& in, const Tensor&) { return tt::lerp(in[0], in[1], 0.3); }},
    {"addcmul", [](const Tensors& in, const Tensor&) { return tt::addcmul(in[0], in[1], in[2], 0.7); }},
    {"addcdiv", [](const Tensors& in, const Tensor&) { return tt::addcdiv(in[0], in[1], in[2], 0.7); }},
    {"logaddexp", [](const Tensors& in, const Tensor&) { return tt::logaddexp(in[0], in[1]); }},
    {"amax",
     [](const Tensors& in, const Tensor&) {
       return tt::amax(in[0], {0, 2});
     }},
    {"amin", [](const Tensors& in, const Tensor&) { return tt::amin(in[0], {1}, true); }},
    {"relu6", [](const Tensors& in, const Tensor&) { return tt::relu6(in[0]); }},
    {"hardtanh", [](const Tensors& in, const Tensor&) { return tt::hardtanh(in[0]); }},
    {"hardsigmoid", [](const Tensors& in, const Tensor&) { return tt::hardsigmoid(in[0]); }},
    {"selu", [](const Tensors& in, const Tensor&) { return tt::selu(in[0]); }},
    {"softsign", [](const Tensors& in, const Tensor&) { return tt::softsign(in[0]); }},
    {"logsigmoid", [](const Tensors& in, const Tensor&) { return tt::logsigmoid(in[0]); }},
    {"tanhshrink", [](const Tensors& in, const Tensor&) { return tt::tanhshrink(in[0]); }},
    {"softshrink", [](const Tensors& in, const Tensor&) { return tt::softshrink(in[0]); }},
    {"hardshrink", [](const Tensors& in, const Tensor&) { return tt::hardshrink(in[0]); }},
    {"celu", [](const Tensors& in, const Tensor&) { return tt::celu(in[0], 0.7); }},
    {"threshold", [](const Tensors& in, const Tensor&) { return tt::threshold(in[0], 0.4, 2.5); }},
    {"softmin", [](const Tensors& in, const Tensor&) { return tt::softmin(in[0], 0); }},
    {"glu", [](const Tensors& in, const Tensor&) { return tt::glu(in[0], 1); }},
    {"prelu", [](const Tensors& in, const Tensor&) { return tt::prelu(in[0], in[1]); }},
};

}  // namespace

TEST_CASE("composed elementwise functions have PyTorch's values and gradients") {
  everyday::check(kMathCalls, true);
}

TEST_CASE("composed elementwise functions of scalars and of no elements, and gradcheck") {
  tt::Generator g(7);
  const nlohmann::json golden = read_golden("everyday");
  for (const nlohmann::json& c : golden["cases"]) {
    const auto name = c["name"].get<std::string>();
    if (!kMathCalls.count(name) || name == "glu" || name == "amax" || name == "amin" || name == "prelu")
      continue;
    INFO(name);
    const auto call = kMathCalls.at(name);
    const auto inputs = [&](const tt::Shape& shape) {
      Tensors all;
      for (size_t i = 0; i < c["inputs"].size(); ++i)
        all.push_back(tt::uniform(0.1, 0.25, shape, tt::f64, tt::default_device(), g).requires_grad_());
      return all;
    };
    if (name != "softmin") CHECK(call(inputs({}), Tensor()).rank() == 0);
    CHECK(call(inputs({2, 0}), Tensor()).shape() == tt::Shape{2, 0});
    const auto result = tt::gradcheck([&](const Tensors& in) { return call(in, Tensor()); }, inputs({3}));
    INFO(result.message);
    CHECK(result.passed);
  }
}

TEST_CASE("composed elementwise functions: NaN, infinities, integers") {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const Tensor x = tt::from_data({1.5, -2.5, inf, -inf, nan});
  for (const auto& item : kMathCalls) {
    const auto& name = item.first;
    if (name == "glu" || name == "amax" || name == "amin") continue;
    INFO(name);
    CHECK(std::isnan(item.second({x, x.slice(0, 0, 1), x.slice(0, 0, 1)}, Tensor()).to_vector<double>()[4]));
  }
  CHECK(tt::nan_to_num(x).to_vector<double>() ==
        std::vector<double>{1.5, -2.5, std::numeric_limits<double>::max(),
                            std::numeric_limits<double>::lowest(), 0});
  CHECK(tt::nan_to_num(x, 7, 8.0, -9.0).to_vector<double>() == std::vector<double>{1.5, -2.5, 8, -9, 7});
  for (const tt::DType t : {tt::f32, tt::f16, tt::bf16}) {
    const auto finite = tt::nan_to_num(x.to(t)).to_vector<double>();
    CHECK(std::isfinite(finite[2]));
    CHECK(finite[3] == -finite[2]);
    CHECK(tt::nan_to_num(x.to(t)).dtype() == t);
  }
  const Tensor whole = tt::from_data<int64_t>({-3, 0, 5});
  CHECK(tt::trunc(whole).to_vector<int64_t>() == std::vector<int64_t>{-3, 0, 5});
  CHECK(tt::clamp_min(whole, 1).to_vector<int64_t>() == std::vector<int64_t>{1, 1, 5});
  CHECK(tt::clamp_max(whole, 1).to_vector<int64_t>() == std::vector<int64_t>{-3, 0, 1});
  CHECK(tt::nan_to_num(whole).dtype() == tt::i64);
  CHECK(tt::count_nonzero(whole).item<int64_t>() == 2);
  CHECK(tt::count_nonzero(x).item<int64_t>() == 5);
  CHECK(tt::count_nonzero(tt::zeros({2, 3}), {1}).to_vector<int64_t>() == std::vector<int64_t>{0, 0});
  CHECK(tt::logaddexp(tt::full({1}, 800, tt::f64), tt::full({1}, 800, tt::f64)).item<double>() ==
        doctest::Approx(800 + std::log(2)));
  CHECK(tt::sinh(tt::full({}, 1e-9, tt::f64)).item<double>() == doctest::Approx(1e-9).epsilon(1e-12));
  CHECK(tt::logical_xor(whole, tt::from_data<int64_t>({0, 2, 1})).to_vector<int64_t>() ==
        std::vector<int64_t>{1, 1, 0});
}

TEST_CASE("nansum and nanmean skip NaN, and give it no gradient") {
  const double nan = std::nan("");
  for (const tt::DType t : {tt::f64, tt::f32, tt::f16, tt::bf16}) {
    Tensor x = tt::from_data({1.0, nan, 3.0, nan, nan, nan}, {2, 3}).to(t).requires_grad_();
    CHECK(tt::nansum(x, {1}).to_vector<double>() == std::vector<double>{4, 0});
    const auto means = tt::nanmean(x, {1}).to_vector<double>();
    CHECK(means[0] == 2);
    CHECK(std::isnan(means[1]));
    CHECK(tt::nanmean(x).dtype() == t);
    CHECK(tt::nanmean(x).item<double>() == 2);
    tt::nanmean(x).backward();
    CHECK(x.grad().to_vector<double>() == std::vector<double>{0.5, 0, 0.5, 0, 0, 0});
  }
  CHECK(tt::nansum(tt::from_data<int64_t>({1, 2})).item<int64_t>() == 3);
  CHECK(tt::nanmean(tt::ones({4000}, tt::f16)).item<double>() == 1);  // f16 cannot count to 4000
}

TEST_CASE("isclose and allclose: tolerances, infinities, NaN, dtypes") {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const Tensor a = tt::from_data({1.0, 1.0, inf, inf, 1.0, nan, 0.0});
  const Tensor b = tt::from_data({1.000009, 1.00002, inf, -inf, inf, nan, 1e-9});
  const std::vector<int64_t> want = {1, 0, 1, 0, 0, 0, 1};
  CHECK(tt::isclose(a, b).to_vector<int64_t>() == want);
  CHECK(tt::isclose(a, b, 1e-5, 1e-8, true).to_vector<int64_t>()[5] == 1);
  CHECK(tt::isclose(a, b).dtype() == tt::boolean);
  CHECK_FALSE(tt::allclose(a, b));
  CHECK(tt::allclose(a, a, 0, 0, true));
  CHECK_FALSE(tt::allclose(a, a));
  CHECK(tt::allclose(tt::zeros({0}), tt::zeros({0})));
  for (const tt::DType t : {tt::f32, tt::f16, tt::bf16, tt::i64, tt::u8}) {
    CHECK(tt::allclose(tt::ones({2, 3}, t), tt::ones({3}, t)));
    CHECK_FALSE(tt::allclose(tt::ones({2, 3}, t), tt::zeros({3}, t)));
  }
  test::expect_error("TT-DTYPE-03", "isclose", [&] { tt::isclose(a, a.to(tt::f32)); });
  test::expect_error("TT-RANGE-08", "isclose", [&] { tt::isclose(a, a, -1); });
}

TEST_CASE("composed elementwise functions refuse what they cannot do") {
  test::expect_error("TT-SHAPE-12", "glu", [] { tt::glu(tt::zeros({3})); });
  test::expect_error("TT-SHAPE-02", "prelu", [] { tt::prelu(tt::zeros({2, 3}), tt::zeros({2})); });
  test::expect_error("TT-RANGE-08", "celu", [] { tt::celu(tt::zeros({3}), 0); });
  test::expect_error("TT-TENSOR-01", "lerp", [] { tt::lerp(tt::zeros({3}), Tensor(), 1.0); });
}
