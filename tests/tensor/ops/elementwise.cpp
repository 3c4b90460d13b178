// Elementwise operations: every case in every dtype and layout, then properties beyond the cases: special
// values, accuracy over whole ranges, wrap-around, casts, in-place writes.
#include <support/cases/elementwise.hpp>
#include <support/check.hpp>
#include <support/errors.hpp>

using namespace cases;

TEST_CASE("unary ops match their oracles") {
  for (const OpCase& c : unary_cases()) check_values(c);
}
TEST_CASE("binary ops match their oracles") {
  for (const OpCase& c : binary_cases()) check_values(c);
}
TEST_CASE("where and masked_fill match their oracles") {
  for (const OpCase& c : choice_cases()) check_values(c);
}
TEST_CASE("elementwise ops report their FLOPs and bytes") {
  for (const OpCase& c : elementwise_cases()) check_cost(c);
}

using errors::check_error;

TEST_CASE("errors of elementwise operations, complete texts") {
  const Tensor n = tt::zeros({2}, tt::i64).named("n"), m = tt::zeros({2}, tt::boolean), x = tt::zeros({2}),
               y = tt::zeros({3}).named("y");
  check_error(
      "TT-DTYPE-02: exp: needs a floating dtype, got 'n' i64 [2] on cpu\n  hint: convert first with .to(f32)",
      [&] { tt::exp(n); });
  check_error(
      "TT-DTYPE-02: div: needs a floating dtype, got 'n' i64 [2] on cpu\n  hint: convert first with .to(f32)",
      [&] { n / n; });
  check_error(
      "TT-DTYPE-05: neg: bool is not a number type here, got bool [2] on cpu\n  hint: convert first with "
      ".to(f32) or .to(i64), or use logical_and / logical_or",
      [&] { -m; });
  check_error(
      "TT-DTYPE-03: add: operands differ in dtype: f32 [2] on cpu and 'n' i64 [2] on cpu\n  hint: convert "
      "one with .to(f32) or .to(i64)",
      [&] { x + n; });
  check_error(
      "TT-SHAPE-02: mul: shapes do not broadcast: f32 [2] on cpu and 'y' f32 [3] on cpu\n  rule: aligned at "
      "the right, each pair of sizes is equal or one of them is 1\n  hint: insert a dimension with "
      "unsqueeze, or transpose one operand",
      [&] { x* y; });
  check_error(
      "TT-DTYPE-06: where: the condition must be bool, got f32 [2] on cpu\n  hint: compare first, for "
      "example x > 0",
      [&] { tt::where(x, x, x); });
  check_error(
      "TT-SHAPE-02: where: shapes do not broadcast: bool [2] on cpu and 'y' f32 [3] on cpu and 'y' f32 [3] "
      "on cpu",
      [&] { tt::where(m, y, y); });
}

// Element i has the bit pattern i.
static Tensor all_bit_patterns(DType t) {
  Tensor x = tt::empty({65536}, t, tt::cpu);
  auto* bits = static_cast<uint16_t*>(x.raw());
  for (int i = 0; i < 65536; ++i) bits[i] = static_cast<uint16_t>(i);
  return x.to(tt::default_device());
}

TEST_CASE("unary operations on every bf16 and f16 value round once") {
  for (const DType t : {tt::bf16, tt::f16}) {
    const Tensor x = all_bit_patterns(t);
    const Array values = to_array(x);
    for (const OpCase& c : unary_cases()) {
      if (c.name == "sin" || c.name == "cos" || c.name == "sign")
        continue;  // tested below: range reduction and NaN
      Array want = c.oracle({values});
      if (c.name == "silu") {  // e^-x overflows f32 below -88.7, where the result is below 1e-36
        for (double w : want.values) want.magnitude.push_back(std::abs(w) + 1e-29);
      }
      for (size_t i = 0; i < want.values.size(); ++i) {
        const double v = values.values[i];
        if (c.name != "silu" && !want.magnitude.empty() && std::isinf(v))
          want.values[i] = c.forward({tt::full({1}, v, tt::f64)}).item<double>();
        if (std::isnan(v) && c.result == ResultType::same) want.values[i] = NAN;
      }
      // A result outside the dtype's range becomes infinite by the dtype's rounding.
      if (c.result == ResultType::same) want.values = tt::from_data(want.values).to(t).to_vector<double>();
      INFO(c.name, " ", tt::name_of(t));
      check_close(c.forward({x}), want, 4, c.name, 2);
    }
  }
}

