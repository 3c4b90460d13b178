// Attention gradients. attention.cpp compares them with the definition.
#include <support/attention_reference.hpp>
#include <tinytorch/backend/cpu/attention.hpp>
#include <tinytorch/backend/cpu/attention_grad.hpp>
#include <tinytorch/core/parallel.hpp>

using namespace test;
namespace kernels = tinytorch::backend::cpu;

namespace {

struct Grads {
  Array dq{f32, {2, 4, 50, 12}}, dk{f32, {2, 2, 50, 12}}, dv{f32, {2, 2, 50, 12}};
  explicit Grads(double p) {
    const backend::AttentionParameters rules{.scale = 0.3, .causal = true, .p = p, .seed = 9};
    Array q = Array::random(f32, {2, 4, 50, 12}, 1), k = Array::random(f32, {2, 2, 50, 12}, 2),
          v = Array::random(f32, {2, 2, 50, 12}, 3), dout = Array::random(f32, {2, 4, 50, 12}, 4);
    Array out(f32, {2, 4, 50, 12}), lse(f32, {2, 4, 50});
    kernels::attention(out.view(), lse.view(), q.view(), k.view(), v.view(), rules);
    kernels::attention_grad(dq.view(), dk.view(), dv.view(), dout.view(), q.view(), k.view(), v.view(),
                            out.view(), lse.view(), rules);
  }
  bool operator==(Grads& other) {
    return dq.bytes() == other.dq.bytes() && dk.bytes() == other.dk.bytes() && dv.bytes() == other.dv.bytes();
  }
};

}  // namespace

TEST_CASE("gradients do not depend on the number of threads, and use the dropout mask of the forward pass") {
  const int before = thread_count();
  for (const double p : {0.0, 0.4}) {
    set_thread_count(1);
    Grads one(p);
    set_thread_count(3);
    Grads three(p);
    set_thread_count(before);
    CHECK(one == three);
  }
}

TEST_CASE("with dropout probability 1 all gradients are zero") {
  Grads none(1);
  for (Array* a : {&none.dq, &none.dk, &none.dv}) {
    const std::vector<double> values = a->values();
    CHECK(values == std::vector<double>(values.size(), 0));
  }
}
