#include <tinytorch/backend/cuda/launch.hpp>

#include "cache_memory.hpp"

namespace {

course::Work attention(tinytorch::DType dtype, int64_t B, int64_t T, int64_t shared, int64_t G,
                       int64_t page) {
  using namespace course;
  constexpr int64_t kSize = 64;
  const auto cache = std::make_shared<CacheMemory>(dtype, B, T, G, kSize, page);
  const Shape shape{B, G * shared, kSize};
  const Held q = random(f32, shape), out = empty(f32, shape);
  const double numbers = static_cast<double>(B * G * shared * kSize);
  const std::string keys =
      std::to_string(B) + " texts of " + std::to_string(T) + " tokens, " + name_of(dtype);
  return {keys + ", " + std::to_string(shared) + " queries a key", cache->bytes() + 8 * numbers,
          4 * numbers * static_cast<double>(T),
          [=] { backend::cuda::attention_decode(out->view(), q->view(), cache->view(), 0.125, 0); }};
}

}  // namespace

std::vector<course::Work> course::works() {
  if (kTimed) return {attention(f32, 32, 2048, 1, 8, 64), attention(f32, 32, 2048, 4, 8, 64)};
  return {attention(f32, 1, 200, 1, 2, 16), attention(f32, 2, 90, 4, 1, 16)};
}
