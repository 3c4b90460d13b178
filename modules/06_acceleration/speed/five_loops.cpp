#include <support/speed.hpp>
#include <tinytorch/backend/cpu/ladder/five_loops.hpp>

namespace {

course::Work product(int64_t n) {
  using namespace course;
  namespace cpu = backend::cpu;
  const Held a = random(f32, {n, n}), b = random(f32, {n, n}), c = empty(f32, {n, n});
  const double numbers = static_cast<double>(n * n);
  return {"product of f32 " + a->shape().str() + " and " + b->shape().str(), 12 * numbers,
          2 * numbers * static_cast<double>(n), [=] {
            const auto of = [n](const Held& x) { return cpu::Matrix<float>{x->view().as<float>(), n, 1}; };
            cpu::ladder::product<float>(c->view().as<float>(), n, of(a), of(b), n, n, n, 1);
          }};
}

}  // namespace

std::vector<course::Work> course::works() { return {product(512), product(1024)}; }
