#include <support/check.hpp>
#include <tinytorch/quantization/affine.hpp>

using namespace course;

namespace {

// The codes of b bits: from -(2^(b-1) - 1) to 2^(b-1) - 1 if symmetric, else from 0 to 2^b - 1.
int largest_code(int bits, bool symmetric) { return (1 << (symmetric ? bits - 1 : bits)) - 1; }

std::string call(float min, float max, int bits, bool symmetric) {
  return "choose_scale(" + shown(min) + ", " + shown(max) + ", " + shown(bits) + " bits, " +
         (symmetric ? "symmetric)" : "affine)");
}

void expect_near(const std::string& what, double got, double want) {
  expect(what + ": expected " + shown(want) + ", got " + shown(got),
         std::abs(got - want) <= 1e-6 * std::abs(want));
}

// The scale of a range, against the definition in double.
void check_scale(float min, float max, int bits, bool symmetric) {
  const std::string what = call(min, max, bits, symmetric);
  const AffineScale s = choose_scale(min, max, bits, symmetric);
  const double least = std::min(static_cast<double>(min), 0.0),
               largest = std::max(static_cast<double>(max), 0.0);
  const double extent = symmetric ? std::max(-least, largest) : largest - least;
  expect_equal(what + ": largest code", s.high, largest_code(bits, symmetric));
  expect_equal(what + ": least code", s.low, symmetric ? -s.high : 0);
  expect_near(what + ": scale", static_cast<double>(s.scale), extent / s.high);
  const double zero = symmetric ? 0 : std::nearbyint(-least / (extent / s.high));
  expect("the zero point of " + what + ": an integer within 1 of " + shown(zero) + "; got " +
             shown(s.zero_point),
         std::abs(s.zero_point - zero) <= (symmetric ? 0 : 1));
}

AffineScale scale_of(float scale, int zero_point, int low, int high) {
  return {scale, zero_point, low, high};
}

}  // namespace

TEST_CASE("7.1 symmetric codes: the largest magnitude becomes the largest code") {
  check_scale(-1, 1, 8, true);
  check_scale(-3, 1, 8, true);
  check_scale(-0.25f, 2, 4, true);
  for (const int bits : {2, 3, 4, 5, 6, 7, 8})
    check_scale(static_cast<float>(uniform(-2, -1)), static_cast<float>(uniform(0, 3)), bits, true);
  const AffineScale s = choose_scale(-127, 127);
  expect_equal("8 symmetric bits are what you get if you do not ask: code of -127", quantize_value(-127, s),
               -127);
  expect_equal("and code of 127", quantize_value(127, s), 127);
}

TEST_CASE("7.1 affine codes: 0 is the smallest value, the largest code is the largest value") {
  check_scale(0, 255, 8, false);
  check_scale(-1, 3, 4, false);
  for (const int bits : {2, 3, 4, 8})
    check_scale(static_cast<float>(uniform(-2, 0)), static_cast<float>(uniform(0, 3)), bits, false);
  const AffineScale s = choose_scale(-5, 10, 4, false);  // scale 1, and 0.0 has code 5
  for (const auto& [x, code] : {std::pair{-5.0f, 0}, {0.0f, 5}, {1.0f, 6}, {10.0f, 15}})
    expect_equal("range -5 to 10 in 4 bits, scale 1: code of " + shown(x), quantize_value(x, s), code);
  expect_equal("value of code 0", dequantize_value(0, s), -5.0f);
  expect_equal("value of code 15", dequantize_value(15, s), 10.0f);
}

TEST_CASE("7.1 0.0 is a code's exact value, in every range") {
  for (int i = 0; i < 200; ++i) {
    const auto a = static_cast<float>(uniform(-4, 4)), b = static_cast<float>(uniform(-4, 4));
    for (const int bits : {2, 4, 8}) {
      for (const bool symmetric : {true, false}) {
        const float min = std::min(a, b), max = std::max(a, b);
        const AffineScale s = choose_scale(min, max, bits, symmetric);
        expect(call(min, max, bits, symmetric) + ": zero_point " + shown(s.zero_point) +
                   " is one of the codes " + shown(s.low) + " to " + shown(s.high),
               s.low <= s.zero_point && s.zero_point <= s.high);
        expect_equal(call(min, max, bits, symmetric) + ": 0.0 as a code and back",
                     dequantize_value(quantize_value(0, s), s), 0.0f);
      }
    }
  }
  for (const auto& [min, max] : {std::pair{2.0f, 3.0f}, {-3.0f, -2.0f}}) {
    check_scale(min, max, 8, false);  // the range is extended to 0
    const AffineScale s = choose_scale(min, max, 8, false);
    expect_equal(call(min, max, 8, false) + ", a range without 0: code of 0.0", quantize_value(0, s),
                 min > 0 ? 0 : 255);
  }
}

