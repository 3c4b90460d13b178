// Numbers and dtypes: a number that the dtype cannot hold is an error for writes, and is compared exactly.
#include <tinytorch/tensor/fill.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <support/errors.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using tt::Scalar, tt::Tensor;

namespace {
constexpr int64_t kMost = std::numeric_limits<int64_t>::max(), kLeast = std::numeric_limits<int64_t>::min();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::string code_of(const std::function<void()>& f) { return errors::thrown_by(f).code; }
std::vector<bool> truths(const Tensor& t) { return t.to_vector<bool>(); }
}  // namespace

TEST_CASE("a number that the dtype cannot hold is an error for every function that writes it") {
  const Tensor u = tt::ones({2}, tt::u8), i = tt::ones({2}, tt::i32), h = tt::ones({2}, tt::f16);
  const Tensor mask = tt::ones({2}) > 0;
  errors::check_error(
      "TT-DTYPE-07: the number 300 does not fit u8 [2] on cpu\n  hint: convert the tensor first with "
      ".to(i64)",
      [&] { u + 300; });
  errors::check_error(
      "TT-DTYPE-07: the number 1e+12 does not fit i32 [2] on cpu\n  hint: convert the tensor first with "
      ".to(f32)",
      [&] { i * 1e12; });
  errors::check_error(
      "TT-DTYPE-07: the number 100000 does not fit f16 [2] on cpu\n  hint: convert the tensor first with "
      ".to(f32)",
      [&] { h * 100000; });
  const auto refused = [&](const std::function<void()>& f) { CHECK(code_of(f) == "TT-DTYPE-07"); };
  refused([&] { -1 - u; });
  refused([&] { tt::full(tt::Shape{2}, 256, tt::u8); });
  refused([&] { tt::full(tt::Shape{2}, 2, tt::boolean); });
  refused([&] { Tensor(u.clone()).fill_(-1); });
  refused([&] { Tensor(h.clone()).fill_(1e6); });
  refused([&] { Tensor(u.clone()).mul_(1000); });
  refused([&] { tt::masked_fill(h, mask, -1e9); });
  refused([&] { tt::masked_fill(u, mask, 0.5); });
  refused([&] { tt::pad(u, {{1, 1}}, 999); });
  refused([&] { tt::clamp(u, 300, 400); });
  refused([&] { tt::clamp(i, 0.5, 3); });
  refused([&] { tt::clamp(h, 1e6, 1e7); });
  refused([&] { tt::arange(0, 300, 1, tt::u8); });
  refused([&] { tt::randint(0, 300, {4}, tt::u8); });
  refused([&] { tt::randint(0, 1000, {4}, tt::bf16); });
  CHECK(tt::full(tt::Shape{}, kInfinity, tt::f16).item<double>() == kInfinity);
}

TEST_CASE("comparisons with numbers outside the dtype's range are exact") {
  const Tensor u = tt::from_data<uint8_t>({1, 100, 255}), s = tt::from_data<int8_t>({-128, 0, 127});
  const std::vector<bool> all(3, true), none(3, false);
  for (const Scalar beyond :
       {Scalar(256), Scalar(1e10), Scalar(kInfinity), Scalar(std::numeric_limits<uint64_t>::max())}) {
    for (const Tensor& t : {u, s}) {
      CHECK(truths(t < beyond) == all);
      CHECK(truths(t <= beyond) == all);
      CHECK(truths(t != beyond) == all);
      CHECK(truths(t == beyond) == none);
      CHECK(truths(t > beyond) == none);
      CHECK(truths(t >= beyond) == none);
      CHECK(truths(beyond > t) == all);
      CHECK(truths(beyond < t) == none);
    }
  }
  CHECK(truths(u > -1) == all);
  CHECK(truths(-1 >= u) == none);
  CHECK(truths(s != 255) == all);
  CHECK(truths(s >= -129) == all);
  CHECK(code_of([&] { (void)(u < 2.5); }) == "TT-DTYPE-07");
  const Tensor h = tt::from_data<float>({1, 65504, INFINITY, -INFINITY, NAN}).to(tt::f16);
  CHECK(truths(h < 1e5) == std::vector<bool>{true, true, false, true, false});
  CHECK(truths(h <= 1e5) == std::vector<bool>{true, true, false, true, false});
  CHECK(truths(h > 1e5) == std::vector<bool>{false, false, true, false, false});
  CHECK(truths(h >= 1e5) == std::vector<bool>{false, false, true, false, false});
  CHECK(truths(h == 1e5) == std::vector<bool>(5, false));
  CHECK(truths(h != 1e5) == std::vector<bool>(5, true));
  CHECK(truths(h > -1e5) == std::vector<bool>{true, true, true, false, false});
  CHECK(truths(h <= -1e5) == std::vector<bool>{false, false, false, true, false});
}

