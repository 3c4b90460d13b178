// The speed of a task: its work, at a size where memory or arithmetic is the limit and not the call.
// modules/NN/speed/SLUG.cpp defines works(); speed_main.cpp times them, or has the emulator count them.
//
//   std::vector<Work> course::works() {
//     const int64_t n = kTimed ? int64_t{1} << 24 : 5000;
//     const Held x = random(f32, {n}), y = empty(f32, {n});
//     return {{"relu", 2 * 4.0 * n, 0, [=] { cuda::unary(UnaryFn::relu, y->view(), x->view()); }}};
//   }
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <support/values.hpp>
#include <vector>

namespace course {

struct Work {
  std::string name;
  double bytes = 0;  // that have to be read and written at least once
  double flops = 0;
  std::function<void()> run;
};
std::vector<Work> works();

// Whether time is measured; the emulator only counts, and wants small sizes.
inline constexpr bool kTimed = TINYTORCH_CUDA_SIM == 0;

// Values that live as long as the works that use them, where their kernel runs.
using Held = std::shared_ptr<Values>;
inline Held held(Values v) {
#if TINYTORCH_WITH_CUDA
  return std::make_shared<Values>(std::move(v).on_device());
#else
  return std::make_shared<Values>(std::move(v));
#endif
}
inline Held random(DType dtype, const Shape& shape, double low = -1, double high = 1) {
  return held(Values::random(dtype, shape, Layout::dense, low, high));
}
inline Held empty(DType dtype, const Shape& shape) { return held(Values(dtype, shape)); }

}  // namespace course
