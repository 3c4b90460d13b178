#include <support/speed.hpp>
#include <tinytorch/backend/cpu/block_linear.hpp>

namespace {

// A token through a layer of N outputs and K inputs, whose weights are in Q4_0.
course::Work product(int64_t N, int64_t K) {
  using namespace course;
  const BlockFormat& format = *find_block_format("Q4_0");
  const int64_t row = format.row_bytes(K);
  const Held x = random(f32, {1, K}), out = empty(f32, {1, N}), w = random(u8, {N, row}, 0, 120);
  return {"a token times [" + std::to_string(N) + ", " + std::to_string(K) + "] in Q4_0",
          static_cast<double>(N * row + 4 * (K + N)), 2.0 * static_cast<double>(N * K), [=, &format] {
            backend::cpu::block_linear(out->view(), x->view(), w->view(), {}, format, Activations::int8);
          }};
}

}  // namespace

std::vector<course::Work> course::works() { return {product(768, 768), product(3072, 1024)}; }
