// CompiledCall: one operation for profilers and for autograd.
#include <doctest/doctest.h>

#include <tinytorch/acceleration/compiled.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace {
namespace tt = tinytorch;
using tt::Tensor;
using tt::Tensors;

struct Names : tt::OpObserver {
  std::vector<std::string> names;
  double flops = 0;
  void after(const tt::PrimitiveBase& op, const Tensors&, const Tensors&, tt::Cost cost) override {
    names.push_back(op.name());
    flops += cost.flops;
  }
};
}  // namespace

TEST_CASE("an observer sees one operation with the work of all parts") {
  const auto f = [](const Tensor& x) { return tt::exp(x) * 2 + x; };
  auto compiled = tt::compile(f, {.kernels = tt::RegionKernels::interpreted, .strict = true});
  const tt::NoGrad guard;
  const Tensor x = tt::randn({10});
  for (int k = 0; k < 3; ++k) compiled(x);
  Names once, eager;
  {
    const tt::Observing observing(once);
    compiled(x);
  }
  {
    const tt::Observing observing(eager);
    f(x);
  }
  CHECK(once.names == std::vector<std::string>{"compiled"});
  CHECK(eager.names.size() == 3);
  CHECK(once.flops == eager.flops);
}

TEST_CASE("a parameter that changes between the passes is an error if the derivative needs it") {
  Tensor w = tt::ones({3}).requires_grad_(), b = tt::ones({3}).requires_grad_();
  auto f = tt::compile([&](const Tensor& x) { return (tt::exp(x) * w + b).sum(); },
                       {.kernels = tt::RegionKernels::interpreted, .strict = true});
  for (int k = 0; k < 4; ++k) {
    Tensor x = tt::ones({3}).requires_grad_();
    const Tensor loss = f(x);
    {
      const tt::NoGrad guard;
      (k % 2 ? w : b).add_(tt::ones({3}));
    }
    if (k % 2) {
      CHECK_THROWS_AS(loss.backward(), tt::Error);
    } else {
      loss.backward();
    }
  }
}
