// The speed of a task: its work, at a size where memory or arithmetic is the limit and not the call.
// modules/NN/speed/SLUG.cpp defines works(); speed_main.cpp times them, or has the emulator count them.
//
//   std::vector<Work> course::works() {
//     ... return {{"relu of 16M f32", 2 * 4.0 * n, 0, [=] { cpu::unary(UnaryFn::relu, y->view(), x->view()); }}};
//   }
#pragma once

#include <functional>
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

}  // namespace course
