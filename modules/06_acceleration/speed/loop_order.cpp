#include <support/speed.hpp>
#include <tinytorch/backend/cpu/ladder/loops.hpp>

namespace {

course::Work product(int64_t n) {
  using namespace course;
  namespace ladder = backend::cpu::ladder;
  const Held a = random(f32, {n, n}), b = random(f32, {n, n}), c = empty(f32, {n, n});
  const double numbers = static_cast<double>(n * n);
  return {"product of f32 " + a->shape().str() + " and " + b->shape().str(), 12 * numbers,
          2 * numbers * static_cast<double>(n), [=] {
            const auto rows = [n](const Held& x) { return ladder::Rows<float>(x->view().as<float>(), n, n); };
            ladder::product_ikj(rows(c), rows(a), rows(b));
          }};
}

}  // namespace

std::vector<course::Work> course::works() { return {product(384), product(512)}; }