TEST_CASE("7.1 inside the range a value is off by half a scale at most; outside it saturates") {
  for (const bool symmetric : {true, false}) {
    for (const int bits : {3, 8}) {
      const AffineScale s = choose_scale(-1.7f, 2.3f, bits, symmetric);
      // The rounded zero point moves the range of affine codes by up to half a scale.
      const double slack = symmetric ? 0.5 : 1.0, step = static_cast<double>(s.scale);
      for (int i = 0; i <= 400; ++i) {
        const auto x = static_cast<float>(-1.7 + 0.01 * i);
        const double off =
            std::abs(static_cast<double>(dequantize_value(quantize_value(x, s), s)) - static_cast<double>(x));
        const double allowed = x < -1.6f || x > 2.2f ? slack : 0.5;
        expect(shown(x) + " as a code of " + call(-1.7f, 2.3f, bits, symmetric) + " and back is off by " +
                   shown(off / step) + " scales, at most " + shown(allowed) + " are right",
               off <= (allowed + 1e-4) * step);
      }
      for (const float x : {-50.0f, -1e30f, -INFINITY})
        expect_equal("code of " + shown(x) + ", far below the range", quantize_value(x, s), s.low);
      for (const float x : {50.0f, 1e30f, INFINITY})
        expect_equal("code of " + shown(x) + ", far above the range", quantize_value(x, s), s.high);
    }
  }
}

TEST_CASE("7.1 halfway values go to the even integer, and the zero point is added after that") {
  const AffineScale s = scale_of(0.5f, 0, -127, 127);
  for (const auto& [x, code] : {std::pair{0.25f, 0},
                                {0.75f, 2},
                                {1.25f, 2},
                                {-0.25f, 0},
                                {-0.75f, -2},
                                {0.3f, 1},
                                {-0.3f, -1},
                                {0.2f, 0}})
    expect_equal("scale 0.5: " + shown(x) + " is " + shown(2 * x) + " scales, its code", quantize_value(x, s),
                 code);
  const AffineScale odd = scale_of(1, 3, 0, 15);
  for (const auto& [x, code] : {std::pair{0.5f, 3}, {1.5f, 5}, {-0.5f, 3}, {-1.5f, 1}})
    expect_equal("scale 1, zero point 3: " + shown(x) + " is rounded, then 3 is added: code",
                 quantize_value(x, odd), code);
}

TEST_CASE("7.1 a range without extent has scale 1, and a tiny one has a scale that is a normal number") {
  for (const bool symmetric : {true, false}) {
    const AffineScale s = choose_scale(0, 0, 8, symmetric);
    expect_equal(call(0, 0, 8, symmetric) + ": scale, so that nothing is divided by 0", s.scale, 1.0f);
    expect_equal(call(0, 0, 8, symmetric) + ": code of 0.0 and back",
                 dequantize_value(quantize_value(0, s), s), 0.0f);
    const AffineScale tiny = choose_scale(0, 1e-44f, 8, symmetric);
    expect(call(0, 1e-44f, 8, symmetric) + ": the scale is at least 2^-126, got " + shown(tiny.scale),
           tiny.scale >= 0x1p-126f);
    const AffineScale constant = choose_scale(5, 5, 8, symmetric);
    expect_near(call(5, 5, 8, symmetric) + ", a constant: 5 as a code and back",
                static_cast<double>(dequantize_value(quantize_value(5, constant), constant)), 5);
  }
}

TEST_CASE("7.1 a range that is no range is refused, and so are 1 and 9 bits") {
  for (const auto& [min, max] : {std::pair{NAN, 1.0f}, {0.0f, NAN}, {-INFINITY, 1.0f}, {0.0f, INFINITY}})
    expect_throws("TT-CALIB-01", "choose_scale(" + shown(min) + ", " + shown(max) + ")",
                  [&] { choose_scale(min, max); });
  expect_throws("TT-CALIB-01", "choose_scale(2, 1): min > max", [] { choose_scale(2, 1); });
  for (const int bits : {1, 9, 0})
    expect_throws("TT-CALIB-03", "codes of " + shown(bits) + " bits", [&] { choose_scale(-1, 1, bits); });
}

TEST_CASE("7.1 a NaN gets the code of 0.0") {
  for (const int zero : {0, 7})
    expect_equal("zero point " + shown(zero) + ": code of NaN",
                 quantize_value(NAN, scale_of(0.1f, zero, 0, 15)), zero);
}

TEST_CASE("7.1 tensors of codes: i8 or u8, of any shape") {
  const Numbers x = {-1, -0.5, 0, 0.5, 1, 2};
  const Tensor t = from_data(x, {2, 3}).to(f32);
  const AffineScale sym = choose_scale(-2, 2), affine = choose_scale(-1, 2, 2, false);
  const Tensor codes = quantize(t, sym), few = quantize(t, affine);
  expect_equal("dtype of symmetric codes", std::string(name_of(codes.dtype())), std::string("i8"));
  expect_equal("codes of -1, -0.5, 0, 0.5, 1, 2 in a range of 2", codes.to_vector<double>(),
               Numbers{-64, -32, 0, 32, 64, 127});
  expect_equal("dtype of affine codes", std::string(name_of(few.dtype())), std::string("u8"));
  expect_equal("codes in 2 bits, range -1 to 2", few.to_vector<double>(), Numbers{0, 1, 1, 1, 2, 3});
  expect_equal("and back", dequantize(few, affine).to_vector<double>(), Numbers{-1, 0, 0, 0, 1, 2});
}
