#include <tinytorch/backend/cpu/attention_decode.hpp>

#include "cache_memory.hpp"

namespace {

course::Work attention(tinytorch::DType dtype) {
  using namespace course;
  constexpr int64_t kSequences = 2, kLength = 512, kHeads = 4, kSize = 64;
  const auto cache = std::make_shared<CacheMemory>(dtype, kSequences, kLength, kHeads, kSize);
  const Shape shape{kSequences, kHeads, kSize};
  const Held q = random(f32, shape), out = empty(f32, shape);
  const double numbers = static_cast<double>(kSequences * kHeads * kSize);
  return {"attention of a token to 512 tokens of " + std::string(name_of(dtype)),
          cache->bytes() + 8 * numbers, 4 * numbers * kLength,
          [=] { backend::cpu::attention_decode(out->view(), q->view(), cache->view(), 0.125, 0); }};
}

}  // namespace

std::vector<course::Work> course::works() { return {attention(f32), attention(bf16)}; }
