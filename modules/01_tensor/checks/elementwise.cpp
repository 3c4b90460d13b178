#include <01_tensor/checks/reference.hpp>
#include <tinytorch/backend/cpu/elementwise.hpp>

using namespace course;
using backend::BinaryFn;
using backend::UnaryFn;
namespace cpu = backend::cpu;

namespace {

struct Map {
  UnaryFn fn;
  const char* name;
  double (*value)(double);
};
const Map kNeg{UnaryFn::neg, "neg", [](double v) { return -v; }};
const Map kSquare{UnaryFn::square, "square", [](double v) { return v * v; }};
const Map kExp{UnaryFn::exp, "exp", [](double v) { return std::exp(v); }};

void check_map(const Map& map, Values x, Values y, Layout layout) {
  Numbers want = broadcast(x.numbers(), x.shape(), y.shape());
  for (double& v : want) v = map.value(v);
  cpu::unary(map.fn, y.view(), x.view());
  expect_close(std::string(map.name) + " of " + x.shape().str() + ", " + name_of_layout(layout) + ", into " +
                   y.shape().str(),
               y, want);
}
void check_map(const Map& map, DType dtype, const Shape& from, const Shape& to,
               Layout layout = Layout::contiguous, Layout out = Layout::contiguous) {
  check_map(map, Values::random(dtype, from, layout, -3, 3), Values(dtype, to, out),
            out == Layout::contiguous ? layout : out);
}

struct Zip {
  BinaryFn fn;
  const char* name;
  double (*value)(double, double);
};
const Zip kAdd{BinaryFn::add, "add", [](double a, double b) { return a + b; }};
const Zip kSub{BinaryFn::sub, "sub", [](double a, double b) { return a - b; }};
const Zip kLess{BinaryFn::lt, "lt", [](double a, double b) { return a < b ? 1.0 : 0.0; }};

void check_zip(const Zip& zip, DType dtype, const Shape& of_a, const Shape& of_b, const Shape& to,
               Layout layout_a = Layout::contiguous, Layout layout_b = Layout::contiguous,
               Layout layout_out = Layout::contiguous) {
  Values a = Values::random(dtype, of_a, layout_a, -9, 9);
  Values b = Values::random(dtype, of_b, layout_b, -9, 9);
  Values out(zip.fn == BinaryFn::lt ? boolean : dtype, to, layout_out);
  const Numbers left = broadcast(a.numbers(), of_a, to), right = broadcast(b.numbers(), of_b, to);
  Numbers want(left.size());
  for (size_t i = 0; i < want.size(); ++i) want[i] = zip.value(left[i], right[i]);
  cpu::binary(zip.fn, out.view(), a.view(), b.view());
  expect_close(std::string(zip.name) + " of " + of_a.str() + " (" + name_of_layout(layout_a) + ") and " +
                   of_b.str() + " (" + name_of_layout(layout_b) + "), " + name_of(dtype) + ", into " +
                   to.str() + " (" + name_of_layout(layout_out) + ")",
               out, want);
}

}  // namespace

TEST_CASE("1.4 a map reaches every element") {
  for (const Shape& shape : {Shape{1}, Shape{3}, Shape{257}, Shape{5, 7}, Shape{2, 1, 3, 4}, Shape{}}) {
    check_map(kNeg, f32, shape, shape);
  }
}

TEST_CASE("1.4 a map reads and writes any layout") {
  for (const Layout layout : kLayouts) check_map(kNeg, f32, {5, 7}, {5, 7}, layout);
  for (const Layout layout : kLayouts) check_map(kNeg, f32, {3, 2, 4}, {3, 2, 4}, Layout::contiguous, layout);
}

TEST_CASE("1.4 a map broadcasts its operand") {
  check_map(kNeg, f32, {4}, {3, 4});
  check_map(kNeg, f32, {3, 1}, {3, 4});
  check_map(kNeg, f32, {}, {2, 5});
  check_map(kNeg, f32, {2, 1, 3}, {2, 4, 3});
}

TEST_CASE("1.4 each dtype is computed in its own arithmetic") {
  for (const DType dtype : {f32, f64, bf16, f16}) check_map(kExp, dtype, {5, 7}, {5, 7});
  for (const DType dtype : {i8, i32, i64}) check_map(kNeg, dtype, {5, 7}, {5, 7});
  check_map(kSquare, Values::random(u8, {9}, Layout::gaps, 0, 16), Values(u8, {9}), Layout::gaps);
  check_map(kSquare, Values::random(i64, {9}, Layout::contiguous, -1e6, 1e6), Values(i64, {9}),
            Layout::contiguous);
}

TEST_CASE("1.4 a zip takes its operands in order") {
  for (const Shape& shape : {Shape{1}, Shape{31}, Shape{5, 7}, Shape{2, 3, 4}}) {
    check_zip(kSub, f32, shape, shape, shape);
  }
}

TEST_CASE("1.4 a zip broadcasts each operand separately") {
  check_zip(kSub, f32, {3, 4}, {4}, {3, 4});
  check_zip(kSub, f32, {4}, {3, 4}, {3, 4});
  check_zip(kSub, f32, {3, 1}, {1, 4}, {3, 4});
  check_zip(kSub, f32, {5, 1, 4}, {3, 1}, {5, 3, 4});
  check_zip(kSub, f32, {}, {2, 3}, {2, 3});
}

