#include <support/speed.hpp>
#include <tinytorch/backend/cuda/launch.hpp>

namespace {

course::Work backward(tinytorch::DType dtype, int64_t rows, int64_t columns) {
  using namespace course;
  const Held dy = random(dtype, {rows, columns}), x = random(dtype, {rows, columns}, -3, 3);
  const Held dx = empty(dtype, {rows, columns});
  return {std::string("gelu's gradient, ") + name_of(dtype) + " " + dx->shape().str(),
          3.0 * static_cast<double>(rows * columns * static_cast<int64_t>(size_of(dtype))), 0, [=] {
            backend::cuda::activation_grad(backend::BinaryFn::gelu_grad, dx->view(), dy->view(), x->view());
          }};
}

}  // namespace

std::vector<course::Work> course::works() {
  if (kTimed) return {backward(f32, 4096, 4096), backward(bf16, 8192, 4096)};
  return {backward(f32, 24, 200), backward(bf16, 20, 304)};
}
