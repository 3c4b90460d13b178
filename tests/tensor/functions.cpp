// Every operation against PyTorch: results and gradients of the rows of OP (support/cases), for the inputs
// and the expected values in tests/golden/ops.safetensors (tests/golden/make_ops.py), which a call's text
// names. Each case runs with contiguous and with strided inputs. It is a failure if a row has no case, if a
// case has no row, or if an operation of functions.hpp has neither.
#include <doctest/doctest.h>

#include <cmath>
#include <regex>
#include <set>
#include <string>
#include <support/cases/all.hpp>
#include <support/few.hpp>
#include <support/golden_ops.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinytorch;
using golden::Golden, golden::GoldenCases;

namespace {

Generator& seeded(uint64_t seed) {
  static Generator generator;
  return generator = Generator(seed);
}
// Returns, for each element of x, the fraction of samples that are at most as large.
Tensor share_up_to(const Tensor& x, const Tensor& samples) {
  const std::vector<double> values = samples.to_vector<double>();
  std::vector<float> shares;
  for (double point : x.to_vector<double>()) {
    const auto below = std::count_if(values.begin(), values.end(), [&](double v) { return v <= point; });
    shares.push_back(static_cast<float>(static_cast<double>(below) / static_cast<double>(values.size())));
  }
  return from_data(shares);
}

// Random numbers: the share of samples up to some points.
// clang-format off
std::vector<cases::OpCase> random_calls() {
  return {
      OP("", share_up_to(x, rand({200000}, f32, default_device(), seeded(1)))),
      OP("", share_up_to(x, rand({200000}, f64, default_device(), seeded(2)))),
      OP("", share_up_to(x, uniform(-1, 3, {200000}, f32, default_device(), seeded(9)))),
      OP("", share_up_to(x, randn({200000}, f32, default_device(), seeded(3)))),
      OP("", share_up_to(x, randn({200000}, f64, default_device(), seeded(4)))),
      OP("", share_up_to(x, randn({200000}, bf16, default_device(), seeded(5)))),
      OP("", share_up_to(x, randint(-1, 4, {200000}, i64, default_device(), seeded(6)))),
      OP("", share_up_to(x, bernoulli(0.3, {200000}, f32, default_device(), seeded(7)))),
      OP("", share_up_to(x, dropout(ones({200000}), 0.25, seeded(8)))),
  };
}
// clang-format on

std::vector<cases::OpCase> golden_rows() {
  std::vector<cases::OpCase> rows = random_calls();
  for (const cases::OpCase& c : cases::all_calls()) {
    if (c.golden) rows.push_back(c);
  }
  return rows;
}

// Returns the same values with strides: dimensions in reverse order in memory, with gaps between elements.
Tensor strided(const Tensor& t) {
  Shape spread;
  for (int d = t.rank() - 1; d >= 0; --d) spread.push_back(t.shape()[d]);
  spread.push_back(2);
  const Tensor memory = zeros(spread, t.dtype());
  Dims order;
  for (int d = t.rank() - 1; d >= 0; --d) order.push_back(d);
  return memory.select(t.rank(), 1).permute(order).copy_(t).detach();
}

Tensor cotangent(const Tensor& like, int64_t k) {
  std::vector<float> values;
  for (int64_t i = 0; i < like.numel(); ++i)
    values.push_back(static_cast<float>((7 * (i + k) + 3) % 11 - 5) / 4.0f);
  return from_data(values, like.shape()).to(like.dtype());
}

// Relative tolerance with an absolute floor for cancellation: a sum of terms around 1 is exact to epsilon
// of 1.
void check_close(const Tensor& actual, const Tensor& expected, double relative, double absolute) {
  REQUIRE(actual.shape() == expected.shape());
  REQUIRE(actual.dtype() == expected.dtype());
  const std::vector<double> a = actual.to_vector<double>(), e = expected.to_vector<double>();
  double scale = 0;
  for (double v : e) scale = std::isfinite(v) ? std::max(scale, std::abs(v)) : scale;
  const double floor = std::max(absolute, relative * std::min(scale, 1.0));
  for (size_t i = 0; i < e.size(); ++i) {
    CAPTURE(i);
    const bool same = a[i] == e[i] || (std::isnan(a[i]) && std::isnan(e[i]));
    if (!same) CHECK(std::abs(a[i] - e[i]) <= floor + relative * std::abs(e[i]));
  }
}

// Tolerance in units of the last place. f32 and f64: for the polynomials and sums behind a result; 16-bit
// results are rounded once from f32, their gradients once per step of the derivative.
double tolerance(DType t, bool gradient) {
  if (t == f32) return 32 * epsilon_of(t);
  if (t == f64) return 64 * epsilon_of(t);
  return (gradient ? 2.0 : 0.51) * epsilon_of(t);
}

void check_case(cases::Call call, const Golden& golden, bool with_strides) {
  const std::string names = "xyzuv";
  Tensor in[5];
  bool any_grad = false;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto found = golden.find(names.substr(i, 1));
    if (found == golden.end()) continue;
    in[i] = with_strides ? strided(found->second) : found->second.clone();
    if (golden.contains("d" + names.substr(i, 1))) {
      in[i].requires_grad_();
      any_grad = true;
    }
  }
  const double absolute = golden.contains("tol") ? golden.at("tol").item<double>() : 0;
  const Tensors outputs = call(in[0], in[1], in[2], in[3], in[4]).list;
  for (size_t k = 0; k < outputs.size(); ++k) {
    CAPTURE(k);
    REQUIRE(golden.contains(std::to_string(k)));
    check_close(outputs[k], golden.at(std::to_string(k)), tolerance(outputs[k].dtype(), false), absolute);
  }
  REQUIRE(!golden.contains(std::to_string(outputs.size())));
  if (!any_grad) return;
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (outputs[k].requires_grad())
      outputs[k].backward(cotangent(outputs[k], static_cast<int64_t>(k)), k + 1 < outputs.size());
  }
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string name = "d" + names.substr(i, 1);
    if (!golden.contains(name)) continue;
    CAPTURE(name);
    REQUIRE(in[i].grad().defined());
    check_close(in[i].grad(), golden.at(name), tolerance(in[i].dtype(), true), 0);
  }
}

}  // namespace

