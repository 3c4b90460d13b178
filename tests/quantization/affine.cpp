#include <tinytorch/quantization/affine.hpp>

#include <cstring>
#include <support/errors.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

// The least distance of x to a value of any code, by trying all of them in double.
double least_error(float x, const tt::AffineScale& s) {
  double least = HUGE_VAL;
  for (int32_t code = s.low; code <= s.high; ++code)
    least = std::min(least,
                     std::abs(static_cast<double>(x) - static_cast<double>(s.scale) * (code - s.zero_point)));
  return least;
}

}  // namespace

TEST_CASE("every value gets the nearest code, for all widths and ranges") {
  tt::Generator generator(1);
  for (int bits = 2; bits <= 8; ++bits) {
    for (const bool symmetric : {true, false}) {
      for (int trial = 0; trial < 20; ++trial) {
        const double size = std::pow(10.0, generator.uniform(-6, 6));
        const auto a = static_cast<float>(generator.uniform(-size, size)),
                   b = static_cast<float>(generator.uniform(-size, size));
        const tt::AffineScale s = tt::choose_scale(std::min(a, b), std::max(a, b), bits, symmetric);
        CHECK(s.high - s.low == (1 << bits) - (symmetric ? 2 : 1));
        const double low = std::min({a, b, 0.0f}), high = std::max({a, b, 0.0f});
        std::vector<float> x;
        for (int i = 0; i < 50; ++i) x.push_back(static_cast<float>(generator.uniform(2 * low, 2 * high)));
        for (const float end : {a, b, 0.0f, -0.0f}) x.push_back(end);
        const tt::Tensor codes = tt::quantize(tt::from_data(x), s);
        CHECK(codes.dtype() == (symmetric ? tt::i8 : tt::u8));
        const std::vector<double> y = tt::dequantize(codes, s).to_vector<double>();
        bool nearest = true, half_a_step = true;
        for (size_t i = 0; i < x.size(); ++i) {
          const double error = std::abs(static_cast<double>(x[i]) - y[i]),
                       step = static_cast<double>(s.scale);
          nearest = nearest && error <= least_error(x[i], s) + 1e-4 * step;
          const bool inside = static_cast<double>(x[i]) >= low && static_cast<double>(x[i]) <= high;
          half_a_step = half_a_step && (!inside || error <= 0.5001 * step);
        }
        CHECK(nearest);
        CHECK(half_a_step);
        CHECK(y[y.size() - 1] == 0);
        CHECK(y[y.size() - 2] == 0);
      }
    }
  }
}

TEST_CASE("halfway values round to even, and values outside saturate") {
  const tt::AffineScale s{0.25f, 0, -127, 127};
  std::vector<float> x;
  std::vector<int64_t> expected;
  for (int k = -9; k < 9; ++k) {
    x.push_back(0.25f * (static_cast<float>(k) + 0.5f));
    expected.push_back(k % 2 == 0 ? k : k + 1);
  }
  for (const float far : {100.0f, kInf, 3e38f}) x.push_back(far), expected.push_back(127);
  for (const float far : {-100.0f, -kInf, -3e38f}) x.push_back(far), expected.push_back(-127);
  CHECK(tt::quantize(tt::from_data(x), s).to_vector<int64_t>() == expected);
}

TEST_CASE("0.0 has a code of its own even if the range excludes it") {
  for (const auto& [low, high] : {std::pair{1.0f, 5.0f}, {-5.0f, -1.0f}, {0.3f, 0.7f}, {-1e-30f, 1e30f}}) {
    const tt::AffineScale s = tt::choose_scale(low, high, 8, false);
    CHECK(tt::dequantize_value(tt::quantize_value(0, s), s) == 0);
    CHECK(s.zero_point >= s.low);
    CHECK(s.zero_point <= s.high);
    CHECK(std::abs(tt::dequantize_value(tt::quantize_value(high, s), s) - high) <= 0.5001f * s.scale);
    CHECK(std::abs(tt::dequantize_value(tt::quantize_value(low, s), s) - low) <= 0.5001f * s.scale);
  }
}

