#include <support/counted.hpp>
#include <tinytorch/backend/functors.hpp>

using namespace course;
using backend::BinaryFn;
using backend::cuda::activation_grad;

namespace {

constexpr double kSlope = 0.125;  // slope of leaky_relu

// An activation. If its derivative is computed from its output v, `input` gives the x that belongs to v.
struct Function {
  const char* name;
  BinaryFn fn;
  double (*f)(double);
  double (*input)(double v);
  double low, high;  // range of v
};
double same(double v) { return v; }
double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }
const Function kFunctions[] = {
    {"relu", BinaryFn::relu_grad, [](double x) { return x > 0 ? x : 0; }, same, -2, 2},
    {"leaky_relu", BinaryFn::leaky_relu_grad, [](double x) { return x > 0 ? x : kSlope * x; }, same, -2, 2},
    {"tanh", BinaryFn::tanh_grad, [](double x) { return std::tanh(x); },
     [](double y) { return std::atanh(y); }, -0.9, 0.9},
    {"sigmoid", BinaryFn::sigmoid_grad, [](double x) { return 1 / (1 + std::exp(-x)); },
     [](double y) { return std::log(y / (1 - y)); }, 0.1, 0.9},
    {"silu", BinaryFn::silu_grad, [](double x) { return x / (1 + std::exp(-x)); }, same, -4, 4},
    {"gelu", BinaryFn::gelu_grad, [](double x) { return x * normal_cdf(x); }, same, -4, 4},
    {"gelu_tanh", BinaryFn::gelu_tanh_grad,
     [](double x) {
       return x / (1 + std::exp(-2 * std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
     },
     same, -4, 4}};

// The derivative by central differences, with an error of about 1e-10.
double slope_of(const Function& f, double v) {
  const double x = f.input(v), h = 3e-6 * std::max(1.0, std::abs(x));
  return (f.f(x + h) - f.f(x - h)) / (2 * h);
}

Tolerance tolerance_of(DType dtype) {
  return {.dtype = dtype, .roundings = dtype == f64 ? 3e6 : 16.0, .scale = 1};
}

void check_function(const Function& f, DType dtype, const Shape& shape, Layout layout = Layout::contiguous) {
  Values dy = Values::random(dtype, shape, layout, -2, 2).on_device();
  Numbers at(static_cast<size_t>(shape.numel()));
  for (double& v : at) {
    do v = uniform(f.low, f.high);
    while (std::abs(v) < 0.01);  // a difference across the corner at 0 is not the derivative
  }
  Values v = Values::of(dtype, shape, at, layout).on_device();
  Values dx = Values(dtype, shape, layout).on_device();
  Numbers want = dy.numbers();
  const Numbers stored = v.numbers();
  for (size_t i = 0; i < want.size(); ++i) want[i] *= slope_of(f, stored[i]);
  activation_grad(f.fn, dx.view(), dy.view(), v.view(), kSlope);
  expect_close(
      std::string("activation_grad of ") + f.name + ", " + shape.str() + ", " + name_of_layout(layout), dx,
      want, tolerance_of(dtype));
}

}  // namespace

TEST_CASE("2.8 the derivatives of seven activations") {
  for (const Function& f : kFunctions) check_function(f, f32, {40});
}

TEST_CASE("2.8 every element, also in the last, partial block") {
  for (const int64_t n : {1, 31, 32, 255, 256, 257, 1000}) check_function(kFunctions[4], f32, {n});
}

TEST_CASE("2.8 rows and columns, in any layout") {
  for (const Layout layout : kLayouts) {
    check_function(kFunctions[4], f32, {5, 7}, layout);
    check_function(kFunctions[2], f32, {2, 3, 33}, layout);
  }
}

TEST_CASE("2.8 dy is one number with strides of 0, as the backward pass of a sum gives it") {
  const Function& f = kFunctions[4];
  Values one = Values::of(f32, {1}, {0.5}).on_device(),
         v = Values::random(f32, {6, 9}, Layout::contiguous, 1, 3).on_device(),
         row = Values::random(f32, {9}).on_device(), dx = Values(f32, {6, 9}).on_device();
  const Numbers stored = v.numbers(), rows = row.numbers();
  Numbers from_one(54), from_row(54);
  for (size_t i = 0; i < 54; ++i) {
    from_one[i] = 0.5 * slope_of(f, stored[i]);
    from_row[i] = rows[i % 9] * slope_of(f, stored[i]);
  }
  View stretched = one.view();
  stretched.shape = {6, 9};
  stretched.strides = {0, 0};
  activation_grad(f.fn, dx.view(), stretched, v.view(), 0);
  expect_close("activation_grad of silu, dx [6, 9], dy with strides [0, 0]", dx, from_one, tolerance_of(f32));
  activation_grad(f.fn, dx.view(), row.view(), v.view(), 0);
  expect_close("activation_grad of silu, dx [6, 9], dy [9]", dx, from_row, tolerance_of(f32));
}

TEST_CASE("2.8 f64 in f64, 16-bit floats in f32 and rounded once") {
  for (const Function& f : kFunctions) {
    for (const DType dtype : {f64, bf16, f16}) check_function(f, dtype, {70});
  }
}

TEST_CASE("2.8 in place: dx may be dy") {
  Values both = Values::random(f32, {300}).on_device(), v = Values::random(f32, {300}).on_device();
  Numbers want = both.numbers();
  const Numbers stored = v.numbers();
  for (size_t i = 0; i < want.size(); ++i) want[i] *= slope_of(kFunctions[4], stored[i]);
  activation_grad(BinaryFn::silu_grad, both.view(), both.view(), v.view(), 0);
  expect_close("activation_grad of silu, dx the same memory as dy", both, want, tolerance_of(f32));
}

TEST_CASE("2.8 large inputs, a blocked gradient of inf or NaN, and no elements") {
  for (const BinaryFn fn : {BinaryFn::silu_grad, BinaryFn::gelu_grad, BinaryFn::gelu_tanh_grad}) {
    for (const DType dtype : {f32, f64}) {
      Values dy = Values::of(dtype, {4}, {3, 3, 3, 3}).on_device(),
             v = Values::of(dtype, {4}, {-1000, -100, 100, 1000}).on_device(),
             dx = Values(dtype, {4}).on_device();
      activation_grad(fn, dx.view(), dy.view(), v.view(), 0);
      expect_close(std::string("activation_grad of ") +
                       kFunctions[static_cast<int>(fn) - static_cast<int>(BinaryFn::relu_grad)].name +
                       " at {-1000, -100, 100, 1000} with dy = 3",
                   dx, {0, 0, 3, 3}, tolerance_of(dtype));
    }
  }
  Values dy = Values::of(f32, {3}, {HUGE_VAL, HUGE_VAL, NAN}).on_device(),
         v = Values::of(f32, {3}, {0, 2, 2}).on_device(), dx = Values(f32, {3}).on_device();
  activation_grad(BinaryFn::relu_grad, dx.view(), dy.view(), v.view(), 0);
  expect_close("activation_grad of relu at {0, 2, 2} with dy = {inf, inf, NaN}", dx, {0, HUGE_VAL, NAN});
  check_function(kFunctions[0], f32, {0});
  check_function(kFunctions[0], f32, {3, 0});
}

TEST_CASE("2.8 one pass over memory") {
  Values dy = Values::random(f32, {1024}).on_device(), v = Values::random(f32, {1024}).on_device(),
         dx = Values(f32, {1024}).on_device();
  const Counted c = counted([&] { activation_grad(BinaryFn::gelu_grad, dx.view(), dy.view(), v.view(), 0); });
  const std::string what = "activation_grad of gelu, 1024 elements of f32: ";
  if (!kCounts) return expect(what + "nothing is counted on a GPU", true);
  expect_equal(what + "kernels launched", c.launches, 1.0);
  expect_equal(what + "bytes read, dy and v once each", c.bytes_read, 2 * 4096.0);
  expect_equal(what + "bytes written, dx once", c.bytes_written, 4096.0);
  expect(what + "reads and writes of a warp are coalesced", c.sectors <= 2.25 * c.ideal_sectors,
         "sectors of 32 bytes moved: " + shown(c.sectors) + ", needed are " + shown(c.ideal_sectors));
}
