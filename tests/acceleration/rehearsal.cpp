// Rehearsal: the graph of a recording, without a kernel.
#include <doctest/doctest.h>

#include <support/errors.hpp>
#include <tinytorch/acceleration/capture_gradient.hpp>
#include <tinytorch/acceleration/rehearsal.hpp>
#include <tinytorch/acceleration/signature.hpp>
#include <tinytorch/layers/layers.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace {
namespace tt = tinytorch;
using tt::Tensor;
using tt::Tensors;

// x -> x, and counts how often its kernel runs.
struct CountedCopy final : tt::Primitive<CountedCopy> {
  static constexpr const char* kName = "counted_copy";
  int* runs;
  explicit CountedCopy(int* n) : runs(n) {}
  tt::Specs infer(const Tensors& in, tt::Loc) const override { return {{in[0].shape(), in[0].dtype()}}; }
  void run(const Tensors& in, Tensors& out) const override {
    ++*runs;
    tt::backend::cpu::copy(out[0].view_of(), in[0].view_of());
  }
  Tensors vjp(const tt::Saved&, const Tensors& g) const override { return {tt::apply(*this, {g[0]})}; }
};
Tensor zeros_of(int64_t n, int64_t columns) {
  return tt::blank({n, columns}, {columns, 1}, tt::f32, tt::cpu, true);
}
}  // namespace

TEST_CASE(
    "a rehearsal of both passes has the steps, numbers and constants of a recording, and runs no kernel") {
  int runs = 0;
  tt::Linear layer(4, 6);
  layer.to(tt::cpu);
  const tt::TensorFunction f = [&](const Tensors& x) {
    const Tensor h = tt::apply(CountedCopy(&runs), {tt::gelu(layer(x[0]))});
    const Tensor best = tt::gather(h, 1, tt::argmax(h, 1, true));
    return Tensors{(tt::softmax(h, -1) * best).sum() * (1.0 / static_cast<double>(x[0].size(0)))};
  };
  for (const int64_t n : {1, 2, 7, 64}) {
    CAPTURE(n);
    const auto want = tt::capture_gradient(f, {tt::randn({n, 4}, tt::f32, tt::cpu).requires_grad_()});
    CHECK(std::exchange(runs, 0) == 2);
    const auto got = tt::capture_gradient<tt::Rehearsal>(f, {zeros_of(n, 4)});
    CHECK(runs == 0);
    CHECK(!tt::first_difference(want.joint, want.joint.steps.size(), got.joint));
    CHECK(want.joint.outputs == got.joint.outputs);
    CHECK(!layer.weight.grad().defined());
  }
}

TEST_CASE("a rehearsal leaves tensors of the program as they were, also if it fails") {
  const Tensor count = tt::full({3}, 5, tt::f32, tt::cpu);
  bool fails = false;
  const tt::TensorFunction f = [&](const Tensors& x) {
    const tt::NoGrad guard;
    Tensor(count).add_(tt::ones({3}, tt::f32, tt::cpu));
    if (fails) tt::fail("TT-TEST-01", "on purpose");
    return Tensors{x[0].detach() + count};
  };
  const auto rehearsed = tt::capture<tt::Rehearsal>(f, {zeros_of(2, 3)});
  CHECK(rehearsed.graph.written.size() == 1);
  CHECK(count.to_vector() == std::vector<float>{5, 5, 5});
  fails = true;
  CHECK(errors::thrown_by([&] { tt::capture<tt::Rehearsal>(f, {zeros_of(2, 3)}); }).code == "TT-TEST-01");
  CHECK(count.to_vector() == std::vector<float>{5, 5, 5});
}

TEST_CASE("elements cannot be read in a rehearsal, and observers of the thread see nothing of it") {
  const tt::TensorFunction reads = [](const Tensors& x) { return Tensors{x[0] * x[0].sum().item()}; };
  CHECK(errors::thrown_by([&] { tt::capture<tt::Rehearsal>(reads, {zeros_of(2, 3)}); }).code ==
        "TT-COMPILE-03");
  struct Counter final : tt::OpObserver {
    int ops = 0;
    void after(const tt::PrimitiveBase&, const Tensors&, const Tensors&, tt::Cost) override { ++ops; }
  } counter;
  const tt::Observing observing(counter);
  tt::capture<tt::Rehearsal>([](const Tensors& x) { return Tensors{x[0] + 1}; }, {zeros_of(2, 3)});
  CHECK(counter.ops == 0);
}
