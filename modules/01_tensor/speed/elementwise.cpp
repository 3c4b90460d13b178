#include <support/speed.hpp>
#include <tinytorch/backend/cpu/elementwise.hpp>

std::vector<course::Work> course::works() {
  using namespace tinytorch::backend;
  constexpr int64_t kRows = 1024, kColumns = 1024;
  const Held a = random(f32, {kRows, kColumns}), b = random(f32, {1, kColumns}),
             out = empty(f32, {kRows, kColumns});
  return {{"add of [1024, 1024] and [1, 1024] f32", 4.0 * (2 * kRows * kColumns + kColumns), kRows * kColumns,
           [=] { cpu::binary(BinaryFn::add, out->view(), a->view(), b->view()); }},
          {"relu of [1024, 1024] f32", 8.0 * kRows * kColumns, kRows * kColumns,
           [=] { cpu::unary(UnaryFn::relu, out->view(), a->view()); }}};
}
