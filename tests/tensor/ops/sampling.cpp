// unique, randperm and multinomial: definitions, frequencies under a fixed seed, special values, errors.
#include <tinytorch/tensor/ops/sampling.hpp>
// The header above must compile by itself.

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <support/errors.hpp>
#include <support/everyday.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using tt::Tensor;
using Integers = std::vector<int64_t>;

namespace {

// Pearson's statistic of counts against expected counts.
double chi_square(const std::vector<double>& counts, const std::vector<double>& expected) {
  double sum = 0;
  for (size_t i = 0; i < counts.size(); ++i)
    sum += (counts[i] - expected[i]) * (counts[i] - expected[i]) / expected[i];
  return sum;
}

}  // namespace

TEST_CASE("unique equals a map of counts, for every dtype and for gaps in memory") {
  tt::Generator g(3);
  for (const tt::DType dtype : {tt::f64, tt::f32, tt::f16, tt::bf16, tt::i64, tt::i32, tt::i8, tt::u8}) {
    const Tensor dense = tt::randint(dtype == tt::u8 ? 0 : -5, 12, {7, 2, 9}, dtype, tt::default_device(), g);
    for (const Tensor& x : {dense, dense.transpose(0, 2), dense.select(1, 1)}) {
      INFO(tt::name_of(dtype), " ", x.shape().str());
      std::map<double, int64_t> counted;
      const auto all = x.to_vector<double>();
      for (double v : all) ++counted[v];
      const tt::UniqueValues u = tt::unique(x);
      const auto values = u.values.to_vector<double>();
      const auto counts = u.counts.to_vector<int64_t>(), inverse = u.inverse.to_vector<int64_t>();
      CHECK(u.values.dtype() == dtype);
      CHECK(u.inverse.shape() == x.shape());
      REQUIRE(values.size() == counted.size());
      size_t k = 0;
      for (const auto& [value, count] : counted) {
        CHECK(values[k] == value);
        CHECK(counts[k++] == count);
      }
      for (size_t i = 0; i < all.size(); ++i) CHECK(values[static_cast<size_t>(inverse[i])] == all[i]);
    }
  }
}

TEST_CASE("unique of scalars, no elements, NaN, zeros of both signs, and bool") {
  const float nan = std::nanf("");
  CHECK(tt::unique(tt::full({}, 3)).inverse.rank() == 0);
  const auto empty = tt::unique(tt::zeros({2, 0}));
  CHECK(empty.values.numel() + empty.counts.numel() == 0);
  CHECK(empty.inverse.shape() == tt::Shape{2, 0});
  const auto special = tt::unique(tt::from_data({nan, 0.0f, 1.0f, -0.0f, nan}));
  CHECK(special.values.numel() == 4);  // 0, 1 and two NaN, as in PyTorch
  CHECK(special.counts.to_vector<int64_t>() == Integers{2, 1, 1, 1});
  CHECK(tt::unique(tt::from_data({1.0f, 0.0f, 1.0f}).to(tt::boolean)).counts.to_vector<int64_t>() ==
        Integers{1, 2});
}

TEST_CASE("unique along a dimension and unique_consecutive are PyTorch's") {
  using tt::Tensors;
  const auto dim = [](const Tensor& index) { return static_cast<int>(index.item<int64_t>()); };
  everyday::check(
      {{"unique_0", [&](const Tensors& in, const Tensor& d) { return tt::unique(in[0], dim(d)).values; }},
       {"unique_1", [&](const Tensors& in, const Tensor& d) { return tt::unique(in[0], dim(d)).inverse; }},
       {"unique_2", [&](const Tensors& in, const Tensor& d) { return tt::unique(in[0], dim(d)).counts; }},
       {"unique_consecutive_0",
        [](const Tensors& in, const Tensor&) { return tt::unique_consecutive(in[0]).values; }},
       {"unique_consecutive_1",
        [](const Tensors& in, const Tensor&) { return tt::unique_consecutive(in[0]).inverse; }},
       {"unique_consecutive_2",
        [](const Tensors& in, const Tensor&) { return tt::unique_consecutive(in[0]).counts; }}},
      true);
}

TEST_CASE("unique along a dimension: every dtype, NaN, no slices, errors") {
  for (const tt::DType t :
       {tt::f64, tt::f32, tt::f16, tt::bf16, tt::i64, tt::i32, tt::i8, tt::u8, tt::boolean}) {
    const auto u = tt::unique(tt::from_data<int64_t>({1, 0, 0, 1, 1, 0, 0, 0}, {4, 2}).to(t), 0);
    CHECK(u.values.dtype() == t);
    CHECK(u.values.to_vector<double>() == std::vector<double>{0, 0, 0, 1, 1, 0});
    CHECK(u.inverse.to_vector<int64_t>() == Integers{2, 1, 2, 0});
    CHECK(u.counts.to_vector<int64_t>() == Integers{1, 1, 2});
  }
  const int64_t large = int64_t{1} << 60;  // beyond the integers of f64
  CHECK(tt::unique(tt::from_data<int64_t>({large + 1, large, large + 1}), 0).values.to_vector<int64_t>() ==
        Integers{large, large + 1});
  const float nan = std::nanf("");
  CHECK(tt::unique(tt::from_data({nan, nan, 0.0f, -0.0f}), 0).counts.to_vector<int64_t>() ==
        Integers{2, 1, 1});
  CHECK(tt::unique(tt::zeros({0, 3}), 0).values.shape() == tt::Shape{0, 3});
  CHECK(tt::unique_consecutive(tt::zeros({0, 3})).inverse.shape() == tt::Shape{0, 3});
  test::expect_error("TT-SHAPE-10", "unique", [] { tt::unique(tt::zeros({3, 0}), 0); });
  test::expect_error("TT-SHAPE-03", "unique", [] { tt::unique(tt::zeros({}), 0); });
}

