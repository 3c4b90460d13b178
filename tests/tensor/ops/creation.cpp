// Creation of tensors, random tensors, and in-place writes.
#include <algorithm>
#include <cmath>
#include <support/errors.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using errors::check_error;
using tt::Tensor;
using Values = std::vector<double>;

namespace {
Values values(const Tensor& t) { return t.to_vector<double>(); }
const std::vector<tt::DType> kAll = {tt::f32, tt::f64, tt::bf16, tt::f16, tt::i8, tt::u8, tt::i32, tt::i64};
}  // namespace

TEST_CASE("constants in every dtype, shape and size") {
  for (const auto t : kAll) {
    CHECK(values(tt::full({2, 1}, 3, t)) == Values{3, 3});
    CHECK(tt::zeros({2, 3}, t).dtype() == t);
    CHECK(values(tt::ones({3}, t)) == Values{1, 1, 1});
    CHECK(tt::full({0, 4}, 1, t).numel() == 0);
    CHECK(values(tt::eye(2, t)) == Values{1, 0, 0, 1});
    CHECK(values(tt::arange(1, 6, 2, t)) == Values{1, 3, 5});
  }
  CHECK(values(tt::ones({2}, tt::boolean)) == Values{1, 1});
  CHECK(tt::full({}, 2.5).item() == 2.5f);
  CHECK(tt::eye(0).shape() == tt::Shape{0, 0});
  CHECK(tt::sum(tt::eye(33)).item() == 33);
}

TEST_CASE("long ranges are exact in every block and on every thread") {
  constexpr int64_t n = 100'003;
  const auto counted = tt::arange(-7, 3 * n - 7, 3).to_vector<int64_t>();
  const auto halves = tt::arange(0.5, n, 1.0, tt::f64).to_vector<double>();
  const auto line = tt::linspace(-2, 5, n, tt::f64).to_vector<double>();
  const auto narrow = tt::linspace(-2, 5, n).to_vector<float>();
  const double step = 7.0 / (n - 1);
  REQUIRE(counted.size() == n);
  REQUIRE(halves.size() == n);
  for (int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<size_t>(i);
    REQUIRE(counted[at] == 3 * i - 7);
    REQUIRE(halves[at] == 0.5 + static_cast<double>(i));
    const double exact =
        i < n / 2 ? -2 + step * static_cast<double>(i) : 5 - step * static_cast<double>(n - 1 - i);
    REQUIRE(std::abs(line[at] - exact) <=
            0x1p-50);  // one unit in the last place, because products may be fused with sums
    REQUIRE(narrow[at] == static_cast<float>(line[at]));
  }
}

TEST_CASE("arange: open end, negative and fractional steps, exact counts") {
  CHECK(values(tt::arange(0, 5)) == Values{0, 1, 2, 3, 4});
  CHECK(values(tt::arange(5, 0, -2)) == Values{5, 3, 1});
  CHECK(values(tt::arange(0, 1, 0.25, tt::f64)) == Values{0, 0.25, 0.5, 0.75});
  CHECK(values(tt::arange(0, 2.5)) == Values{0, 1, 2});
  CHECK(tt::arange(3, 3).numel() == 0);
  CHECK(tt::arange(3, 0).numel() == 0);
  CHECK(tt::arange(0, 1, 0.1, tt::f64).numel() == 10);
  const int64_t big = int64_t{1} << 52;
  CHECK(tt::arange(big, big + 3).to_vector<int64_t>() == std::vector<int64_t>{big, big + 1, big + 2});
  check_error(
      "TT-SHAPE-07: arange: step must not be 0, and start and stop must be finite, with fewer steps "
      "between them than a tensor can have elements",
      [] { tt::arange(0, 5, 0); });
  check_error(
      "TT-SHAPE-07: arange: step must not be 0, and start and stop must be finite, with fewer steps "
      "between them than a tensor can have elements",
      [] { tt::arange(0, INFINITY); });
}

TEST_CASE("linspace has exact ends and is symmetric") {
  CHECK(values(tt::linspace(0, 1, 5, tt::f64)) == Values{0, 0.25, 0.5, 0.75, 1});
  CHECK(values(tt::linspace(3, 9, 1, tt::f64)) == Values{3});
  CHECK(tt::linspace(0, 1, 0).numel() == 0);
  const Values v = values(tt::linspace(-0.1, 0.1, 1001, tt::f64));
  CHECK(v.front() == -0.1);
  CHECK(v.back() == 0.1);
  for (size_t i = 0; i < v.size() / 2; ++i) CHECK(v[i] == -v[v.size() - 1 - i]);
  CHECK(std::abs(v[500]) < 1e-17);
}

