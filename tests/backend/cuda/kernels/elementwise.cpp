#include <functional>
#include <set>
#include <support/cases/elementwise.hpp>
#include <support/fresh.hpp>
#include <tinytorch/backend/cpu/elementwise.hpp>

using namespace test;

#if TINYTORCH_WITH_CUDA

namespace {

using cases::OpCase;
using tinytorch::backend::BinaryFn;
using tinytorch::backend::UnaryFn;
using Values = std::vector<double>;

constexpr DType kAll[] = {f32, f64, bf16, f16, i8, u8, i32, i64, boolean};
const Shape kShapes[] = {{1}, {3}, {31}, {33}, {257}, {1000}, {5, 33}, {3, 8, 31}, {16, 64}};

bool is_truth(BinaryFn fn) { return fn >= BinaryFn::eq && fn <= BinaryFn::logical_or; }

// Value of an integer after conversion to the dtype.
double stored(double v, DType t) {
  const auto whole = static_cast<int64_t>(std::isnan(v) || is_floating(t) ? 0 : v);
  if (t == i8) return static_cast<double>(static_cast<int8_t>(whole));
  if (t == u8) return static_cast<double>(static_cast<uint8_t>(whole));
  if (t == boolean) return v != 0;
  return v;
}

// Few distinct values, so that some are equal, and NaN among floats; or values of a whole range.
DeviceArray keys(Fresh& fresh, DType t, const Shape& shape, Layout layout) {
  Values v = fresh.whole(shape.numel(), t == u8 || t == boolean ? 0 : -3, t == boolean ? 2 : 4);
  for (size_t i = 2; is_floating(t) && i < v.size(); i += 11) v[i] = kNan;
  return DeviceArray::from(t, shape, v, layout);
}
bool accepts_integers(const OpCase& c) { return std::ranges::count(c.dtypes, i32) > 0; }

void check_unary(Fresh& fresh, const OpCase& c, DType t, const Shape& shape, Layout layout, Layout of_out) {
  INFO(c.text, " ", text_of(t), " of ", shape.str(), " layouts ", static_cast<int>(layout),
       static_cast<int>(of_out));
  const bool positive = c.operands[0].low > 0;
  DeviceArray x = is_floating(t) ? fresh.array(t, shape, positive ? 0.1 : -4, 4, layout)
                                 : keys(fresh, t, shape, layout),
              out(t, shape, of_out);
  kernels::unary(*c.unary_fn, out.view(), x.view(), c.p0, c.p1);
  Values want = x.values();
  for (double& v : want) v = stored(c.unary(v), t);
  check_close(out.values(), want, t, is_floating(t) ? 12 : 0, 1);
}

// value: of two operands, in double.
void check_binary(Fresh& fresh, BinaryFn fn, const std::function<double(double, double)>& value, DType t,
                  const Shape& shape, Layout of_a, Layout of_b, double p0 = 0) {
  INFO("function ", static_cast<int>(fn), " ", text_of(t), " of ", shape.str(), " layouts ",
       static_cast<int>(of_a), static_cast<int>(of_b));
  const bool discrete = !is_floating(t) || is_truth(fn) || fn == BinaryFn::maximum || fn == BinaryFn::minimum;
  const bool positive = fn == BinaryFn::div || fn == BinaryFn::pow;
  DeviceArray a = discrete ? keys(fresh, t, shape, of_a)
                           : fresh.array(t, shape, positive ? 0.1 : -3, 3, of_a),
              b = discrete ? keys(fresh, t, shape, of_b)
                           : fresh.array(t, shape, positive ? 0.5 : -3, 3, of_b);
  const DType result = is_truth(fn) ? boolean : t;
  DeviceArray out(result, shape);
  kernels::binary(fn, out.view(), a.view(), b.view(), p0);
  const Values x = a.values(), y = b.values();
  Values want;
  for (size_t i = 0; i < x.size(); ++i) want.push_back(stored(value(x[i], y[i]), result));
  check_close(out.values(), want, result, discrete ? 0 : 24, 3);
}

}  // namespace

