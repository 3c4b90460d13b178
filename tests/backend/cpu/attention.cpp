// Forward; the gradient's header is checked with it, and alone in attention_grad.cpp.
#include <support/attention_reference.hpp>
#include <tinytorch/backend/cpu/attention.hpp>
#include <tinytorch/backend/cpu/attention_grad.hpp>
#include <tinytorch/core/parallel.hpp>

using namespace test;
namespace kernels = tinytorch::backend::cpu;

TEST_CASE("attention and its gradients equal the definition") {
  uint64_t seed = 1;
  attention_cases(false, [&](const AttentionCase& c) {
    check_attention<Array>(c, seed += 10, false, kernels::attention, kernels::attention_grad);
  });
}

TEST_CASE("a query that sees no key gives zeros; nothing in, nothing out") {
  // Queries are the last of the positions: with 6 queries and 2 keys the first four come before every key.
  Array q = Array::random(f32, {1, 1, 6, 8}, 1), k = Array::random(f32, {1, 1, 2, 8}, 2),
        out(f32, {1, 1, 6, 8}), lse(f32, {1, 1, 6});
  kernels::attention(out.view(), lse.view(), q.view(), k.view(), k.view(), {.causal = true});
  const std::vector<double> y = out.values(), sums = lse.values();
  for (size_t t = 0; t < 6; ++t) {
    CHECK((sums[t] == -INFINITY) == (t < 4));
    for (size_t d = 0; t < 4 && d < 8; ++d) CHECK(y[t * 8 + d] == 0);
  }
  Array none(f32, {1, 1, 0, 8}), no_lse(f32, {1, 1, 0});
  kernels::attention(none.view(), no_lse.view(), none.view(), k.view(), k.view(), {});
  kernels::attention(out.view(), lse.view(), q.view(), none.view(), none.view(), {});
  CHECK(out.values() == std::vector<double>(48, 0));
}

TEST_CASE("NaN in a key spoils the queries that see it, and no others") {
  Array q = Array::random(f32, {1, 1, 40, 8}, 1), k = Array::random(f32, {1, 1, 40, 8}, 2),
        v = Array::random(f32, {1, 1, 40, 8}, 3), out(f32, {1, 1, 40, 8}), lse(f32, {1, 1, 40});
  std::vector<double> values = k.values();
  values[20 * 8 + 3] = NAN;
  Array spoiled = Array::from(f32, {1, 1, 40, 8}, values);
  kernels::attention(out.view(), lse.view(), q.view(), spoiled.view(), v.view(), {.causal = true});
  const std::vector<double> y = out.values();
  for (size_t i = 0; i < y.size(); ++i) CHECK(std::isnan(y[i]) == (i / 8 >= 20));
}

TEST_CASE("results do not depend on the number of threads") {
  Array q = Array::random(f32, {2, 3, 70, 16}, 1), k = Array::random(f32, {2, 3, 70, 16}, 2),
        one(f32, {2, 3, 70, 16}), three(f32, {2, 3, 70, 16}), lse(f32, {2, 3, 70});
  const int before = thread_count();
  set_thread_count(1);
  kernels::attention(one.view(), lse.view(), q.view(), k.view(), k.view(), {.causal = true});
  set_thread_count(3);
  kernels::attention(three.view(), lse.view(), q.view(), k.view(), k.view(), {.causal = true});
  set_thread_count(before);
  CHECK(one.bytes() == three.bytes());
}
