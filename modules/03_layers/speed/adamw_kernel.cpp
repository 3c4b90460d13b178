#include <support/speed.hpp>
#include <tinytorch/backend/cuda/launch.hpp>

namespace {

// `count` parameters of each of the sizes that weights and biases of a network have.
course::Work step(const std::vector<int64_t>& sizes, int count) {
  using namespace course;
  std::vector<Held> all;
  std::vector<backend::OptimizerSlot> slots;
  double elements = 0;
  const auto keep = [&](Held v) {
    all.push_back(v);
    return v->view();
  };
  for (int k = 0; k < count; ++k) {
    for (const int64_t n : sizes) {
      const View parameter = keep(random(f32, {n})), gradient = keep(random(f32, {n}));
      const View m = keep(random(f32, {n}, -0.1, 0.1)), v = keep(random(f32, {n}, 0.1, 0.5));
      slots.push_back({parameter, gradient, {m, v}, {}, keep(held(Values::of(i64, {1}, {0}))), 0.1});
      elements += static_cast<double>(n);
    }
  }
  const Held scalars = held(Values::of(f64, {3}, {0.001, 1, 0}));
  // p, g, m and v are read; p, m and v are written
  return {"AdamW over " + std::to_string(slots.size()) + " tensors, " +
              std::to_string(static_cast<int64_t>(elements)) + " elements",
          28 * elements, 0, [=] {
            (void)all;
            backend::cuda::adam_step_all(slots, scalars->view(), {.decoupled = true}, false);
          }};
}

}  // namespace

std::vector<course::Work> course::works() {
  if (kTimed) return {step({1 << 22, 4096}, 4), step({65536, 256}, 120)};
  return {step({1500, 24}, 8), step({5000}, 1)};
}
