// floor_divide, remainder and fmod on the CPU: every dtype and layout, broadcasting, against 128-bit integers
// and the definitions in double.
#include <doctest/doctest.h>

#include <cmath>
#include <support/array.hpp>
#include <tinytorch/backend/cpu/division.hpp>

using namespace test;
using tinytorch::backend::Division;

namespace {

double want(Division fn, double a, double b, DType t) {
  double value = fn == Division::floor ? std::floor(a / b) : std::fmod(a, b);
  if (fn == Division::remainder && value != 0 && (value < 0) != (b < 0)) value += b;
  if (t == i8 && value == 128) return -128;  // -128 / -1 wraps
  return value;
}

}  // namespace

TEST_CASE("divisions of every dtype, layout and awkward size equal the definition") {
  uint64_t seed = 40;
  for (const DType t : {f32, f64, bf16, f16, i8, u8, i32, i64}) {
    for (const Shape& shape : {Shape{1}, Shape{31}, Shape{5, 33}, Shape{3, 8, 31}, Shape{0, 4}}) {
      for (const Layout layout : kLayouts) {
        Generator g(++seed);
        std::vector<double> a(static_cast<size_t>(shape.numel())), b = a;
        for (double& v : a) v = std::floor(g.uniform(t == u8 ? 0 : -128, 128));
        for (double& v : b) v = std::floor(g.uniform(t == u8 ? 1 : -9, 9));
        for (double& v : b) v = v == 0 ? 5 : v;
        Array x = Array::from(t, shape, a, layout), y = Array::from(t, shape, b);
        for (const Division fn : {Division::floor, Division::remainder, Division::fmod}) {
          INFO(static_cast<int>(fn), " ", static_cast<int>(t), " ", shape.str());
          Array out(t, shape, layout);
          backend::cpu::division(fn, out.view(), x.view(), y.view());
          const auto got = out.values();
          for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == want(fn, a[i], b[i], t));
        }
      }
    }
  }
}

TEST_CASE("fmod is exact where the quotient has more digits than the type") {
  Array a = Array::from(f32, {3}, {1e30, -3e38, 16777217}), b = Array::from(f32, {3}, {3, 0.7, 1e-30});
  Array out(f32, {3});
  backend::cpu::division(Division::fmod, out.view(), a.view(), b.view());
  const auto x = a.values(), y = b.values(), got = out.values();
  for (size_t i = 0; i < 3; ++i) CHECK(got[i] == std::fmod(x[i], y[i]));
}
