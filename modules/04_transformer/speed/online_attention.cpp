#include <support/speed.hpp>
#include <tinytorch/backend/cpu/attention.hpp>

namespace {

course::Work attention(bool causal) {
  using namespace course;
  constexpr int64_t kHeads = 4, kLength = 128, kSize = 64;
  const Shape shape{1, kHeads, kLength, kSize};
  const Held q = random(f32, shape), k = random(f32, shape), v = random(f32, shape), out = empty(f32, shape);
  const Held lse = empty(f32, {1, kHeads, kLength});
  backend::AttentionParameters parameters;
  parameters.scale = 0.125;
  parameters.causal = causal;
  const double pairs = static_cast<double>(kHeads * kLength * (causal ? kLength + 1 : 2 * kLength)) / 2;
  return {std::string(causal ? "causal attention" : "attention") + " of f32 " + shape.str(),
          4.0 * static_cast<double>(kHeads * kLength * (4 * kSize + 1)), 4 * pairs * kSize, [=] {
            backend::cpu::attention(out->view(), lse->view(), q->view(), k->view(), v->view(), parameters);
          }};
}

}  // namespace

std::vector<course::Work> course::works() { return {attention(false), attention(true)}; }
