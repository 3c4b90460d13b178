// Reductions on the GPU against loops in double, over every set of dimensions. The shapes cover every access
// pattern (rows, columns, one result; one chunk and several), contiguous and transposed.
#include <support/device.hpp>
#include <support/few.hpp>
#include <tinytorch/tinytorch.hpp>

#include <cmath>
#include <limits>

namespace tt = tinytorch;

namespace {

tt::Tensor random_values(const tt::Shape& shape, tt::DType dtype, uint64_t seed) {
  tt::Generator generator(seed);
  std::vector<double> values(static_cast<size_t>(shape.numel()));
  for (double& v : values) v = generator.uniform(-2, 2);
  return tt::from_data(values, shape).to(dtype);
}
std::vector<double> values_of(const tt::Tensor& t) {
  return t.to(tt::cpu).to(tt::f64).contiguous().to_vector<double>();
}

// Sum and maximum of each result, and the sum of magnitudes, which bounds the error.
struct Expected {
  std::vector<double> sum, largest, magnitude;
  Expected(const tt::Tensor& x, const tt::Dims& dims) {
    const std::vector<double> v = values_of(x);
    tt::Shape kept = x.shape();
    for (const int64_t d : dims) kept[static_cast<int>(d)] = 1;
    const auto results = static_cast<size_t>(kept.numel());
    sum.assign(results, 0);
    magnitude.assign(results, 0);
    largest.assign(results, -std::numeric_limits<double>::infinity());
    for (size_t i = 0; i < v.size(); ++i) {
      auto rest = static_cast<int64_t>(i);
      int64_t at = 0, step = 1;
      for (int d = x.rank() - 1; d >= 0; --d) {
        if (kept[d] != 1) at += rest % x.size(d) * step;
        step *= kept[d];
        rest /= x.size(d);
      }
      sum[static_cast<size_t>(at)] += v[i];
      magnitude[static_cast<size_t>(at)] += std::abs(v[i]);
      largest[static_cast<size_t>(at)] = std::max(largest[static_cast<size_t>(at)], v[i]);
    }
  }
};

void check_reductions(const tt::Tensor& x) {
  if (test::left_out(2)) return;
  const tt::Tensor on_gpu =
      x.is_contiguous() ? x.to(tt::cuda) : x.transpose(0, 1).contiguous().to(tt::cuda).transpose(0, 1);
  for (int set = 1; set < (1 << x.rank()); ++set) {
    tt::Dims dims;
    for (int d = 0; d < x.rank(); ++d) {
      if (set >> d & 1) dims.push_back(d);
    }
    CAPTURE(x.shape().str());
    CAPTURE(set);
    const Expected expected(x, dims);
    const std::vector<double> sum = values_of(tt::sum(on_gpu, dims)),
                              largest = values_of(tt::max(on_gpu, dims));
    REQUIRE(sum.size() == expected.sum.size());
    CHECK(largest == expected.largest);
    double worst = 0;  // in ulps of the summed dtype and of the result
    for (size_t i = 0; i < sum.size(); ++i) {
      const double unit =
          tt::epsilon_of(x.dtype()) * std::abs(expected.sum[i]) + 4e-7 * expected.magnitude[i];
      worst =
          std::max(worst, std::abs(sum[i] - expected.sum[i]) / (x.dtype() == tt::f64 ? 1e-6 * unit : unit));
    }
    CHECK(worst <= (x.dtype() == tt::f64 ? 10 : 1));
  }
}

}  // namespace

TEST_CASE("sums and maxima over every set of dimensions equal the definition" * test::needs_devices()) {
  for (const tt::DType dtype : {tt::f32, tt::bf16, tt::f16, tt::f64}) {
    check_reductions(random_values({1}, dtype, 1));
    check_reductions(random_values({3, 1, 33}, dtype, 2));
    check_reductions(random_values({31, 257}, dtype, 3));
    check_reductions(random_values({257, 40}, dtype, 4));
    check_reductions(random_values({257, 31}, dtype, 5).transpose(0, 1));
  }
  check_reductions(random_values({20011}, tt::f32, 6));
  check_reductions(random_values({2, 9000}, tt::bf16, 7));
}

TEST_CASE("reductions of unaligned rows, narrow and long, equal the definition" * test::needs_devices()) {
  for (const tt::DType dtype : {tt::f32, tt::bf16, tt::f16, tt::f64}) {
    for (const auto& [rows, C] : {std::pair<int64_t, int64_t>{300, 1},
                                  {133, 2},
                                  {133, 3},
                                  {141, 4},
                                  {37, 7},
                                  {9, 60},
                                  {9, 17},
                                  {5, 129},
                                  {3, 1025},
                                  {2, 5003}}) {
      check_reductions(random_values({rows, C}, dtype, static_cast<uint64_t>(C)));
    }
  }
  const tt::Tensor x = random_values({3, 1001}, tt::bf16, 9).to(tt::cuda);
  for (const int64_t first : {1, 2}) {
    const tt::Tensor part = x.slice(0, first, 3);
    const Expected expected(part.to(tt::cpu), {1});
    const std::vector<double> sum = values_of(tt::sum(part, {1}));
    for (size_t i = 0; i < sum.size(); ++i) CHECK(sum[i] == doctest::Approx(expected.sum[i]).epsilon(0.01));
  }
  CHECK(tt::sum(tt::ones({5, 13}, tt::boolean, tt::cuda), {1}).to(tt::cpu).to_vector<int64_t>() ==
        std::vector<int64_t>(5, 13));
}

TEST_CASE("reductions of integers, products, any, all, NaN and empty sets equal the definition" *
          test::needs_devices()) {
  const std::vector<int64_t> whole{7, -3, int64_t{1} << 40, 5};
  CHECK(tt::sum(tt::from_data(whole).to(tt::cuda)).item<int64_t>() == (int64_t{1} << 40) + 9);
  CHECK(tt::prod(tt::from_data(std::vector<float>{2, -3, 0.5f}).to(tt::cuda)).item() == -3);
  CHECK(tt::sum(tt::zeros({0}, tt::f32, tt::cuda)).item() == 0);
  tt::Tensor x = random_values({1000}, tt::f32, 8);
  x.slice(0, 617, 618).fill_(std::nan(""));
  CHECK(std::isnan(tt::max(x.to(tt::cuda)).item()));
  CHECK(std::isnan(tt::min(x.to(tt::cuda)).item()));
  CHECK(tt::argmax(x.to(tt::cuda), 0).item<int64_t>() == 617);
}

TEST_CASE("argmax gives the first largest element, and cumsum equals the CPU's" * test::needs_devices()) {
  for (const int64_t n : {1, 31, 257, 5003}) {
    CAPTURE(n);
    // Few distinct values, so that the first of equal values is tested.
    const tt::Tensor x = tt::round(random_values({3, n}, tt::f32, static_cast<uint64_t>(n)));
    const tt::Tensor on_gpu = x.to(tt::cuda);
    for (int dim : {0, 1}) {
      CHECK(values_of(tt::argmax(on_gpu, dim)) == values_of(tt::argmax(x, dim)));
      CHECK(values_of(tt::argmin(on_gpu, dim)) == values_of(tt::argmin(x, dim)));
      // Sums of integers are exact.
      CHECK(values_of(tt::cumsum(on_gpu, dim)) == values_of(tt::cumsum(x, dim)));
    }
  }
}
