// floor_divide, remainder and fmod: PyTorch's values and gradients, special numbers, every dtype, errors.
#include <tinytorch/tensor/ops/division.hpp>
// The header above must compile by itself.

#include <doctest/doctest.h>

#include <cmath>
#include <support/errors.hpp>
#include <support/golden_calls.hpp>
#include <tinytorch/autograd/gradcheck.hpp>

namespace tt = tinytorch;
using nlohmann::json;
using tt::Tensor;
using tt::Tensors;

namespace {

Tensor call(const std::string& name, const Tensor& a, const Tensor& b) {
  if (name == "floor_divide") return tt::floor_divide(a, b);
  return name == "remainder" ? tt::remainder(a, b) : tt::fmod(a, b);
}
const std::string kNames[] = {"floor_divide", "remainder", "fmod"};

double exact(const std::string& name, double a, double b) {
  const double quotient = a / b;
  if (name == "floor_divide") return std::floor(quotient);
  return a - b * (name == "remainder" ? std::floor(quotient) : std::trunc(quotient));
}

double number_of(const json& value) {
  return value.is_string() ? std::stod(value.get<std::string>()) : value.get<double>();
}

}  // namespace

TEST_CASE("division: PyTorch's values and gradients, with and without gaps in memory") {
  const json golden = read_golden("division");
  for (const json& c : golden["cases"]) {
    const auto name = c["name"].get<std::string>();
    if (name == "einsum") continue;
    for (const tt::DType dtype : {tt::f64, tt::f32}) {
      INFO(name, " ", tt::name_of(dtype));
      const double tolerance = dtype == tt::f64 ? 1e-8 : 2e-5;
      Tensors in, gaps;
      for (const json& tensor : c["inputs"]) {
        in.push_back(golden::tensor_of(tensor, dtype).requires_grad_());
        gaps.push_back(golden::strided(in.back().detach()));
      }
      const Tensor y = call(name, in[0], in[1]);
      CHECK(y.dtype() == dtype);
      golden::check_equal(y, c["result"], tolerance);
      golden::check_equal(call(name, gaps[0], gaps[1]), c["result"], tolerance);
      CHECK(y.requires_grad() == (name != "floor_divide"));
      if (c["gradients"].empty()) continue;
      std::vector<double> upstream(static_cast<size_t>(y.numel()));
      for (size_t k = 0; k < upstream.size(); ++k) upstream[k] = std::cos(static_cast<double>(k));
      tt::sum(y * tt::from_data(upstream).reshape(y.shape()).to(dtype).to(y.device())).backward();
      for (size_t i = 0; i < in.size(); ++i) golden::check_equal(in[i].grad(), c["gradients"][i], 1e-4);
    }
  }
}

TEST_CASE("division: zeros, infinities and NaN give PyTorch's numbers with their signs") {
  const json golden = read_golden("division");
  const json& special = golden["special"];
  std::vector<double> numbers;
  for (const json& v : special["numbers"]) numbers.push_back(number_of(v));
  const Tensor a = tt::from_data(numbers).to(tt::default_device()).unsqueeze(1), b = a.t();
  for (const std::string& name : kNames) {
    const auto got = call(name, a, b).to_vector<double>();
    for (size_t i = 0; i < got.size(); ++i) {
      const double want = number_of(special[name][i]);
      INFO(name, " of ", numbers[i / numbers.size()], " and ", numbers[i % numbers.size()]);
      if (std::isnan(want)) {
        CHECK(std::isnan(got[i]));
      } else {
        CHECK(got[i] == want);
        CHECK(std::signbit(got[i]) == std::signbit(want));
      }
    }
  }
}

TEST_CASE("division: every dtype against the definition") {
  tt::Generator g(7);
  for (const tt::DType dtype : {tt::f64, tt::f32, tt::f16, tt::bf16, tt::i64, tt::i32, tt::i8, tt::u8}) {
    const int64_t low = dtype == tt::u8 ? 1 : -9;
    const Tensor a = tt::randint(low, 60, {5, 33}, dtype, tt::default_device(), g);
    const Tensor drawn = tt::randint(low, 10, {33}, dtype, tt::default_device(), g);
    const Tensor b = tt::where(tt::eq(drawn, 0), tt::ones_like(drawn) * 4, drawn);
    const auto x = a.to_vector<double>(), d = b.to_vector<double>();
    for (const std::string& name : kNames) {
      INFO(name, " ", tt::name_of(dtype));
      const Tensor y = call(name, a, b);
      CHECK(y.dtype() == dtype);
      const auto got = y.to_vector<double>();
      for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == exact(name, x[i], d[i % 33]));
    }
  }
  CHECK(tt::floor_divide(tt::full({1}, INT64_MIN, tt::i64), -1).item<int64_t>() == INT64_MIN);
  CHECK(tt::remainder(tt::full({}, INT64_MIN, tt::i64), -1).item<int64_t>() == 0);
  CHECK(tt::floor_divide(tt::from_data({-7.0f, 7.0f}), 2).to_vector() == std::vector<float>{-4, 3});
  CHECK(tt::fmod(tt::from_data({1e20}), 3).item<double>() == std::fmod(1e20, 3.0));
  CHECK(tt::remainder(tt::zeros({0, 3}), 2).shape() == tt::Shape{0, 3});
}

TEST_CASE("division: derivatives and errors") {
  const auto at = [](std::initializer_list<double> v) {
    return tt::from_data(std::vector<double>(v)).requires_grad_();
  };
  for (const auto* name : {"remainder", "fmod"}) {
    const auto checked = tt::gradcheck([&](const Tensors& in) { return call(name, in[0], in[1]); },
                                       {at({3.4, -5.2, 7.7}), at({1.3, 2.1, -2.9})});
    INFO(name, ": ", checked.message);
    CHECK(checked.passed);
  }
  const Tensor integers = tt::arange(3);
  for (const std::string& name : kNames) {
    test::expect_error("TT-RANGE-08", name, [&] { call(name, integers, integers); });
    test::expect_error("TT-DTYPE-03", name, [&] { call(name, integers, tt::ones({3})); });
    test::expect_error("TT-SHAPE-02", name, [&] { call(name, tt::ones({2}), tt::ones({3})); });
    const Tensor flags = tt::ones({2}, tt::boolean);
    CHECK(errors::thrown_by([&] { call(name, flags, flags); }).code.starts_with("TT-DTYPE"));
  }
}
