// Arithmetic of launch plans, compared with that of C++.
#include <doctest/doctest.h>

#include <tinymlperf/device/arithmetic.hpp>
#include <tinytorch/core/random.hpp>

using namespace tinymlperf;
using namespace tinymlperf::device;

namespace {

const Shapes kShapes{{{3, 40}, {7}}, {3, 41, 5}};

std::string reason_of(std::string_view text, const Shapes& shapes = kShapes) {
  try {
    (void)evaluate(text, shapes);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("operators have the precedence of C++; functions and dimensions have their values") {
  const int64_t h = 3, w = 40, n = 7, c = 5;
  CHECK(evaluate("1 + 2 * 3", kShapes) == 7);
  CHECK(evaluate(" (1+2)*3 ", kShapes) == 9);
  CHECK(evaluate("2 - 3 - 4", kShapes) == -5);
  CHECK(evaluate("-7 / 2", kShapes) == -3);
  CHECK(evaluate("-7 % 4", kShapes) == -3);
  CHECK(evaluate("100 / 7 / 2 * 3", kShapes) == 100 / 7 / 2 * 3);
  CHECK(evaluate("in0[1] * in0[0] - in1[0]", kShapes) == w * h - n);
  CHECK(evaluate("size(out) + size(in0)", kShapes) == 3 * 41 * c + h * w);
  CHECK(evaluate("ceil_div(size(out), 256)", kShapes) == (3 * 41 * 5 + 255) / 256);
  CHECK(evaluate("ceil_div(0, 5)", kShapes) == 0);
  CHECK(evaluate("min(out[1], max(in0[1], 2))", kShapes) == 40);
  CHECK(evaluate("power_of_two(in0[1])", kShapes) == 64);
  CHECK(evaluate("power_of_two(64) + power_of_two(0)", kShapes) == 65);
  CHECK(evaluate("--3", kShapes) == 3);
}

TEST_CASE("random sums of products have the value that C++ computes") {
  tinytorch::Generator random(17);
  for (int i = 0; i < 500; ++i) {
    const auto a = static_cast<int64_t>(random.below(2000)) - 1000;
    const auto b = static_cast<int64_t>(random.below(2000)) - 1000;
    const auto d = static_cast<int64_t>(random.below(50)) + 1;
    const std::string A = std::to_string(a), B = std::to_string(b), D = std::to_string(d);
    CHECK(evaluate(A + "*" + B + "/" + D + "-" + A + "%" + D + "*(" + B + "+" + D + ")", kShapes) ==
          a * b / d - a % d * (b + d));
  }
}

TEST_CASE("texts with a syntax error or without a value are refused with the position of the error") {
  CHECK(reason_of("1 +").find("character 4: expected a number") != std::string::npos);
  CHECK(reason_of("").find("expected a number") != std::string::npos);
  CHECK(reason_of("1 2").find("character 3: expected an operator") != std::string::npos);
  CHECK(reason_of(std::string("12\0 3", 5)).find("character 3: expected an operator") != std::string::npos);
  CHECK(reason_of("(1").find("expected )") != std::string::npos);
  CHECK(reason_of("1 / (2 - 2)").find("division by zero") != std::string::npos);
  CHECK(reason_of("1 % 0").find("division by zero") != std::string::npos);
  CHECK(reason_of("9223372036854775807 + 1").find("does not fit in 64 bits") != std::string::npos);
  CHECK(reason_of("(-9223372036854775807 - 1) / -1").find("does not fit in 64 bits") != std::string::npos);
  CHECK(reason_of("99999999999999999999").find("not an integer") != std::string::npos);
  CHECK(reason_of("12ab").find("not an integer") != std::string::npos);
  CHECK(reason_of("in2[0]").find("the op has 2 inputs") != std::string::npos);
  CHECK(reason_of("in1[1]").find("[7] has no dimension 1") != std::string::npos);
  CHECK(reason_of("out").find("expected [") != std::string::npos);
  CHECK(reason_of("system(1)").find("unknown function system") != std::string::npos);
  CHECK(reason_of("ceil_div(4, 0)").find("b > 0") != std::string::npos);
  CHECK(reason_of(std::string(201, '1')).find("200 characters") != std::string::npos);
  CHECK(reason_of(std::string(200, '(')).find("expected") != std::string::npos);
}

TEST_CASE("the syntax is checked without shapes") {
  CHECK_NOTHROW(require_arithmetic("ceil_div(in0[5] - in3[0], out[0] - 1) / (out[0] - 1)"));
  CHECK_THROWS_AS(require_arithmetic("in0[]"), std::invalid_argument);
  CHECK_THROWS_AS(require_arithmetic("in0[0"), std::invalid_argument);
  CHECK_THROWS_AS(require_arithmetic("min(1)"), std::invalid_argument);
}