TEST_CASE("1.4 a zip reads and writes any layout") {
  for (const Layout layout : kLayouts) {
    check_zip(kSub, f32, {5, 7}, {5, 7}, {5, 7}, layout);
    check_zip(kSub, f32, {5, 7}, {5, 7}, {5, 7}, Layout::contiguous, layout);
    check_zip(kSub, f32, {5, 7}, {5, 7}, {5, 7}, Layout::transposed, Layout::gaps, layout);
    check_zip(kSub, f32, {5, 1, 3}, {7, 1}, {5, 7, 3}, layout, Layout::reversed);
  }
}

TEST_CASE("1.4 a zip works in every dtype, and comparisons give bool") {
  for (const DType dtype : {f32, f64, bf16, f16, i8, i32, i64}) {
    check_zip(kAdd, dtype, {3, 5}, {5}, {3, 5});
    check_zip(kLess, dtype, {3, 5}, {5}, {3, 5});
  }
}

TEST_CASE("1.4 where copies the chosen elements only") {
  for (const DType dtype : {f32, f64, bf16, i8, i64, boolean}) {
    const Shape to{4, 3, 5};
    Values condition = Values::random(boolean, {4, 1, 5}, Layout::gaps, 0, 2);
    Values a = Values::random(dtype, {3, 5}, Layout::transposed, 0, 9);
    Values b = Values::random(dtype, {3, 1}, Layout::contiguous, 0, 9);
    Values out(dtype, to, Layout::reversed);
    const Numbers holds = broadcast(condition.numbers(), condition.shape(), to);
    const Numbers yes = broadcast(a.numbers(), a.shape(), to), no = broadcast(b.numbers(), b.shape(), to);
    Numbers want(holds.size());
    for (size_t i = 0; i < want.size(); ++i) want[i] = holds[i] != 0 ? yes[i] : no[i];
    cpu::where(out.view(), condition.view(), a.view(), b.view());
    expect_close(std::string("where [4, 1, 5] (with gaps) then [3, 5] (transposed) else [3, 1], ") +
                     name_of(dtype) + ", into [4, 3, 5] (reversed)",
                 out, want);
  }
  Values condition = Values::of(boolean, {3}, {1, 0, 1}), a = Values::of(f32, {3}, {1, NAN, 3});
  Values b = Values::of(f32, {3}, {HUGE_VAL, 2, NAN}), out(f32, {3});
  cpu::where(out.view(), condition.view(), a.view(), b.view());
  expect_close("where [1, 0, 1] then [1, nan, 3] else [inf, 2, nan]", out, {1, 2, 3});
}

TEST_CASE("1.4 the result may be written over an operand") {
  Values a = Values::random(f32, {5, 7}, Layout::transposed), b = Values::random(f32, {7});
  Numbers want = broadcast(b.numbers(), b.shape(), a.shape());
  const Numbers before = a.numbers();
  for (size_t i = 0; i < want.size(); ++i) want[i] += before[i];
  cpu::binary(BinaryFn::add, a.view(), a.view(), b.view());
  expect_close("a = a + b, a [5, 7], b [7]", a, want);
}

TEST_CASE("1.4 copies convert between dtypes and layouts") {
  Values x = Values::random(f64, {3, 4, 5}, Layout::transposed, -100, 100), y(i32, {3, 4, 5}, Layout::gaps);
  Numbers want = x.numbers();
  for (double& v : want) v = std::trunc(v);
  cpu::copy(y.view(), x.view());
  expect_close("copy of f64 [3, 4, 5] to i32", y, want);
  Values seven(bf16, {3, 5}, Layout::gaps), none(f32, {0, 3});
  cpu::fill(seven.view(), 7.0);
  expect_close("fill of [3, 5] with 7", seven, Numbers(15, 7.0));
  cpu::unary(UnaryFn::neg, none.view(), none.view());  // an empty tensor
}

TEST_CASE("1.4 rows may be more than 2^31 elements apart") {
  const std::string what = " of i8 [2, 3] with strides [2^31 + 4096, 1]";
  const Numbers left{1, 2, 3, 4, 5, 6}, right{10, 30, 50, 20, 40, 60};
  const FarRows a(left), b(right), out(Numbers(6, 0)), chosen(Numbers(6, 0));
  cpu::unary(UnaryFn::neg, out.view(), a.view());
  expect_equal("neg" + what, out.numbers(), Numbers{-1, -2, -3, -4, -5, -6});
  cpu::binary(BinaryFn::sub, out.view(), b.view(), a.view());
  expect_equal("sub" + what, out.numbers(), Numbers{9, 28, 47, 16, 35, 54});
  const FarRows bits({1, 0, 1, 0, 1, 0});
  View condition = bits.view();
  condition.dtype = boolean;
  cpu::where(chosen.view(), condition, a.view(), b.view());
  expect_equal("where" + what, chosen.numbers(), Numbers{1, 30, 3, 20, 5, 60});
}
