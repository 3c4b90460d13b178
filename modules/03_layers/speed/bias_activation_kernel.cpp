#include <support/speed.hpp>
#include <tinytorch/backend/cuda/launch.hpp>

std::vector<course::Work> course::works() {
  using backend::Activation;
  const int64_t rows = kTimed ? 8192 : 40, columns = kTimed ? 3072 : 200;
  const double tensor = 4.0 * static_cast<double>(rows * columns), row = 4.0 * static_cast<double>(columns);
  const Held x = random(f32, {rows, columns}, -3, 3), y = empty(f32, {rows, columns}),
             bias = random(f32, {columns});
  const Held dy = random(f32, {rows, columns}), dx = empty(f32, {rows, columns}),
             dbias = empty(f32, {columns});
  const std::string of = " of f32 " + x->shape().str();
  return {{"bias and gelu" + of, 2 * tensor + row, 0,
           [=] { backend::cuda::bias_activation(Activation::gelu, y->view(), x->view(), bias->view()); }},
          {"gradients of bias and gelu" + of, 3 * tensor + 2 * row, 0, [=] {
             backend::cuda::bias_activation_grad(Activation::gelu, dx->view(), dbias->view(), dy->view(),
                                                 x->view(), bias->view());
           }}};
}
