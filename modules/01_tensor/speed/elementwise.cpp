#include <support/speed.hpp>
#include <tinytorch/backend/cpu/elementwise.hpp>

std::vector<course::Work> course::works() {
  using namespace tinytorch::backend;
  constexpr int64_t kRows = 1024, kColumns = 1024;
  static Values a = Values::random(f32, {kRows, kColumns}), b = Values::random(f32, {1, kColumns}),
                out(f32, {kRows, kColumns});
  const double bytes = 4.0 * (2 * kRows * kColumns + kColumns);
  return {{"add of [1024, 1024] and [1, 1024] f32", bytes, kRows * kColumns,
           [] { cpu::binary(BinaryFn::add, out.view(), a.view(), b.view()); }}};
}
