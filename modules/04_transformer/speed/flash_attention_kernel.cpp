#include <support/speed.hpp>
#include <tinytorch/backend/cuda/launch.hpp>

namespace {

course::Work attention(const tinytorch::Shape& shape, bool causal) {
  using namespace course;
  const Held q = random(f32, shape), k = random(f32, shape), v = random(f32, shape), out = empty(f32, shape);
  const Held lse = empty(f32, {shape[0], shape[1], shape[2]});
  backend::AttentionParameters parameters;
  parameters.scale = 1 / std::sqrt(static_cast<double>(shape[3]));
  parameters.causal = causal;
  const auto lines = static_cast<double>(shape[0] * shape[1] * shape[2]), T = static_cast<double>(shape[2]),
             D = static_cast<double>(shape[3]);
  return {std::string(causal ? "causal attention" : "attention") + " of f32 " + shape.str(),
          4 * lines * (4 * D + 1), 4 * lines * D * (causal ? (T + 1) / 2 : T), [=] {
            backend::cuda::attention(out->view(), lse->view(), q->view(), k->view(), v->view(), parameters);
          }};
}

}  // namespace

std::vector<course::Work> course::works() {
  if (kTimed) return {attention({4, 16, 2048, 64}, false), attention({4, 16, 2048, 64}, true)};
  return {attention({1, 2, 56, 32}, false), attention({1, 2, 56, 32}, true)};
}
