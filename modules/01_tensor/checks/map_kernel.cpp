#include <support/check.hpp>
#include <tinytorch/backend/cuda/launch.hpp>

using namespace course;
using backend::UnaryFn;

namespace {

void check_unary(UnaryFn fn, const char* name, DType dtype, const Shape& shape, Layout layout,
                 double (*reference)(double), double roundings) {
  Values x = Values::random(dtype, shape, layout, -3, 3).on_device();
  Values y = Values(dtype, shape).on_device();
  Numbers want = x.numbers();
  for (double& v : want) v = reference(v);
  backend::cuda::unary(fn, y.view(), x.view());
  expect_close(std::string(name) + " of " + shape.str() + ", " + name_of_layout(layout), y, want,
               {.roundings = roundings});
}

}  // namespace

TEST_CASE("1.8 every element is mapped, also of the last, partial block") {
  for (const int64_t n : {int64_t{1}, int64_t{31}, int64_t{255}, int64_t{256}, int64_t{257}, int64_t{1000}}) {
    check_unary(
        UnaryFn::relu, "relu", f32, {n}, Layout::dense, [](double v) { return v > 0 ? v : 0; }, 0);
  }
}
