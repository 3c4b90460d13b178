#include <support/speed.hpp>
#include <tinytorch/backend/cpu/ladder/finished_product.hpp>

namespace {

float relu(float x) { return x > 0 ? x : 0; }

// A layer of a transformer: bias, residual and activation behind a product.
course::Work layer(int64_t M, int64_t N, int64_t K) {
  using namespace course;
  namespace cpu = backend::cpu;
  const Held a = random(f32, {M, K}), b = random(f32, {K, N}), c = empty(f32, {M, N}),
             bias = random(f32, {N}), residual = random(f32, {M, N});
  return {"relu(a b + bias + residual), a " + a->shape().str() + ", b " + b->shape().str(),
          4.0 * static_cast<double>(M * K + K * N + 2 * M * N), 2.0 * static_cast<double>(M * N * K), [=] {
            const auto at = [](const Held& x) { return x->view().as<float>(); };
            cpu::ladder::finished_product<float>(
                at(c), N, {at(a), K, 1}, {at(b), N, 1}, M, N, K,
                {.bias = at(bias), .residual = at(residual), .residual_row = N, .fn = relu});
          }};
}

}  // namespace

std::vector<course::Work> course::works() { return {layer(512, 768, 64), layer(512, 768, 768)}; }
