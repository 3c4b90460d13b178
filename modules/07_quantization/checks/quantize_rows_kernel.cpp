#include <support/counted.hpp>

using namespace course;

namespace {

Values placed(Values v) { return std::move(v).on_device(); }

struct Case {
  int64_t rows = 1, K = 1;
  DType dtype = f32;
  Layout layout = Layout::contiguous;
  double size = 1;
  std::string text() const {
    return std::to_string(rows) + " rows of " + std::to_string(K) + " " + name_of(dtype) + ", " +
           name_of_layout(layout);
  }
};

// The value of a code: i8 itself, or fp8 e4m3 in the bits of u8.
double value_of(DType codes, double code) {
  if (codes == i8) return code;
  const int bits = static_cast<int>(code), exponent = bits % 128 / 8;
  const double value = std::ldexp(bits % 8 + (exponent > 0 ? 8 : 0), std::max(exponent, 1) - 10);
  return bits & 128 ? -value : value;
}
// The distance between two codes at this number.
double step_at(DType codes, double number) {
  if (codes == i8) return 1;
  return std::ldexp(1, std::max(std::ilogb(std::max(std::abs(number), 1e-9)), -6) - 3);
}

struct Codes {
  Numbers codes, scales;
};
Codes quantize(Values& x, DType codes = i8) {
  const int64_t rows = x.shape()[0], K = x.shape()[1];
  Values code = placed(Values(codes, {rows, K})), scale = placed(Values(f32, {rows}));
  backend::cuda::quantize_rows(code.view(), scale.view(), x.view());
  return {code.numbers(), scale.numbers()};
}
// Each row: its scale, and the nearest code for each number.
void check_rows(const std::string& what, const Codes& got, const Numbers& x, size_t K, DType codes = i8) {
  const double top = codes == i8 ? 127 : 448;
  for (size_t r = 0; r * K < x.size(); ++r) {
    double largest = 0;
    for (size_t k = 0; k < K; ++k) largest = std::max(largest, std::abs(x[r * K + k]));
    const std::string row = "row " + std::to_string(r) + " of " + what;
    expect("scale of " + row + ": the largest magnitude, " + shown(largest) + ", / " + shown(top) + "; got " +
               shown(got.scales[r]),
           std::abs(got.scales[r] - largest / top) <= 2e-7 * largest / top + 2e-45);
    for (size_t k = 0; k < K; ++k) {
      const double exact = largest > 0 ? x[r * K + k] / largest * top : 0,
                   code = value_of(codes, got.codes[r * K + k]);
      if (std::abs(code - exact) <= 0.5001 * step_at(codes, exact)) continue;
      expect("code of column " + std::to_string(k) + " of " + row + ": the nearest to " + shown(exact) +
                 "; got " + shown(code),
             false);
    }
  }
}
void check(const Case& c, DType codes = i8) {
  Values x = placed(Values::random(c.dtype, {c.rows, c.K}, c.layout, -c.size, c.size));
  check_rows(c.text(), quantize(x, codes), x.numbers(), static_cast<size_t>(c.K), codes);
}

}  // namespace

TEST_CASE("7.12 the largest magnitude of a row becomes 127, the others the nearest integer") {
  check({.rows = 3, .K = 8});
  Values x = placed(Values::of(f32, {1, 9}, {127, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 126.5, -127}));
  const Codes got = quantize(x);
  expect_close("codes of 127, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 126.5, -127: ties go to the even integer",
               got.codes, {127, 0, 2, 2, 0, -2, -2, 126, -127}, {1, 9}, {.dtype = i8});
}

TEST_CASE("7.12 rows of any length, each with a scale of its own") {
  for (const int64_t K : {1, 2, 31, 33, 127, 128, 129, 300, 1000}) check({.rows = 3, .K = K});
  Numbers x = Values::random(f32, {4, 200}).numbers();
  for (size_t i = 200; i < 400; ++i) x[i] *= 1000;
  for (size_t i = 400; i < 600; ++i) x[i] *= 1e-3;
  Values rows = placed(Values::of(f32, {4, 200}, x));
  check_rows("rows of very different sizes", quantize(rows), rows.numbers(), 200);
}

