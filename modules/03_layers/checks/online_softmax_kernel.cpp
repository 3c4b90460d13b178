#include <limits>
#include <support/check.hpp>
#include <tinytorch/backend/cuda/launch.hpp>

using namespace course;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
enum What { softmax, log_softmax };

// Softmax in two passes along C of [outer, C, inner].
Numbers reference(What what, const Numbers& x, const Shape& shape, int dim) {
  size_t inner = 1, C = static_cast<size_t>(shape[dim]);
  for (int d = dim + 1; d < shape.size(); ++d) inner *= static_cast<size_t>(shape[d]);
  Numbers y(x.size());
  for (size_t first = 0; first < x.size(); ++first) {
    if (first / inner % C != 0) continue;
    double largest = -kInf, sum = 0;
    for (size_t e = 0; e < C; ++e) {
      const double v = x[first + e * inner];
      largest = std::isnan(v) || v > largest ? v : largest;
      if (std::isnan(largest)) break;
    }
    for (size_t e = 0; e < C; ++e) sum += std::exp(x[first + e * inner] - largest);
    for (size_t e = 0; e < C; ++e) {
      const double d = x[first + e * inner] - largest;
      y[first + e * inner] = what == softmax ? std::exp(d) / sum : d - std::log(sum);
    }
  }
  return y;
}

void check(What what, Values x, const std::string& of, int dim, Layout layout = Layout::contiguous) {
  Values y = Values(x.dtype(), x.shape(), layout).on_device();
  const Numbers want = reference(what, x.numbers(), x.shape(), dim);
  (what == softmax ? backend::cuda::softmax : backend::cuda::log_softmax)(y.view(), x.view(), dim);
  const std::string name = what == softmax ? "softmax" : "log_softmax";
  expect_close(name + " of " + of + " along " + std::to_string(dim), y, want, {.roundings = 24, .scale = 4});
}
void check_random(What what, DType t, const Shape& shape, int dim, Layout layout = Layout::contiguous,
                  double size = 4) {
  check(what, Values::random(t, shape, layout, -size, size).on_device(),
        shape.str() + " " + name_of(t) + ", " + name_of_layout(layout), dim, layout);
}
void check_numbers(What what, const Numbers& numbers, const std::string& of) {
  const Shape shape{1, static_cast<int64_t>(numbers.size())};
  check(what, Values::of(f32, shape, numbers).on_device(), of, 1);
}
// 100 numbers, so that several warps process them.
Numbers line_with(double value, size_t at) {
  Numbers numbers(100);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<double>(i % 7);
  numbers[at] = value;
  return numbers;
}

void check_logsumexp(const Values& given, const std::string& of, std::vector<bool> over) {
  Values x = given;
  const Shape shape = x.shape();
  Shape kept;
  bool reduced[kMaxRank] = {};
  for (int d = 0; d < shape.size(); ++d) {
    reduced[d] = over[static_cast<size_t>(d)];
    if (!reduced[d]) kept.push_back(shape[d]);
  }
  const Numbers xs = x.numbers();
  Numbers largest(static_cast<size_t>(kept.numel()), -kInf), want(largest.size(), 0);
  for (const bool second : {false, true}) {
    for (size_t i = 0; i < xs.size(); ++i) {
      const Shape at = index_of(shape, static_cast<int64_t>(i));
      size_t to = 0;
      for (int d = 0; d < shape.size(); ++d) {
        if (!reduced[d]) to = to * static_cast<size_t>(shape[d]) + static_cast<size_t>(at[d]);
      }
      if (!second) largest[to] = std::max(largest[to], xs[i]);
      if (second && std::isfinite(largest[to])) want[to] += std::exp(xs[i] - largest[to]);
    }
  }
  for (size_t i = 0; i < want.size(); ++i) {
    want[i] = std::isfinite(largest[i]) ? largest[i] + std::log(want[i]) : largest[i];
  }
  Values y = Values(x.dtype(), kept).on_device();
  backend::cuda::logsumexp(y.view(), x.view(), reduced);
  expect_close("logsumexp of " + of, y, want, {.roundings = 24, .scale = 4});
}

}  // namespace

TEST_CASE("3.21 softmax of a row") {
  check_numbers(softmax, {1, 2, 3}, "[1, 2, 3]");
  for (const int64_t C : {1, 2, 31, 32, 33, 100, 256, 257, 700}) check_random(softmax, f32, {3, C}, 1);
  for (const int64_t C : {2500, 2501}) check_random(softmax, f32, {2, C}, 1);
}

TEST_CASE("3.21 large numbers do not overflow: the running maximum is subtracted") {
  check_numbers(softmax, {1000, 1001, 1002}, "[1000, 1001, 1002]");
  check_numbers(softmax, line_with(900, 99), "a line whose last element is 900");
  check_numbers(softmax, line_with(900, 0), "a line whose first element is 900");
  check_random(softmax, f32, {2, 300}, 1, Layout::contiguous, 300);
}

TEST_CASE("3.21 -inf adds nothing; a row of only -inf, NaN and +inf give NaN") {
  check_numbers(softmax, {-kInf, 0, 1}, "[-inf, 0, 1]");
  Numbers masked(100, -kInf);  // some threads and warps process only -inf
  masked[70] = 2, masked[71] = 3;
  check_numbers(softmax, masked, "a line of -inf except for two elements");
  check_numbers(softmax, Numbers(3, -kInf), "[-inf, -inf, -inf]");
  for (const size_t at : {0, 50, 99}) check_numbers(softmax, line_with(NAN, at), "a line with a NaN");
  check_numbers(softmax, {0, kInf, 1}, "[0, inf, 1]");
  check_numbers(softmax, line_with(kInf, 40), "a line with +inf");
}

TEST_CASE("3.21 log_softmax") {
  check_numbers(log_softmax, {1, 2, 3}, "[1, 2, 3]");
  check_numbers(log_softmax, {-1000, 0, 1000}, "[-1000, 0, 1000]");
  for (const int64_t C : {5, 100, 300}) check_random(log_softmax, f32, {3, C}, 1);
}

TEST_CASE("3.21 any dtype, dimension and layout") {
  for (const DType t : {f64, bf16, f16}) {
    for (const int64_t C : {70, 72}) check_random(softmax, t, {3, C}, 1);
  }
  for (const int dim : {0, 1, 2}) check_random(softmax, f32, {7, 40, 5}, dim);
  for (const Layout l : kLayouts) check_random(log_softmax, f32, {3, 5, 40}, 2, l);
  check_random(softmax, f32, {300, 3}, 1);
  check_random(softmax, f32, {0, 3}, 1);
}

TEST_CASE("3.21 in place") {
  Values x = Values::random(f32, {4, 100}).on_device();
  const Numbers want = reference(softmax, x.numbers(), x.shape(), 1);
  backend::cuda::softmax(x.view(), x.view(), 1);
  expect_close("softmax of [4, 100] along 1, in place", x, want, {.roundings = 24});
}

TEST_CASE("3.21 logsumexp over any dimensions") {
  check_logsumexp(Values::random(f32, {3, 300}).on_device(), "[3, 300] over 1", {false, true});
  check_logsumexp(Values::random(f32, {3, 5, 7}).on_device(), "[3, 5, 7] over 0 and 2", {true, false, true});
  check_logsumexp(Values::random(f64, {4, 40}, Layout::gaps, 500, 900).on_device(), "[4, 40] f64 over 0",
                  {true, false});
  check_logsumexp(Values::of(f32, {2, 2}, {-kInf, -kInf, kInf, 1}).on_device(),
                  "[[-inf, -inf], [inf, 1]] over 1", {false, true});
}