TEST_CASE("every unary function equals the definition for every dtype and layout" * needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  std::set<int> tested{static_cast<int>(UnaryFn::identity)};  // a copy, which has a test of its own
  for (const OpCase& c : cases::unary_cases()) {
    tested.insert(static_cast<int>(*c.unary_fn));
    for (const DType t : kAll) {
      if (!is_floating(t) && !accepts_integers(c)) continue;
      for (const Shape& shape : kShapes) {
        check_unary(fresh, c, t, shape, Layout::dense, Layout::dense);
        check_unary(fresh, c, t, shape, kLayouts[fresh.next() % 3], kLayouts[fresh.next() % 3]);
      }
    }
  }
  CHECK(tested.size() == tinytorch::backend::kUnaryCount);
}

TEST_CASE("every binary function equals the definition for every dtype and layout" * needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  std::set<int> tested;
  const auto check = [&](BinaryFn fn, const std::function<double(double, double)>& value, bool integers,
                         double p0 = 0) {
    tested.insert(static_cast<int>(fn));
    for (const DType t : kAll) {
      if (!is_floating(t) && !integers) continue;
      for (const Shape& shape : kShapes) {
        check_binary(fresh, fn, value, t, shape, Layout::dense, Layout::dense, p0);
        check_binary(fresh, fn, value, t, shape, kLayouts[fresh.next() % 3], kLayouts[fresh.next() % 3], p0);
      }
    }
  };
  for (const OpCase& c : cases::binary_cases()) check(*c.binary_fn, c.binary, accepts_integers(c));
  for (const OpCase& c : cases::unary_cases()) {
    if (c.grad_fn) {
      check(
          *c.grad_fn, [slope = c.slope](double g, double v) { return g * slope(v); }, false, c.p0);
    }
  }
  CHECK(tested.size() == tinytorch::backend::kBinaryCount);
}

TEST_CASE("both operands of a binary function broadcast missing dimensions and sizes of 1" *
          needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  for (const DType t : {f32, bf16, i32}) {
    for (const Shape& small :
         {Shape{64}, Shape{1, 64}, Shape{5, 1, 1}, Shape{3, 1}, Shape{1}, Shape{}, Shape{5, 3, 1}}) {
      INFO(text_of(t), " with ", small.str());
      const Shape shape{5, 3, 64};
      DeviceArray a = fresh.integers(t, shape, -50, 50), b = fresh.integers(t, small, -50, 50),
                  left(t, shape), right(t, shape);
      kernels::binary(BinaryFn::sub, left.view(), a.view(), b.view());
      kernels::binary(BinaryFn::sub, right.view(), b.view(), a.view());
      const Values x = a.values(), y = b.values();
      Values want, negative;
      for (size_t i = 0; i < x.size(); ++i) {
        const int64_t at[] = {static_cast<int64_t>(i) / 192, static_cast<int64_t>(i) / 64 % 3,
                              static_cast<int64_t>(i) % 64};
        int64_t from = 0;
        for (int d = 0; d < small.size(); ++d) {
          from = from * small[d] + (small[d] == 1 ? 0 : at[3 - small.size() + d]);
        }
        want.push_back(x[i] - y[static_cast<size_t>(from)]);
        negative.push_back(-want.back());
      }
      CHECK(left.values() == want);
      CHECK(right.values() == negative);
    }
  }
}

TEST_CASE("where equals the definition with broadcast operands and with NaN" * needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  for (const DType t : kAll) {
    for (const Layout layout : kLayouts) {
      INFO(text_of(t), " layout ", static_cast<int>(layout));
      DeviceArray condition = fresh.integers(boolean, {7, 33}, 0, 2, layout),
                  a = keys(fresh, t, {7, 33}, layout), b = keys(fresh, t, {33}, Layout::dense),
                  out(t, {7, 33}, layout);
      kernels::where(out.view(), condition.view(), a.view(), b.view());
      const Values c = condition.values(), x = a.values(), y = b.values();
      Values want;
      for (size_t i = 0; i < x.size(); ++i) want.push_back(c[i] != 0 ? x[i] : y[i % 33]);
      check_close(out.values(), want, t, 0);
    }
  }
}