TEST_CASE("7.12 the largest magnitude is found wherever it is, and whatever its sign") {
  for (const size_t at :
       {size_t{0}, size_t{31}, size_t{32}, size_t{100}, size_t{127}, size_t{128}, size_t{299}}) {
    Numbers x = Values::random(f32, {1, 300}).numbers();
    x[at] = at % 2 == 0 ? -50 : 50;
    Values row = placed(Values::of(f32, {1, 300}, x));
    check_rows("the largest of 300 numbers is at " + std::to_string(at), quantize(row), row.numbers(), 300);
  }
}

TEST_CASE("7.12 rows longer than what a block keeps") { check({.rows = 2, .K = 8192 + 300}); }

TEST_CASE("7.12 each dtype, any strides, and codes of fp8") {
  for (const DType dtype : {f32, bf16, f16}) {
    for (const Layout layout : kLayouts) check({.rows = 3, .K = 50, .dtype = dtype, .layout = layout});
    check({.rows = 2, .K = 130, .dtype = dtype}, u8);
  }
  check({.rows = 2, .K = 50, .size = 1e-38});  // 127 / 1e-40 is no float
}

TEST_CASE("7.12 zeros have scale 0; a row with NaN or infinity has scale NaN, and its neighbours have not") {
  Numbers x = Values::random(f32, {4, 150}).numbers();
  std::fill(x.begin() + 150, x.begin() + 300, 0.0);
  for (const double bad :
       {static_cast<double>(NAN), static_cast<double>(INFINITY), -static_cast<double>(INFINITY)}) {
    for (const size_t at : {size_t{300}, size_t{340}, size_t{449}}) {
      Numbers with = x;
      with[at] = bad;
      Values rows = placed(Values::of(f32, {4, 150}, with));
      const Codes got = quantize(rows);
      expect_equal("scale of a row of zeros", got.scales[1], 0.0);
      expect("scale of a row with " + shown(bad) + " at column " + std::to_string(at - 300) + ": NaN; got " +
                 shown(got.scales[2]),
             std::isnan(got.scales[2]));
      for (size_t k = 300; k < 450; ++k) expect_equal("codes of this row", got.codes[k], 0.0);
      expect("scales of the rows beside it are finite",
             std::isfinite(got.scales[0]) && std::isfinite(got.scales[3]));
    }
  }
}

TEST_CASE("7.12 no rows, and dtypes that are refused") {
  Values none = placed(Values(f32, {0, 5})), codes = placed(Values(i8, {0, 5})),
         scale = placed(Values(f32, {0}));
  backend::cuda::quantize_rows(codes.view(), scale.view(), none.view());
  Values x = placed(Values(f64, {2, 5})), of_x = placed(Values(i8, {2, 5})), two = placed(Values(f32, {2}));
  expect_throws("TT-DTYPE-02", "x of f64",
                [&] { backend::cuda::quantize_rows(of_x.view(), two.view(), x.view()); });
}

TEST_CASE("7.12 each element is read once, each code and each scale is written once") {
  for (const DType dtype : {f32, bf16}) {
    Values x = placed(Values::random(dtype, {4, 1024})), code = placed(Values(i8, {4, 1024})),
           scale = placed(Values(f32, {4}));
    const View codes = code.view(), scales = scale.view(), in = x.view();
    const Counted n = counted([&] { backend::cuda::quantize_rows(codes, scales, in); });
    check_rows("4 rows of 1024", {code.numbers(), scale.numbers()}, x.numbers(), 1024);
    if (!kCounts) continue;
    const double size = static_cast<double>(size_of(dtype)) * 4096, written = 4096 + 16;
    expect("bytes read, for 4 rows of 1024 " + std::string(name_of(dtype)) + ": " + shown(size) +
               ", each element once; got " + shown(n.bytes_read),
           n.bytes_read <= 1.01 * size);
    expect("bytes written: " + shown(written) + ", codes and scales; got " + shown(n.bytes_written),
           n.bytes_written <= written);
    expect("sectors of 32 bytes, by neighbouring lanes: at most 1.3 of the ideal; got " +
               shown(32 * n.sectors / (size + written)),
           32 * n.sectors <= 1.3 * (size + written));
  }
}
