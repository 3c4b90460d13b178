// The reduce family: every case in every dtype and layout.
#include <support/cases/reduce.hpp>
#include <support/check.hpp>
#include <support/errors.hpp>

using namespace cases;

TEST_CASE("reduce ops match their oracles") {
  for (const OpCase& c : reduce_cases()) check_values(c);
}
TEST_CASE("arg ops match their oracles") {
  for (const OpCase& c : arg_cases()) check_values(c);
}
TEST_CASE("cumsum ops match their oracles") {
  for (const OpCase& c : cumsum_cases()) check_values(c);
}
TEST_CASE("reduce ops report their FLOPs and bytes") {
  for (const OpCase& c : reduce_cases()) check_cost(c);
  for (const OpCase& c : arg_cases()) check_cost(c);
  for (const OpCase& c : cumsum_cases()) check_cost(c);
}

using errors::check_error;

TEST_CASE("errors of reductions, complete texts") {
  const Tensor x = tt::zeros({2, 0}).named("x"), n = tt::zeros({3}, tt::i64);
  check_error("TT-SHAPE-10: max: no elements, so there is no extreme value, got 'x' f32 [2, 0] on cpu",
              [&] { tt::max(x); });
  check_error("TT-SHAPE-10: argmin: no elements, so there is no extreme value, got 'x' f32 [2, 0] on cpu",
              [&] { tt::argmin(x, 1); });
  check_error("TT-SHAPE-08: sum: dimension -1 occurs twice in [1, -1]", [&] { tt::sum(x, {1, -1}); });
  check_error("TT-SHAPE-03: mean: dimension 2 is outside [-2, 1] of a tensor of rank 2",
              [&] { tt::mean(x, {2}); });
  check_error("TT-SHAPE-03: cumsum: dimension 2 is outside [-2, 1] of a tensor of rank 2",
              [&] { tt::cumsum(x, 2); });
  check_error(
      "TT-DTYPE-02: mean: needs a floating dtype, got i64 [3] on cpu\n  hint: convert first with .to(f32)",
      [&] { tt::mean(n); });
  check_error(
      "TT-DTYPE-02: var: needs a floating dtype, got i64 [3] on cpu\n  hint: convert first with .to(f32)",
      [&] { tt::var(n); });
}

