#include <01_tensor/checks/reference.hpp>
#include <tinytorch/backend/cuda/launch.hpp>

using namespace course;
using backend::UnaryFn;
namespace cuda = backend::cuda;

namespace {

struct Map {
  UnaryFn fn;
  const char* name;
  double (*value)(double);
  double p0 = 0, p1 = 0;
};
const Map kRelu{UnaryFn::relu, "relu", [](double v) { return v > 0 ? v : 0; }};
const Map kNeg{UnaryFn::neg, "neg", [](double v) { return -v; }};
const Map kTanh{UnaryFn::tanh, "tanh", [](double v) { return std::tanh(v); }};
const Map kClamp{UnaryFn::clamp, "clamp to [-1, 2]", [](double v) { return v < -1 ? -1 : (v > 2 ? 2 : v); },
                 -1, 2};
const Map kNot{UnaryFn::logical_not, "logical_not", [](double v) { return v == 0 ? 1.0 : 0.0; }};

void check_map(const Map& map, DType dtype, const Shape& from, const Shape& to,
               Layout layout = Layout::contiguous, Layout layout_out = Layout::contiguous) {
  Values x = Values::random(dtype, from, layout, dtype == u8 ? 0 : -4, 4).on_device();
  Values y = Values(map.fn == UnaryFn::logical_not ? boolean : dtype, to, layout_out).on_device();
  Numbers want = broadcast(x.numbers(), from, to);
  for (double& v : want) v = map.value(v);
  cuda::unary(map.fn, y.view(), x.view(), map.p0, map.p1);
  expect_close(std::string(map.name) + " of " + name_of(dtype) + " " + from.str() + ", " +
                   name_of_layout(layout) + ", into " + to.str() + ", " + name_of_layout(layout_out),
               y, want);
}

}  // namespace

TEST_CASE("1.8 every element is mapped, also in the last, partial block") {
  // 300 comes first: the surplus threads of its last block would access memory out of bounds.
  for (const int64_t n : {300, 1, 31, 256, 255, 257, 1000}) check_map(kRelu, f32, {n}, {n});
}

TEST_CASE("1.8 each function is applied with its parameters") {
  for (const Map& map : {kNeg, kTanh, kClamp, kNot}) check_map(map, f32, {300}, {300});
}

TEST_CASE("1.8 each dtype is computed in its compute type") {
  for (const DType dtype : {f64, bf16, f16}) check_map(kTanh, dtype, {7, 9}, {7, 9});
  for (const DType dtype : {i8, i32, i64}) check_map(kNeg, dtype, {7, 9}, {7, 9});
  for (const DType dtype : {u8, i64}) check_map(kClamp, dtype, {7, 9}, {7, 9});
  check_map(kNot, i32, {7, 9}, {7, 9});
}

TEST_CASE("1.8 operands of any layout") {
  for (const Layout layout : kLayouts) {
    check_map(kNeg, f32, {5, 7, 3}, {5, 7, 3}, layout);
    check_map(kNeg, f32, {5, 7, 3}, {5, 7, 3}, Layout::contiguous, layout);
  }
}

TEST_CASE("1.8 an operand that is broadcast") {
  check_map(kNeg, f32, {7}, {5, 7});
  check_map(kNeg, f32, {5, 1}, {5, 7});
  check_map(kNeg, f32, {}, {300});
}

TEST_CASE("1.8 an empty tensor is accepted, and tanh of integers is refused") {
  Values none = Values(f32, {0, 3}).on_device();
  cuda::unary(UnaryFn::neg, none.view(), none.view());
  Values x = Values::random(i32, {3}).on_device(), y = Values(i32, {3}).on_device();
  expect_throws("TT-DTYPE-02", "tanh of i32 [3]", [&] { cuda::unary(UnaryFn::tanh, y.view(), x.view()); });
}