TEST_CASE("clamp: bounds outside the range have no effect, bounds of i64 are exact") {
  const Tensor u = tt::from_data<uint8_t>({0, 100, 255});
  CHECK(tt::clamp(u, -5, 300).to_vector<int64_t>() == std::vector<int64_t>{0, 100, 255});
  CHECK(tt::clamp(u, 7, kInfinity).to_vector<int64_t>() == std::vector<int64_t>{7, 100, 255});
  const Tensor l = tt::from_data<int64_t>({kLeast, 0, kMost});
  CHECK(tt::clamp(l, kLeast + 1, kMost - 1).to_vector<int64_t>() ==
        std::vector<int64_t>{kLeast + 1, 0, kMost - 1});
  CHECK(tt::clamp(l, -kInfinity, kInfinity).to_vector<int64_t>() == std::vector<int64_t>{kLeast, 0, kMost});
}

TEST_CASE("integers are read back exactly; conversions to narrower types follow the casts") {
  CHECK(tt::from_data<int64_t>({kMost}).item<int64_t>() == kMost);
  CHECK(tt::from_data<int64_t>({(int64_t{1} << 53) + 1}).item<int64_t>() == (int64_t{1} << 53) + 1);
  CHECK(tt::full(tt::Shape{}, kMost, tt::i64).item<int64_t>() == kMost);
  CHECK((tt::zeros({}, tt::i64) + kMost).item<int64_t>() == kMost);
  CHECK(tt::arange(kMost - 2, kMost).to_vector<int64_t>() == std::vector<int64_t>{kMost - 2, kMost - 1});
  CHECK(tt::arange(kLeast, kMost, kMost).to_vector<int64_t>() == std::vector<int64_t>{kLeast, -1, kMost - 1});
  CHECK(tt::arange(0, 3.5e18, int64_t{1} << 60).to_vector() ==
        std::vector<float>{0, 0x1p60F, 0x1p61F, 0x1.8p61F});
  CHECK(tt::arange(0, 1.6e19, int64_t{1} << 62).to_vector() ==
        std::vector<float>{0, 0x1p62F, 0x1p63F, 0x1.8p63F});
  for (const int64_t n : tt::randint(kMost - 2, kMost, {50}).to_vector<int64_t>()) CHECK(n >= kMost - 2);
  CHECK(tt::randint(kLeast, kMost, {50}).numel() == 50);
  const Tensor odd = tt::from_data<double>({std::nan(""), 1e300, -1e300, 2.9, -2.9});
  CHECK(odd.to_vector<int32_t>() == std::vector<int32_t>{0, 2147483647, -2147483647 - 1, 2, -2});
  CHECK(odd.to(tt::i32).to_vector<int32_t>() == odd.to_vector<int32_t>());
  for (int64_t i = 0; i < 5; ++i)
    CHECK(odd[i].item<int32_t>() == odd.to_vector<int32_t>()[static_cast<size_t>(i)]);
}

TEST_CASE("the default dtype of arange follows its arguments") {
  CHECK(tt::arange(0, 4).dtype() == tt::i64);
  CHECK(tt::arange(0, 1, 0.25).dtype() == tt::f32);
  CHECK(tt::arange(0, 1, 0.25).to_vector() == std::vector<float>{0, 0.25, 0.5, 0.75});
  CHECK(tt::arange(0, 2.5).to_vector() == std::vector<float>{0, 1, 2});
  CHECK(tt::arange(5, 0, -2).to_vector<int64_t>() == std::vector<int64_t>{5, 3, 1});
  CHECK(tt::arange(0, 4, 1, tt::f64).dtype() == tt::f64);
  CHECK(tt::arange(3, 3).numel() == 0);
  CHECK(code_of([] { tt::arange(0, 1, 0); }) == "TT-SHAPE-07");
  CHECK(code_of([] { tt::arange(kLeast, kMost); }) == "TT-SHAPE-07");
}

TEST_CASE("16-bit random numbers stay inside the interval") {
  for (const tt::DType t : {tt::bf16, tt::f16, tt::f32, tt::f64}) {
    CAPTURE(tt::name_of(t));
    const std::vector<double> unit = tt::rand({200'000}, t).to(tt::f64).to_vector<double>();
    CHECK(*std::max_element(unit.begin(), unit.end()) < 1);
    CHECK(*std::min_element(unit.begin(), unit.end()) >= 0);
    const double low = -0.1, high = 0.1;
    const std::vector<double> around = tt::uniform(low, high, {200'000}, t).to(tt::f64).to_vector<double>();
    CHECK(*std::max_element(around.begin(), around.end()) < high);
    CHECK(*std::min_element(around.begin(), around.end()) >= low);
  }
  CHECK(code_of([] { tt::uniform(1, 1, {2}); }) == "TT-RANGE-01");
  CHECK(code_of([] { tt::uniform(0, kInfinity, {2}); }) == "TT-RANGE-01");
  CHECK(code_of([] { tt::uniform(1.0001, 1.0002, {2}, tt::bf16); }) == "TT-RANGE-01");
}
