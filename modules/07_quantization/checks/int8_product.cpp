#include <support/check.hpp>
#include <tinytorch/backend/cpu/gemm/int8.hpp>

using namespace course;
namespace cpu = tinytorch::backend::cpu;

namespace {

double least_of(DType t) { return t == i8 ? -128 : 0; }
double largest_of(DType t) { return t == i8 ? 127 : t == u8 ? 255 : 1; }

// A matrix of integers of the whole range of its dtype.
Values random_bytes(DType dtype, const Shape& shape, Layout layout = Layout::contiguous) {
  Numbers x(static_cast<size_t>(shape.numel()));
  for (double& v : x) v = std::floor(uniform(least_of(dtype), largest_of(dtype) + 1));
  return Values::of(dtype, shape, x, layout);
}
Values constant(DType dtype, const Shape& shape, double value) {
  return Values::of(dtype, shape, Numbers(static_cast<size_t>(shape.numel()), value));
}

std::string shown_operands(const Values& a, const Values& b) {
  return std::string(name_of(a.dtype())) + " " + a.shape().str() + " times " + name_of(b.dtype()) + " " +
         b.shape().str();
}

// c = or += a b, against sums of 64-bit integers that wrap at 32 bits.
void check_product(const std::string& about, Values a, Values b, bool accumulate = false) {
  const int64_t M = a.shape()[0], K = a.shape()[1], N = b.shape()[1];
  const Numbers x = a.numbers(), y = b.numbers();
  std::vector<int32_t> c(static_cast<size_t>(M * (N + 3)), 12345);  // rows with a gap behind them
  std::vector<int32_t> want = c;
  for (int64_t m = 0; m < M; ++m) {
    for (int64_t n = 0; n < N; ++n) {
      int64_t sum = accumulate ? 12345 : 0;
      for (int64_t k = 0; k < K; ++k)
        sum += static_cast<int64_t>(x[static_cast<size_t>(m * K + k)]) *
               static_cast<int64_t>(y[static_cast<size_t>(k * N + n)]);
      want[static_cast<size_t>(m * (N + 3) + n)] = static_cast<int32_t>(static_cast<uint64_t>(sum));
    }
  }
  cpu::gemm_int8({c.data(), i32, {M, N}, {N + 3, 1}}, a.view(), b.view(), accumulate, false);
  for (int64_t m = 0; m < M; ++m) {
    for (int64_t n = 0; n < N + 3; ++n) {
      const auto i = static_cast<size_t>(m * (N + 3) + n);
      const std::string where = "[" + shown(m) + ", " + shown(n) + "]";
      expect_equal(shown_operands(a, b) + about +
                       (n < N ? ": the exact sum in c" + where : ": the gap behind a row of c, " + where),
                   c[i], want[i]);
    }
  }
}

}  // namespace

TEST_CASE("7.5 unsigned times signed bytes, as the processor multiplies them") {
  check_product("", Values::of(u8, {1, 2}, {1, 255}), Values::of(i8, {2, 1}, {-3, 100}));
  for (const int64_t K : {1, 3, 4, 31, 64})
    check_product("", random_bytes(u8, {3, K}), random_bytes(i8, {K, 5}));
}

TEST_CASE("7.5 pairs of products that do not fit 16 bits are exact") {
  for (const double b : {127.0, -128.0}) {
    const std::string about = ", all 255 and " + shown(b) + ": a pair is " + shown(2 * 255 * b);
    for (const int64_t K : {2, 4, 33})
      check_product(about, constant(u8, {2, K}, 255), constant(i8, {K, 2}, b));
  }
}

TEST_CASE("7.5 signed times signed bytes, and -128 times -128") {
  check_product(", all -128", constant(i8, {2, 6}, -128), constant(i8, {6, 3}, -128));
  check_product(", -128 and 127", constant(i8, {2, 5}, -128), constant(i8, {5, 3}, 127));
  for (const int64_t K : {1, 5, 40}) check_product("", random_bytes(i8, {4, K}), random_bytes(i8, {K, 3}));
}

TEST_CASE("7.5 each of i8, u8 and bool with each") {
  for (const DType a : {i8, u8, boolean})
    for (const DType b : {i8, u8, boolean}) {
      check_product("", random_bytes(a, {3, 19}), random_bytes(b, {19, 4}));
      check_product(", the largest numbers", constant(a, {2, 7}, largest_of(a)),
                    constant(b, {7, 2}, largest_of(b)));
      check_product(", the least numbers", constant(a, {2, 7}, least_of(a)),
                    constant(b, {7, 2}, least_of(b)));
    }
}

TEST_CASE("7.5 matrices of any layout") {
  for (const Layout first : kLayouts)
    for (const Layout second : kLayouts)
      check_product(std::string(", layouts ") + name_of_layout(first) + " and " + name_of_layout(second),
                    random_bytes(i8, {3, 10}, first), random_bytes(u8, {10, 4}, second));
}

TEST_CASE("7.5 no inputs give 0, and no rows or columns give nothing") {
  check_product("", random_bytes(i8, {2, 0}), random_bytes(i8, {0, 3}));
  check_product("", random_bytes(i8, {0, 4}), random_bytes(i8, {4, 3}));
  check_product("", random_bytes(i8, {2, 4}), random_bytes(i8, {4, 0}));
}

TEST_CASE("7.5 131,071 products: f32 has no such integers, i32 has") {
  constexpr int64_t K = 131'071;
  check_product(", all -128: 2,147,467,264 is just below 2^31", constant(i8, {1, K}, -128),
                constant(i8, {K, 1}, -128));
  check_product(", all 255 and 127", constant(u8, {1, 60'001}, 255), constant(i8, {60'001, 1}, 127));
  check_product("", random_bytes(i8, {1, K}), random_bytes(i8, {K, 2}));
  check_product("", random_bytes(u8, {1, K}), random_bytes(u8, {K, 1}));
}

TEST_CASE("7.5 a sum that does not fit wraps at 32 bits") {
  constexpr int64_t K = 70'000;
  check_product(", all 255: 4,551,750,000 mod 2^32", constant(u8, {1, K}, 255), constant(u8, {K, 1}, 255));
}

TEST_CASE("7.5 the sums replace what was there, or are added to it") {
  for (const DType a : {i8, u8}) {
    check_product(", accumulate", random_bytes(a, {3, 9}), random_bytes(i8, {9, 4}), true);
    check_product(", accumulate", random_bytes(a, {3, 0}), random_bytes(i8, {0, 4}), true);
  }
}

TEST_CASE("7.5 the codes of two matrices and their scales: a product of real numbers") {
  const int64_t M = 3, K = 50, N = 4;
  Values a = random_bytes(i8, {M, K}), b = random_bytes(i8, {K, N});
  Values rows = Values::random(f32, {M}), cols = Values::random(f32, {N}), bias = Values::random(f32, {N});
  Values out(f32, {M, N});
  cpu::scaled_gemm_int8(out.view(), a.view(), b.view(), rows.view(), cols.view(), bias.view());
  const Numbers x = a.numbers(), y = b.numbers(), r = rows.numbers(), c = cols.numbers(), z = bias.numbers();
  Numbers want;
  for (size_t m = 0; m < 3; ++m) {
    for (size_t n = 0; n < 4; ++n) {
      double sum = 0;
      for (size_t k = 0; k < 50; ++k) sum += x[m * 50 + k] * y[k * 4 + n];
      want.push_back(r[m] * c[n] * sum + z[n]);
    }
  }
  expect_close("row scale times column scale times the sum, plus bias", out, want,
               {.roundings = 8, .scale = 1e5});
}