TEST_CASE("sin and cos of huge arguments, sign of NaN") {
  const Tensor x = tt::from_data({1e10f, -3e30f, 1e6f, 2e6f, INFINITY, NAN});
  const auto s = tt::sin(x).to_vector<double>(), c = tt::cos(x).to_vector<double>();
  const auto v = x.to_vector<double>();
  for (size_t i = 0; i < 4; ++i) {
    CHECK(std::abs(s[i] - std::sin(v[i])) <= 0x1p-23);
    CHECK(std::abs(c[i] - std::cos(v[i])) <= 0x1p-23);
  }
  for (size_t i = 4; i < 6; ++i) CHECK((std::isnan(s[i]) && std::isnan(c[i])));
  CHECK(std::isnan(tt::sign(tt::from_data({NAN})).item()));  // as in NumPy; PyTorch gives 0
}

TEST_CASE("clamp: NaN stays NaN, infinite bounds have no effect, also for integers") {
  CHECK(std::isnan(tt::clamp(tt::from_data({NAN}), -1, 1).item()));
  const double inf = INFINITY;
  for (const DType t : {tt::f32, tt::f16, tt::i8, tt::u8, tt::i32, tt::i64}) {
    const Tensor x = tt::arange(0, 100, 33, t);
    CHECK(tt::clamp(x, -inf, 50).to_vector<int>() == std::vector<int>{0, 33, 50, 50});
    CHECK(tt::clamp(x, 50, inf).to_vector<int>() == std::vector<int>{50, 50, 66, 99});
  }
}

TEST_CASE("casts: every 16-bit value to f32 and back, rounding, saturation, wrap-around, bool") {
  for (const DType t : {tt::bf16, tt::f16}) {
    const Tensor x = all_bit_patterns(t);
    for (const DType wide : {tt::f32, tt::f64}) {
      const Tensor back = x.to(wide).to(t);
      const Tensor host = back.to(tt::cpu);
      const auto* out = static_cast<const uint16_t*>(host.raw());
      int wrong = 0;
      for (int i = 0; i < 65536; ++i) {
        const bool nan = (i & 0x7fff) > (t == tt::bf16 ? 0x7f80 : 0x7c00);
        const int quiet = t == tt::bf16 ? 0x40 : 0x200;
        if (nan && back.device().is_cuda()) {  // the GPU's conversion gives one canonical NaN
          wrong += (out[i] & 0x7fff) <= (t == tt::bf16 ? 0x7f80 : 0x7c00);
        } else {
          wrong += out[i] != (nan ? i | quiet : i);
        }
      }
      CHECK(wrong == 0);
    }
  }
  CHECK(tt::from_data({1.9f, -1.9f, 300.0f, NAN}).to(tt::i8).to_vector<int>() ==
        std::vector<int>{1, -1, 127, 0});
  CHECK(tt::from_data({300, -1, 128, 5}).to(tt::i8).to_vector<int>() == std::vector<int>{44, -1, -128, 5});
  CHECK(tt::from_data({0.0f, -0.0f, 0.1f, NAN}).to(tt::boolean).to_vector<int>() ==
        std::vector<int>{0, 0, 1, 1});
  CHECK(tt::from_data({1 + 0x1p-8 + 0x1p-40}).to(tt::bf16).item<double>() == 1 + 0x1p-7);
  CHECK(tt::from_data(std::vector<int64_t>{(int64_t{1} << 53) + 1}).to(tt::f64).item<double>() == 0x1p53);
}

TEST_CASE("integer arithmetic wraps around in its dtype") {
  CHECK((tt::full({1}, 127, tt::i8) + 1).item<int>() == -128);
  CHECK((tt::full({1}, 0, tt::u8) - 1).item<int>() == 255);
  CHECK((tt::full({1}, 2147483647, tt::i32) * 2).item<int>() == -2);
  CHECK(tt::abs(tt::full({1}, -128, tt::i8)).item<int>() == -128);
}