TEST_CASE("randperm holds every number once, and all orders are equally likely") {
  tt::Generator g(11);
  CHECK(tt::randperm(0).shape() == tt::Shape{0});
  for (const int64_t n : {1, 2, 33, 1000}) {
    const auto p = tt::randperm(n, tt::i64, tt::default_device(), g).to_vector<int64_t>();
    CHECK(std::set<int64_t>(p.begin(), p.end()).size() == p.size());
    CHECK(*std::max_element(p.begin(), p.end()) == n - 1);
    CHECK(*std::min_element(p.begin(), p.end()) == 0);
  }
  CHECK(tt::randperm(5, tt::f32).dtype() == tt::f32);
  std::map<Integers, double> seen;
  for (int i = 0; i < 2400; ++i) ++seen[tt::randperm(4, tt::i64, tt::cpu, g).to_vector<int64_t>()];
  std::vector<double> counts;
  for (const auto& [order, count] : seen) counts.push_back(count);
  REQUIRE(counts.size() == 24);
  CHECK(chi_square(counts, std::vector<double>(24, 100.0)) < 60);  // 23 degrees: probability 4e-5
  tt::Generator a(5), b(5);
  CHECK(tt::randperm(50, tt::i64, tt::cpu, a).to_vector<int64_t>() ==
        tt::randperm(50, tt::i64, tt::cpu, b).to_vector<int64_t>());
  test::expect_error("TT-SHAPE-01", "randperm", [] { tt::randperm(-1); });
  test::expect_error("TT-DTYPE-07", "randperm", [] { tt::randperm(1000, tt::i8); });
}

TEST_CASE("multinomial with replacement has the frequencies of the weights") {
  tt::Generator g(21);
  const int64_t n = 20000;
  for (const tt::DType dtype : {tt::f32, tt::f64, tt::f16, tt::bf16}) {
    const Tensor w = tt::from_data({0.0f, 1.0f, 4.0f, 0.0f, 3.0f, 0.0f}).to(dtype).to(tt::default_device());
    const Tensor drawn = tt::multinomial(w, n, true, g);
    CHECK(drawn.shape() == tt::Shape{n});
    CHECK(drawn.dtype() == tt::i64);
    std::vector<double> counts(6);
    for (int64_t i : drawn.to_vector<int64_t>()) ++counts.at(static_cast<size_t>(i));
    CHECK(counts[0] + counts[3] + counts[5] == 0);
    CHECK(chi_square({counts[1], counts[2], counts[4]}, {n / 8.0, n / 2.0, n * 3 / 8.0}) <
          20);  // 2 degrees: 5e-5
  }
}

TEST_CASE("multinomial without replacement draws one after the other from those that are left") {
  tt::Generator g(22);
  const std::vector<double> w{1, 2, 0, 3};
  const int rows = 12000;
  const Tensor weights = tt::from_data(w).expand({rows, 4});  // rows share memory
  const Tensor drawn = tt::multinomial(weights, 2, false, g);
  REQUIRE(drawn.shape() == tt::Shape{rows, 2});
  const auto values = drawn.to_vector<int64_t>();
  std::map<std::pair<int64_t, int64_t>, double> seen;
  for (size_t r = 0; r < static_cast<size_t>(rows); ++r) ++seen[{values[2 * r], values[2 * r + 1]}];
  std::vector<double> counts, expected;
  for (const auto& [pair, count] : seen) {
    const double a = w[static_cast<size_t>(pair.first)], b = w[static_cast<size_t>(pair.second)];
    REQUIRE(pair.first != pair.second);
    counts.push_back(count);
    expected.push_back(rows * a / 6 * b / (6 - a));
  }
  REQUIRE(counts.size() == 6);
  CHECK(chi_square(counts, expected) < 30);  // 5 degrees: probability 2e-5
  CHECK(tt::multinomial(tt::from_data({0.0f, 5.0f}), 1, false, g).item<int64_t>() == 1);
}

TEST_CASE("multinomial refuses what is no distribution") {
  const auto refuse = [](const char* code, const Tensor& w, int64_t count, bool replacement) {
    test::expect_error(code, "multinomial", [&] { tt::multinomial(w, count, replacement); });
  };
  refuse("TT-RANGE-02", tt::from_data({1.0f, -1.0f}), 1, true);
  refuse("TT-RANGE-02", tt::from_data({1.0f, std::nanf("")}), 1, true);
  refuse("TT-RANGE-02", tt::from_data({1.0f, std::numeric_limits<float>::infinity()}), 1, true);
  refuse("TT-RANGE-02", tt::zeros({3}), 1, true);
  refuse("TT-RANGE-02", tt::from_data({1.0f, 0.0f}), 2, false);
  refuse("TT-RANGE-03", tt::ones({3}), 0, true);
  refuse("TT-SHAPE-04", tt::ones({1, 1, 3}), 1, true);
  CHECK(errors::thrown_by([] { tt::multinomial(tt::arange(3), 1); }).code.starts_with("TT-DTYPE"));
  CHECK(tt::multinomial(tt::zeros({0, 3}), 2).shape() == tt::Shape{0, 2});
}
