// Tests that the changes of a trial run are undone: tensors that were written, and the numbers that were
// drawn.
#include <doctest/doctest.h>

#include <tinytorch/acceleration/undo.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace tt = tinytorch;

TEST_CASE("written tensors get back what they had, and parameters stay leaves") {
  const tt::Tensor a = tt::randn({2, 3}), p = tt::randn({4}).requires_grad_();
  const std::vector<double> first = a.to_vector<double>(), second = p.to_vector<double>();
  const std::vector<tt::WrittenTensor> written{{a, a.clone()}, {p, p.detach().clone()}};
  {
    const tt::NoGrad guard;
    tt::Tensor(a).fill_(7);
    tt::Tensor(p).fill_(8);
  }
  tt::restore(written);
  CHECK(a.to_vector<double>() == first);
  CHECK(p.to_vector<double>() == second);
  CHECK(p.is_leaf());
  CHECK(p.requires_grad());
}

TEST_CASE("a run that is not kept has drawn no random numbers, and a kept one has") {
  for (const bool kept : {false, true}) {
    tt::manual_seed(5);
    const std::vector<double> want = tt::randn({6}).to_vector<double>();
    tt::manual_seed(5);
    {
      tt::GeneratorUse use;
      (void)tt::randn({6});
      if (kept) use.keep();
    }
    CHECK((tt::randn({6}).to_vector<double>() == want) == !kept);
  }
}