TEST_CASE("random tensors depend on the seed, advance the generator, and do not depend on the thread count") {
  for (const auto t : {tt::f32, tt::f64, tt::bf16, tt::f16}) {
    tt::Generator a(5), b(5);
    tt::set_thread_count(1);
    const Values first = values(tt::randn({70'001}, t, tt::default_device(), a)),
                 second = values(tt::randn({70'001}, t, tt::default_device(), a));
    tt::set_thread_count(2);
    CHECK(values(tt::randn({70'001}, t, tt::default_device(), b)) == first);
    CHECK(first != second);
    CHECK(a.state().next_block == 2 * ((70'001 + (t == tt::f64 ? 1 : 3)) / (t == tt::f64 ? 2 : 4)));
    for (const double u : values(tt::rand({10'000}, t, tt::default_device(), a))) REQUIRE((u >= 0 && u <= 1));
  }
  tt::manual_seed(3);
  const Values x = values(tt::rand({5}));
  tt::manual_seed(3);
  CHECK(values(tt::rand({5})) == x);
  CHECK(values(tt::rand({5})) != x);
  tt::Generator g(1);
  for (const double v : values(tt::randint(-2, 3, {1000}, tt::i8, tt::default_device(), g)))
    REQUIRE((v >= -2 && v < 3));
  CHECK(tt::sum(tt::bernoulli(1, {50})).item() == 50);
  CHECK(tt::randn({0, 3}).numel() == 0);
}

TEST_CASE("rand and randn have the expected moments") {
  tt::Generator g(11);
  const Tensor u = tt::rand({200'000}, tt::f64, tt::default_device(), g),
               z = tt::randn({200'000}, tt::f64, tt::default_device(), g);
  CHECK(std::abs(tt::mean(u).item<double>() - 0.5) < 3.3 * std::sqrt(1.0 / 12 / 200'000));
  CHECK(std::abs(tt::var(u).item<double>() - 1.0 / 12) < 1e-3);
  CHECK(std::abs(tt::mean(z).item<double>()) < 3.3 / std::sqrt(200'000));
  CHECK(std::abs(tt::var(z).item<double>() - 1) < 0.012);
}

TEST_CASE("invalid arguments of random tensors are errors") {
  check_error("TT-DTYPE-02: rand: needs a floating dtype, got i64", [] { tt::rand({2}, tt::i64); });
  check_error("TT-DTYPE-02: randn: needs a floating dtype, got bool", [] { tt::randn({2}, tt::boolean); });
  check_error("TT-RANGE-01: randint: low must be below high, got [3, 3)", [] { tt::randint(3, 3, {2}); });
  check_error("TT-RANGE-02: bernoulli: p must be in [0, 1], got 1.500000", [] { tt::bernoulli(1.5, {2}); });
  CHECK(errors::thrown_by([] { tt::bernoulli(NAN, {2}); }).code == "TT-RANGE-02");
}

TEST_CASE("a number takes the dtype of the tensor; a fraction with an integer tensor is an error") {
  CHECK(tt::scalar_like(2, tt::empty({3}, tt::u8)).dtype() == tt::u8);
  CHECK(tt::scalar_like(2.0, tt::empty({3}, tt::i32)).item<int>() == 2);
  check_error(
      "TT-DTYPE-07: the number 0.5 does not fit i64 [3] on cpu\n  hint: convert the tensor first with "
      ".to(f32)",
      [] { tt::scalar_like(0.5, tt::empty({3}, tt::i64)); });
}

TEST_CASE("in-place writes: operands that do not fit are errors") {
  Tensor x = tt::zeros({2, 3});
  check_error("TT-SHAPE-02: copy_: f32 [4] on cpu does not broadcast to f32 [2, 3] on cpu",
              [&] { x.copy_(tt::ones({4})); });
  check_error("TT-SHAPE-02: add_: f32 [5, 2, 3] on cpu does not broadcast to f32 [2, 3] on cpu", [&] {
    x.add_(tt::ones({5, 2, 3}));
  });
  check_error(
      "TT-DTYPE-03: add_: operands differ in dtype: f32 [2, 3] on cpu and f64 [3] on cpu\n  hint: convert "
      "one with "
      ".to(f32) or .to(f64)",
      [&] { x.add_(tt::ones({3}, tt::f64)); });
  Tensor wide = tt::zeros({3, 1}).expand({3, 4});
  check_error(
      "TT-SHAPE-14: fill_: f32 [3, 4] on cpu is expanded, so several of its elements share one memory "
      "location\n  "
      "hint: "
      "write to a clone()",
      [&] { wide.fill_(1); });
  CHECK(errors::thrown_by([&] { wide.add_(tt::ones({3, 4})); }).code == "TT-SHAPE-14");
  x.copy_(tt::arange(0, 3));  // copy_ converts
  CHECK(values(x) == Values{0, 1, 2, 0, 1, 2});
}
