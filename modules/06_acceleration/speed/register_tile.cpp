#include <support/speed.hpp>
#include <tinytorch/backend/cpu/ladder/register_tile.hpp>

namespace {

// A tile, whose panels are in the L1 cache, many times.
course::Work tiles(int64_t depth) {
  using namespace course;
  namespace cpu = backend::cpu;
  constexpr int64_t kTimes = 20'000;
  const Held a = random(f32, {depth, cpu::kMR}), b = random(f32, {depth, cpu::kNR<float>}),
             c = empty(f32, {cpu::kMR, cpu::kNR<float>});
  const double flops = 2.0 * static_cast<double>(cpu::kMR * cpu::kNR<float> * depth * kTimes);
  return {
      "a tile of depth " + std::to_string(depth) + ", " + std::to_string(kTimes) + " times", 0, flops, [=] {
        for (int64_t i = 0; i < kTimes; ++i)
          cpu::ladder::tile_product<float>(c->view().as<float>(), cpu::kNR<float>, a->view().as<float>(),
                                           b->view().as<float>(), depth, cpu::kMR, cpu::kNR<float>, false);
      }};
}

}  // namespace

std::vector<course::Work> course::works() { return {tiles(64), tiles(128)}; }