TEST_CASE("constant, tiny and huge ranges") {
  for (const bool symmetric : {true, false}) {
    CHECK(tt::choose_scale(0, 0, 8, symmetric).scale == 1);
    CHECK(tt::choose_scale(-0.0f, 0, 8, symmetric).scale == 1);
    for (const float c : {3.5f, -3.5f, 1e-35f, 3e38f, -3e38f}) {
      const tt::AffineScale s = tt::choose_scale(c, c, 8, symmetric);
      CHECK(std::abs(tt::dequantize_value(tt::quantize_value(c, s), s) / c - 1) < 1e-5);
    }
    const tt::AffineScale widest = tt::choose_scale(-3.4e38f, 3.4e38f, 8, symmetric);
    CHECK(std::isfinite(widest.scale));
    CHECK(tt::quantize_value(3.4e38f, widest) == widest.high);
    const tt::AffineScale tiny = tt::choose_scale(0, 1e-44f, 8, symmetric);  // a subnormal number
    CHECK(std::isnormal(tiny.scale));
    CHECK(tt::dequantize_value(tt::quantize_value(1e-44f, tiny), tiny) == 0);
  }
}

TEST_CASE("every floating dtype and layout, empty tensors and scalars") {
  tt::Generator generator(2);
  const tt::Tensor x = tt::randn({7, 5}, tt::f32, tt::cpu, generator);
  const tt::AffineScale s = tt::choose_scale(-2, 3, 5, false);
  for (const tt::DType dtype : {tt::f32, tt::f64, tt::bf16, tt::f16}) {
    const tt::Tensor typed = x.to(dtype), view = typed.t().slice(1, 1, 7, 2);
    const std::vector<double> rounded = view.to_vector<double>();
    const std::vector<int64_t> codes = tt::quantize(view, s).to_vector<int64_t>();
    REQUIRE(codes.size() == 15);
    for (size_t i = 0; i < codes.size(); ++i) {
      const double value = static_cast<double>(s.scale) * static_cast<double>(codes[i] - s.zero_point);
      CHECK(std::abs(rounded[i] - value) <= least_error(static_cast<float>(rounded[i]), s) + 1e-6);
    }
  }
  CHECK(tt::quantize(tt::empty({0, 3}), s).shape() == tt::Shape{0, 3});
  CHECK(tt::dequantize(tt::quantize(tt::empty({0, 3}), s), s).shape() == tt::Shape{0, 3});
  CHECK(tt::quantize(tt::full({}, 3), s).item<int>() == 31);
  CHECK(tt::dequantize(tt::quantize(tt::full({}, 3), s), s).shape() == tt::Shape{});
}

TEST_CASE("a NaN gets the code of 0, and a range with a NaN or an infinity is refused") {
  const tt::AffineScale s = tt::choose_scale(-1, 2, 8, false);
  const std::vector<double> y =
      tt::dequantize(tt::quantize(tt::from_data({kNan, 2.0f}), s), s).to_vector<double>();
  CHECK(y[0] == 0);
  CHECK(y[1] == doctest::Approx(2).epsilon(0.01));
  for (const auto& [low, high] :
       {std::pair{kNan, 1.0f}, {-1.0f, kNan}, {-kInf, 1.0f}, {0.0f, kInf}, {2.0f, 1.0f}})
    test::expect_error("TT-CALIB-01", "min <= max, and both are finite",
                       [a = low, b = high] { (void)tt::choose_scale(a, b); });
}

TEST_CASE("settings that are no codes are refused") {
  for (const int bits : {-1, 0, 1, 9, 32})
    test::expect_error("TT-CALIB-03", "2 to 8 bits", [=] { (void)tt::choose_scale(0, 1, bits); });
  const tt::Tensor x = tt::ones({2});
  for (const tt::AffineScale bad :
       {tt::AffineScale{0, 0, -7, 7}, tt::AffineScale{kNan, 0, -7, 7}, tt::AffineScale{kInf, 0, -7, 7},
        tt::AffineScale{1, 0, -129, 7}, tt::AffineScale{1, 0, -1, 128}, tt::AffineScale{1, 0, 0, 256},
        tt::AffineScale{1, 8, 0, 7}, tt::AffineScale{1, -1, 0, 7}})
    test::expect_error("TT-CALIB-03", "low <= zero_point <= high", [&] { (void)tt::quantize(x, bad); });
  test::expect_error("TT-DTYPE-02", "quantize",
                     [] { (void)tt::quantize(tt::arange(0, 3), tt::AffineScale{}); });
  test::expect_error("TT-DTYPE-01", "codes are i8 or u8",
                     [&] { (void)tt::dequantize(x, tt::AffineScale{}); });
  test::expect_error("TT-TENSOR-01", "quantize", [] { (void)tt::quantize(tt::Tensor(), tt::AffineScale{}); });
}
