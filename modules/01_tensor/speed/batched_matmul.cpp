#include <support/speed.hpp>
#include <tinytorch/backend/cpu/matmul.hpp>

namespace {

course::Work product(int64_t batches, int64_t n) {
  using namespace course;
  const Held a = random(f32, {batches, n, n}), b = random(f32, {batches, n, n}),
             out = empty(f32, {batches, n, n});
  const auto count = static_cast<double>(batches * n * n);
  return {"product of f32 " + a->shape().str() + " and " + b->shape().str(), 12 * count,
          2 * count * static_cast<double>(n),
          [=] { backend::cpu::matmul(out->view(), a->view(), b->view()); }};
}

}  // namespace

std::vector<course::Work> course::works() { return {product(1, 256), product(16, 96)}; }
