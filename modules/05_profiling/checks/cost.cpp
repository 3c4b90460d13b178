#include "ops.hpp"

#include <support/check.hpp>
#include <tinytorch/profiling/cost.hpp>
#include <tinytorch/tensor/functions.hpp>

using namespace course;
using namespace profiling;

namespace {

struct Seen {
  Cost cost;
  int64_t ops = 0;
};
template <class F>
Seen watch(F&& f) {
  CostCounter counter;
  {
    const Observing observing(counter);
    f();
  }
  return {counter.total(), counter.ops()};
}
void expect_seen(const std::string& what, const Seen& got, double flops, double bytes, int64_t ops,
                 const std::string& guess = "") {
  const auto text = [](double f, double b, int64_t n) {
    return shown(f) + " FLOPs, " + shown(b) + " bytes, " + shown(n) + " ops";
  };
  expect(what + ": " + text(flops, bytes, ops) + "; got " + text(got.cost.flops, got.cost.bytes, got.ops),
         got.cost.flops == flops && got.cost.bytes == bytes && got.ops == ops, guess);
}

}  // namespace

TEST_CASE("5.2 the cost of one op is what its primitive states") {
  const Tensor a = empty({3, 5}), b = empty({5, 7});
  expect_seen("matmul of [3, 5] and [5, 7]: 2 M N K FLOPs and three matrices of f32",
              watch([&] { matmul(a, b); }), 210, 4 * (15 + 35 + 21), 1);
  const Cost cost = count_cost([&] { matmul(a, b); });
  expect_seen("matmul of [3, 5] and [5, 7] by count_cost", {cost, 1}, 210, 4 * (15 + 35 + 21), 1);
  expect_seen("a view", watch([&] { a.t(); }), 0, 0, 1, "a view is an op that moves no bytes");
}

TEST_CASE("5.2 the costs of several ops are added") {
  const Tensor x = pair();
  expect_seen("ops of 100, 20 and 3 FLOPs with 16 bytes each",
              watch([&] { act(x, 100), act(x, 20), act(x, 3); }), 123, 48, 3);
  expect_seen("nothing", watch([] {}), 0, 0, 0);
}

TEST_CASE("5.2 of nested ops only the outermost is counted") {
  const Tensor x = pair();
  const auto inner = [&] { act(x, 30), act(x, 40); };
  const std::string twice = "is the work of inner ops counted twice, once for them and once in the outer op?";
  expect_seen("an op of 100 FLOPs that calls ops of 30 and 40", watch([&] { act(x, 100, inner); }), 100, 16,
              1, twice);
  expect_seen("an op of 100 FLOPs that calls ops of 30 and 40, then an op of 7",
              watch([&] { act(x, 100, inner), act(x, 7); }), 107, 32, 2,
              "after the outer op has ended, ops count again");
  expect_seen("three levels: 1000 calls 100, which calls 30 and 40",
              watch([&] { act(x, 1000, [&] { act(x, 100, inner), act(x, 5); }); }), 1000, 16, 1, twice);
}

TEST_CASE("5.2 a failed op costs nothing and does not change the count of others") {
  const Tensor x = pair();
  expect_seen("an op of 100 that fails", watch([&] { swallow([&] { act(x, 100, failing); }); }), 0, 0, 0);
  expect_seen("an op of 100 that fails, then one of 20",
              watch([&] { swallow([&] { act(x, 100, failing); }), act(x, 20); }), 20, 16, 1,
              "a failed op has ended, so the next op is not inside it");
  expect_seen("an op of 100 that calls an op of 30, which fails, and then an op of 5",
              watch([&] { act(x, 100, [&] { swallow([&] { act(x, 30, failing); }), act(x, 5); }); }), 100, 16,
              1, "the outer op has not ended yet");
  const auto halfway = [&] { act(x, 30), failing(); };
  expect_seen("an op that fails after it has called an op of 30",
              watch([&] { swallow([&] { act(x, 100, halfway); }), act(x, 1); }), 1, 16, 1);
}

TEST_CASE("5.2 work reported by begin_work counts like an op") {
  const Tensor x = pair();
  const auto work = [&](double flops, double bytes, const std::function<void()>& inside) {
    ObservedWork w("work", cpu);
    w.cost = {flops, bytes};
    if (inside) inside();
  };
  expect_seen("work of 50 FLOPs and 6 bytes", watch([&] { work(50, 6, {}); }), 50, 6, 1);
  expect_seen("work of 50 in which there is an op of 30, then an op of 2",
              watch([&] { work(50, 6, [&] { act(x, 30); }), act(x, 2); }), 52, 22, 2,
              "begin_work and end_work nest like before and after");
  expect_seen("an op of 100 in which there is work of 50",
              watch([&] { act(x, 100, [&] { work(50, 6, {}); }); }), 100, 16, 1);
}

TEST_CASE("5.2 forward and backward of a product") {
  Tensor a = empty({3, 5}), b = empty({5, 7}), c;
  a.fill_(1), b.fill_(1);
  a.requires_grad_(), b.requires_grad_();
  expect_seen("the forward pass of matmul", {count_cost([&] { c = matmul(a, b); }), 1}, 210, 284, 1);
  const Cost back = count_cost([&] { c.backward(ones({3, 7})); });
  expect("the backward pass is two products of the same size: 420 FLOPs, got " + shown(back.flops),
         back.flops == 420);
}

TEST_CASE("5.2 count_cost counts its own call only, and restores the observer") {
  const Tensor x = pair();
  CostCounter outer;
  Cost inner;
  {
    const Observing observing(outer);
    act(x, 1);
    inner = count_cost([&] { act(x, 20); });
    swallow([&] { count_cost([&] { act(x, 300), failing(); }); });
    expect("after count_cost, even if its function threw, the observer is the earlier one",
           op_observer() == &outer);
    act(x, 4000);
  }
  expect_seen("count_cost of an op of 20", {inner, 1}, 20, 16, 1);
  expect_seen("the earlier observer, which counts outside count_cost", {outer.total(), outer.ops()}, 4001, 32,
              2);
  expect("at the end there is no observer", op_observer() == nullptr);
}
