// Counted work is compared with closed forms.
#include <support/check.hpp>
#include <tinytorch/profiling/cost.hpp>

namespace tt = tinytorch;
using tt::Tensor;
using tt::profiling::count_cost;

TEST_CASE("a matrix product counts 2 M N K FLOPs and the bytes of its three matrices") {
  const Tensor a = tt::ones({3, 5}), b = tt::ones({5, 7});
  const tt::Cost cost = count_cost([&] { tt::matmul(a, b); });
  CHECK(cost.flops == 2 * 3 * 5 * 7);
  CHECK(cost.bytes == 4 * (15 + 35 + 21));
}

TEST_CASE("forward and backward of a matrix product count three times the FLOPs of forward") {
  Tensor a = tt::ones({3, 5}), b = tt::ones({5, 7});
  a.requires_grad_(), b.requires_grad_();
  const double product = 2 * 3 * 5 * 7;
  Tensor c;
  CHECK(count_cost([&] { c = tt::matmul(a, b); }).flops == product);
  CHECK(count_cost([&] { c.backward(tt::ones({3, 7})); }).flops == 2 * product);
}

TEST_CASE("views cost nothing; only work inside count_cost is counted; a failed op counts nothing") {
  const Tensor x = tt::ones({4, 4});
  tt::profiling::CostCounter counter;
  {
    const tt::Observing observing(counter);
    x.t();
    CHECK_THROWS_AS(x + tt::ones({3}), tt::Error);
    x + x;
  }
  x + x;
  CHECK(counter.total().flops == 16);
  CHECK(counter.total().bytes == 3 * 64);
  CHECK(counter.ops() == 2);
}