TEST_CASE("every operation agrees with PyTorch in results and gradients") {
  const GoldenCases golden = golden::load_ops();
  std::set<std::string> called;
  for (const cases::OpCase& row : golden_rows()) {
    const std::string key = golden::without_spaces(row.text);
    CAPTURE(key);
    CHECK_MESSAGE(called.insert(key).second, "two rows have this call");
    REQUIRE_MESSAGE(golden.contains(key), "no case in ops.safetensors: add it to make_ops.py and run that");
    for (const auto& [name, values] : golden.at(key)) {
      const std::string label = name;  // clang 14 cannot capture a structured binding in a lambda
      CAPTURE(label);
      for (const bool with_strides : {false, true}) {
        if (test::left_out(16)) continue;
        CAPTURE(with_strides);
        try {
          check_case(row.call, values, with_strides);
        } catch (const Error& e) {
          FAIL_CHECK(e.what());
        }
      }
    }
  }
  for (const auto& entry : golden) {
    CHECK_MESSAGE(called.contains(entry.first), "no row for the case " << entry.first);
  }
}

TEST_CASE("every operation of functions.hpp has a golden case") {
  const std::string header = golden::read_all("include/tinytorch/tensor/functions.hpp");
  std::set<std::string> words;
  const std::regex word("\\w+"), declaration("TT_API \\w+ (\\w+)\\(");
  for (const cases::OpCase& row : golden_rows()) {
    for (std::sregex_iterator it(row.text.begin(), row.text.end(), word), end; it != end; ++it)
      words.insert(it->str());
  }
  int declared = 0;
  for (std::sregex_iterator it(header.begin(), header.end(), declaration), end; it != end; ++it, ++declared)
    CHECK_MESSAGE(words.contains((*it)[1].str()), "no golden case for " << (*it)[1].str());
  CHECK(declared > 100);
}