TEST_CASE("copies between all dtypes and layouts equal the CPU's, also for extreme values" *
          needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  for (const DType from : kAll) {
    for (const DType to : kAll) {
      INFO(text_of(from), " to ", text_of(to));
      for (const Shape& shape : {Shape{1}, Shape{257}, Shape{33, 70}, Shape{3, 5, 31}}) {
        DeviceArray x = fresh.integers(from, shape, 0, from == boolean ? 2 : 100, kLayouts[fresh.next() % 3]),
                    out(to, shape, kLayouts[fresh.next() % 3]);
        kernels::copy(out.view(), x.view());
        Values want = x.values();
        for (double& v : want) v = stored(v, to);
        CHECK(out.values() == want);
      }
      const Values extremes{0.75, -0.75, 2.5,   -2.5,      300,        -300, 70000, -70000, 3e9,
                            -3e9, 1e20,  -1e20, kInfinity, -kInfinity, kNan, 1e-30, 0};
      const Values given = is_floating(from) ? extremes : Values{0, 1, 100, 127, 255, -128, -1, 300, -70000};
      const Shape shape{static_cast<int64_t>(given.size())};
      Array on_cpu = Array::from(from, shape, given), expected(to, shape);
      DeviceArray x = DeviceArray::from(from, shape, given), out(to, shape);
      kernels::copy(out.view(), x.view());
      tinytorch::backend::cpu::copy(expected.view(), on_cpu.view());
      check_close(out.values(), expected.values(), to, 0);
    }
  }
}

TEST_CASE("fill writes exact values of every dtype, and only the elements of its view" * needs_devices()) {
  for (const DType t : kAll) {
    for (const Layout layout : kLayouts) {
      for (const Shape& shape : {Shape{1}, Shape{33}, Shape{5, 31}}) {
        DeviceArray out(t, shape, layout), whole(t, shape, layout);
        kernels::fill(out.view(), 1.0);
        kernels::fill(whole.view(), int64_t{1});
        CHECK(out.values() == Values(static_cast<size_t>(shape.numel()), 1));
        CHECK(whole.values() == out.values());
      }
    }
  }
  DeviceArray large(i64, {3}), from = DeviceArray::from(i64, {3}, {0x1p60, 0x1p60, 0x1p60}),
                               difference(i64, {3});
  kernels::fill(large.view(), (int64_t{1} << 60) + 1);
  kernels::binary(BinaryFn::sub, difference.view(), large.view(), from.view());
  CHECK(difference.values() == Values(3, 1));
  DeviceArray x = DeviceArray::from(f32, {9}, Values(9, 5));
  View middle = x.view();
  middle.data = middle.as<float>() + 2;
  middle.shape = {4};
  kernels::fill(middle, kNan);
  check_close(x.values(), {5, 5, kNan, kNan, kNan, kNan, 5, 5, 5}, f32, 0);
}

TEST_CASE("elementwise kernels work in place, with NaN and infinity, and with empty tensors" *
          needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  for (const int64_t n : {33, 256}) {
    DeviceArray a = fresh.array(f32, {n}), b = fresh.array(f32, {n});
    Values want = a.values();
    const Values other = b.values();
    for (size_t i = 0; i < want.size(); ++i) want[i] = (want[i] - other[i]) * (want[i] - other[i]);
    kernels::binary(BinaryFn::sub, a.view(), a.view(), b.view());
    kernels::unary(UnaryFn::square, a.view(), a.view());
    check_close(a.values(), want, f32, 8);
  }
  const Values special{kNan, kInfinity, -kInfinity, 0, 1000, -1000};
  for (const OpCase& c : cases::unary_cases()) {
    // Not compared: periodic functions at 1000, whose values depend on the argument reduction.
    const bool periodic = c.unary_fn == UnaryFn::sin || c.unary_fn == UnaryFn::cos;
    for (const DType t : {f32, f64}) {
      INFO(c.text, " ", text_of(t));
      DeviceArray x = DeviceArray::from(t, {6}, special), out(t, {6});
      kernels::unary(*c.unary_fn, out.view(), x.view(), c.p0, c.p1);
      Values want = special, got = out.values();
      for (double& v : want) v = c.unary(v);
      if (t == f32 && c.unary_fn == UnaryFn::exp) want[4] = kInfinity;
      if (std::isnan(want[2])) want[2] = got[2];  // 0 times infinity, as in x sigmoid(x)
      if (periodic) want[4] = got[4], want[5] = got[5];
      check_close(got, want, t, 12);
    }
  }
  DeviceArray none(f32, {0, 3});
  kernels::unary(UnaryFn::exp, none.view(), none.view());
  kernels::binary(BinaryFn::add, none.view(), none.view(), none.view());
  kernels::copy(none.view(), none.view());
  kernels::fill(none.view(), 1.0);
}

#else
TEST_CASE("without CUDA there are no kernels to test" * doctest::skip()) {}
#endif
