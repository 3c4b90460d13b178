#include <01_tensor/checks/reference.hpp>
#include <tinytorch/backend/cuda/launch.hpp>

using namespace course;
using backend::BinaryFn;
namespace cuda = backend::cuda;

namespace {

struct Zip {
  BinaryFn fn;
  const char* name;
  double (*value)(double, double);
};
const Zip kSub{BinaryFn::sub, "sub", [](double a, double b) { return a - b; }};
const Zip kDiv{BinaryFn::div, "div", [](double a, double b) { return a / b; }};
const Zip kMaximum{BinaryFn::maximum, "maximum", [](double a, double b) { return a > b ? a : b; }};
const Zip kLess{BinaryFn::lt, "lt", [](double a, double b) { return a < b ? 1.0 : 0.0; }};

void check_zip(const Zip& zip, DType dtype, const Shape& of_a, const Shape& of_b, const Shape& to,
               Layout layout_a = Layout::contiguous, Layout layout_b = Layout::contiguous,
               Layout layout_out = Layout::contiguous) {
  Values a = Values::random(dtype, of_a, layout_a, 1, 9).on_device();
  Values b = Values::random(dtype, of_b, layout_b, 1, 9).on_device();
  Values out = Values(zip.fn == BinaryFn::lt ? boolean : dtype, to, layout_out).on_device();
  const Numbers left = broadcast(a.numbers(), of_a, to), right = broadcast(b.numbers(), of_b, to);
  Numbers want(left.size());
  for (size_t i = 0; i < want.size(); ++i) want[i] = zip.value(left[i], right[i]);
  cuda::binary(zip.fn, out.view(), a.view(), b.view());
  expect_close(std::string(zip.name) + " of " + name_of(dtype) + " " + of_a.str() + " (" +
                   name_of_layout(layout_a) + ") and " + of_b.str() + " (" + name_of_layout(layout_b) +
                   "), into " + to.str() + " (" + name_of_layout(layout_out) + ")",
               out, want);
}

}  // namespace

TEST_CASE("1.9 two operands, element by element, in order") {
  // 300 comes first: the surplus threads of its last block would access memory out of bounds.
  for (const int64_t n : {300, 1, 31, 256, 257, 700}) check_zip(kSub, f32, {n}, {n}, {n});
  for (const Zip& zip : {kDiv, kMaximum, kLess}) check_zip(zip, f32, {300}, {300}, {300});
}

TEST_CASE("1.9 each operand is broadcast separately") {
  check_zip(kSub, f32, {5, 7}, {7}, {5, 7});
  check_zip(kSub, f32, {7}, {5, 7}, {5, 7});
  check_zip(kSub, f32, {5, 1}, {1, 7}, {5, 7});
  check_zip(kSub, f32, {3, 1, 4}, {5, 1}, {3, 5, 4});
  check_zip(kSub, f32, {}, {300}, {300});
}

TEST_CASE("1.9 operands of any layout") {
  for (const Layout layout : kLayouts) {
    check_zip(kSub, f32, {5, 7}, {5, 7}, {5, 7}, layout, Layout::transposed);
    check_zip(kSub, f32, {5, 7}, {5, 7}, {5, 7}, Layout::gaps, Layout::contiguous, layout);
    check_zip(kSub, f32, {3, 1, 4}, {5, 1}, {3, 5, 4}, Layout::reversed, layout);
  }
}

TEST_CASE("1.9 every dtype, and comparisons give bool") {
  for (const DType dtype : {f64, bf16, f16, i8, u8, i32, i64}) {
    check_zip(kMaximum, dtype, {3, 5}, {5}, {3, 5});
    check_zip(kLess, dtype, {3, 5}, {5}, {3, 5});
  }
  check_zip(kDiv, f64, {40}, {40}, {40});
}

TEST_CASE("1.9 the result may be written over an operand") {
  Values a = Values::random(f32, {30, 11}).on_device(), b = Values::random(f32, {11}).on_device();
  Numbers want = broadcast(b.numbers(), b.shape(), a.shape());
  const Numbers before = a.numbers();
  for (size_t i = 0; i < want.size(); ++i) want[i] += before[i];
  cuda::binary(BinaryFn::add, a.view(), a.view(), b.view());
  expect_close("a = a + b, a [30, 11], b [11]", a, want);
}

TEST_CASE("1.9 an empty tensor is accepted, and div of integers is refused") {
  Values none = Values(f32, {0, 3}).on_device(), row = Values(f32, {3}).on_device();
  cuda::binary(BinaryFn::add, none.view(), none.view(), row.view());
  Values x = Values::random(i32, {3}).on_device(), y = Values(i32, {3}).on_device();
  expect_throws("TT-DTYPE-02", "div of i32 [3]",
                [&] { cuda::binary(BinaryFn::div, y.view(), x.view(), x.view()); });
}