TEST_CASE("the variance of many values far from zero is accurate, along rows and columns") {
  const Tensor x = tt::randn({200'000, 3}) + 100.0;
  const std::vector<double> values = x.to_vector<double>();
  for (const bool columns : {true, false}) {
    const Tensor variance = columns ? tt::var(x, {0}) : tt::var(x.t().contiguous(), {1});
    for (size_t j = 0; j < 3; ++j) {
      double mean = 0, sum = 0;
      for (size_t i = j; i < values.size(); i += 3) mean += values[i] / 200'000;
      for (size_t i = j; i < values.size(); i += 3) sum += (values[i] - mean) * (values[i] - mean);
      CHECK(std::abs(variance.to_vector<double>()[j] - sum / 199'999) <= 1e-6);
    }
  }
}

TEST_CASE("reductions of no elements and of one element") {
  const Tensor none = tt::zeros({0, 3}), one = tt::full({1}, 5);
  CHECK(tt::sum(none).item() == 0);
  CHECK(tt::prod(none).item() == 1);
  CHECK(std::isnan(tt::mean(none).item()));
  CHECK(std::isnan(tt::var(none).item()));
  CHECK(std::isnan(tt::var(one).item()));  // 0 / 0
  CHECK(tt::var(one, {}, 0).item() == 0);
  CHECK(tt::sum(none, {0}).to_vector() == std::vector<float>{0, 0, 0});
  CHECK(tt::max(none, {1}).numel() == 0);
  CHECK(tt::argmax(tt::full({}, 3), 0).item<int>() == 0);
  CHECK(tt::all(none).item<bool>());
  CHECK_FALSE(tt::any(none).item<bool>());
}

TEST_CASE("reductions over dimensions of size 1 return the values, for any dtype and layout") {
  for (const tt::DType dtype :
       {tt::f32, tt::f64, tt::f16, tt::bf16, tt::i8, tt::u8, tt::i32, tt::i64, tt::boolean}) {
    const Tensor whole = tt::arange(0, 24).to(dtype).reshape({2, 3, 4});
    for (const Tensor& x :
         {whole.unsqueeze(1), whole.permute({2, 0, 1}).unsqueeze(1), whole.slice(2, 1, 4, 2).unsqueeze(1)}) {
      const std::vector<double> want = x.to(tt::f64).to_vector<double>();
      for (const bool keepdim : {false, true}) {
        std::vector<Tensor> results{tt::sum(x, {1}, keepdim), tt::prod(x, {1}, keepdim),
                                    tt::max(x, {1}, keepdim), tt::min(x, {1}, keepdim)};
        CHECK(results[0].dtype() == (tt::is_floating(dtype) ? dtype : tt::i64));
        if (tt::is_floating(dtype)) results.push_back(tt::mean(x, {1}, keepdim));
        for (const Tensor& y : results) {
          CHECK(y.shape() == (keepdim ? x.shape() : tt::Shape{x.shape()[0], x.shape()[2], x.shape()[3]}));
          CHECK(y.to(tt::f64).to_vector<double>() == want);
        }
      }
    }
  }
  CHECK(tt::sum(tt::full({}, 2.5)).item<double>() == 2.5);
  CHECK(std::isnan(tt::max(tt::full({}, NAN)).item<double>()));
}

TEST_CASE("NaN propagates; intermediate sums of large values do not overflow") {
  const Tensor x = tt::from_data({1.0f, NAN, 3.0f});
  for (const Tensor& r :
       {tt::sum(x), tt::mean(x), tt::max(x), tt::min(x), tt::prod(x), tt::norm(x), tt::var(x)})
    CHECK(std::isnan(r.item()));
  CHECK(tt::argmax(x, 0).item<int>() == 1);
  CHECK(tt::argmin(x, 0).item<int>() == 1);
  CHECK(tt::any(x).item<bool>());
  // The sum exceeds the range of f16, the mean does not.
  CHECK(tt::mean(tt::full({100}, 60000, tt::f16)).item() == 59968.0f + 32);
  CHECK(tt::norm(tt::full({4}, 300, tt::f16)).item() == 600);
  CHECK(tt::sum(tt::full({1000}, 100, tt::i8)).item<int>() == 100'000);
}

TEST_CASE("equal extreme values share the gradient") {
  Tensor x = tt::from_data({1.0, 5.0, 5.0, 2.0});
  x.requires_grad_();
  tt::max(x).backward();
  CHECK(x.grad().to_vector<double>() == std::vector<double>{0, 0.5, 0.5, 0});
}

TEST_CASE("the mean of ones is exactly 1 for any number of elements") {
  for (const tt::DType dtype : {tt::f64, tt::f32}) {
    for (int64_t n = 1; n < 400; ++n) {
      if (tt::mean(tt::ones({n}, dtype)).item<double>() != 1) CHECK(n == 0);
      if (tt::mean(tt::full({n, 3}, 3, dtype), {0}).to_vector<double>() != std::vector<double>(3, 3.0))
        CHECK(n == 0);
    }
    Tensor x = tt::ones({49}, dtype).requires_grad_();
    (tt::mean(x) * 49).backward();
    CHECK(tt::all(x.grad() == 1));
  }
}

TEST_CASE("the gradient of stddev of equal values is 0, and so is that of norm at the origin") {
  Tensor x = tt::full({2, 3}, 5, tt::f64);
  x.select(0, 1).copy_(tt::from_data({1.0, 2.0, 3.0}));
  x.requires_grad_();
  const Tensor s = tt::stddev(x, {1});
  CHECK(s.to_vector<double>() == std::vector<double>{0, 1});
  tt::sum(s).backward();
  CHECK(x.grad().to_vector<double>() == std::vector<double>{0, 0, 0, -0.5, 0, 0.5});
  Tensor n = tt::zeros({3}, tt::f64).requires_grad_();
  tt::norm(n).backward();
  CHECK(n.grad().to_vector<double>() == std::vector<double>{0, 0, 0});
  CHECK(tt::stddev(tt::from_data({-60000.f, 60000.f}).to(tt::f16), {}, 0).item<double>() ==
        doctest::Approx(60000).epsilon(1e-3));
}

TEST_CASE("gradients at the boundaries of the functions' domains") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Tensor none = tt::full({3}, -kInfinity, tt::f64).requires_grad_();
  const Tensor nothing = tt::logsumexp(none);
  CHECK(nothing.item<double>() == -kInfinity);
  nothing.backward();
  CHECK(none.grad().to_vector<double>() == std::vector<double>{0, 0, 0});
  Tensor some = tt::from_data({-kInfinity, 0.0, -kInfinity}).requires_grad_();
  tt::logsumexp(some).backward();
  CHECK(some.grad().to_vector<double>() == std::vector<double>{0, 1, 0});
  Tensor base = tt::from_data({0.0, 0.0, 2.0}).requires_grad_(),
         power = tt::from_data({0.0, 2.0, 0.0}).requires_grad_();
  tt::sum(tt::pow(base, power)).backward();
  CHECK(base.grad().to_vector<double>() == std::vector<double>{0, 0, 0});
  CHECK(power.grad().to_vector<double>() == std::vector<double>{0, 0, std::log(2.0)});
}
