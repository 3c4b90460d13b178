#include <tinytorch/tensor/scalar.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

namespace {
constexpr int64_t kMost = std::numeric_limits<int64_t>::max(), kLeast = std::numeric_limits<int64_t>::min();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
}  // namespace

TEST_CASE("a Scalar keeps 64-bit integers exactly") {
  const tt::Scalar a = int64_t{1} << 60, b = 0.5, c = true;
  CHECK(a.integral);
  CHECK(a.integer == int64_t{1} << 60);
  CHECK_FALSE(b.integral);
  CHECK(b.real == 0.5);
  CHECK(c.integral);
  CHECK(tt::full({1}, (int64_t{1} << 60) + 1, tt::i64).to_vector<int64_t>()[0] == (int64_t{1} << 60) + 1);
}

TEST_CASE("can_hold: integers in range without a fraction, floats that stay finite") {
  struct Range {
    tt::DType dtype;
    int64_t least, most;
  };
  for (const Range& r :
       {Range{tt::i8, -128, 127}, Range{tt::u8, 0, 255}, Range{tt::i32, -2147483648, 2147483647},
        Range{tt::i64, kLeast, kMost}, Range{tt::boolean, 0, 1}}) {
    CAPTURE(tt::name_of(r.dtype));
    CHECK(tt::can_hold(r.dtype, r.least));
    CHECK(tt::can_hold(r.dtype, r.most));
    if (r.dtype != tt::i64) {
      CHECK_FALSE(tt::can_hold(r.dtype, r.least - 1));
      CHECK_FALSE(tt::can_hold(r.dtype, r.most + 1));
    }
    CHECK(tt::can_hold(r.dtype, 1.0));
    for (const double x : {0.5, 1e19, -1e300, kInfinity, -kInfinity, std::nan("")})
      CHECK_FALSE(tt::can_hold(r.dtype, x));
    CHECK_FALSE(tt::can_hold(r.dtype, std::numeric_limits<uint64_t>::max()));
  }
  for (const tt::DType t : {tt::f32, tt::f64, tt::bf16, tt::f16}) {
    for (const double x : {0.5, 65504.0, -1e-300, kInfinity, -kInfinity, std::nan("")})
      CHECK(tt::can_hold(t, x));
    CHECK(tt::can_hold(t, 65519.0) == true);
    CHECK(tt::can_hold(t, 65520.0) == (t != tt::f16));
    CHECK(tt::can_hold(t, 1e39) == (t == tt::f64));
    CHECK(tt::can_hold(t, -1e39) == (t == tt::f64));
    CHECK(tt::can_hold(t, kMost) == (t != tt::f16));
  }
}

TEST_CASE("the text of a Scalar is the number as it was written") {
  CHECK(tt::Scalar(300).str() == "300");
  CHECK(tt::Scalar(0.5).str() == "0.5");
  CHECK(tt::Scalar(kLeast).str() == "-9223372036854775808");
  CHECK(tt::Scalar(std::numeric_limits<uint64_t>::max()).str() == "1.84467441e+19");
}
