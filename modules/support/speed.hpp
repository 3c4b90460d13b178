// The works by which the speed of a task is measured, at sizes where memory or arithmetic is the limit, not
// the overhead of a call. modules/NN/speed/SLUG.cpp defines works(); speed_main.cpp times them, or the
// emulator counts them.
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
  double bytes = 0;  // bytes that must be read and written at least once
  double flops = 0;
  std::function<void()> run;
};
std::vector<Work> works();

// True if time is measured. The emulator only counts, and needs small sizes.
inline constexpr bool kTimed = TINYTORCH_CUDA_SIM == 0;

// Shared values in the memory of the device that runs the kernel; they live as long as the works that use
// them.
using Held = std::shared_ptr<Values>;
inline Held held(Values v) {
#if TINYTORCH_WITH_CUDA
  return std::make_shared<Values>(std::move(v).on_device());
#else
  return std::make_shared<Values>(std::move(v));
#endif
}
inline Held random(DType dtype, const Shape& shape, double low = -1, double high = 1) {
  return held(Values::random(dtype, shape, Layout::contiguous, low, high));
}
inline Held empty(DType dtype, const Shape& shape) { return held(Values(dtype, shape)); }

}  // namespace course
