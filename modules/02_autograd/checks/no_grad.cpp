#include <support/check.hpp>
#include <thread>
#include <tinytorch/autograd/grad_mode.hpp>
#include <tinytorch/tensor/operators.hpp>

using namespace course;

namespace {

Tensor leaf() { return from_data({1.0, 2.0}).requires_grad_(); }

}  // namespace

TEST_CASE("2.5 inside the scope nothing is recorded, after it everything is") {
  const Tensor x = leaf();
  expect("before the scope: x * 2 requires grad", (x * 2).requires_grad());
  {
    const NoGrad guard;
    expect_equal("inside { NoGrad guard; }: grad_enabled()", grad_enabled(), false);
    const Tensor y = x * 2;
    expect("inside { NoGrad guard; }: x * 2 does not require grad", !y.requires_grad());
    expect_equal("inside { NoGrad guard; }: the values of {1, 2} * 2", y.to_vector<double>(), Numbers{2, 4});
    expect("inside { NoGrad guard; }: x itself still requires grad", x.requires_grad());
  }
  expect_equal("after { NoGrad guard; }: grad_enabled()", grad_enabled(), true);
  expect("after { NoGrad guard; }: x * 2 requires grad", (x * 2).requires_grad());
}

TEST_CASE("2.5 nested scopes: the end of the inner scope does not end the outer one") {
  const NoGrad outer;
  {
    const NoGrad inner;
    expect_equal("in the inner of two scopes: grad_enabled()", grad_enabled(), false);
  }
  expect_equal("after the inner of two scopes: grad_enabled()", grad_enabled(), false);
}

TEST_CASE("2.5 an exception ends the scope") {
  try {
    const NoGrad guard;
    throw std::runtime_error("out");
  } catch (const std::runtime_error&) {
  }
  expect_equal("after a scope that an exception left: grad_enabled()", grad_enabled(), true);
}

TEST_CASE("2.5 a scope has no effect on other threads") {
  const NoGrad guard;
  bool other = false;
  std::thread([&] { other = grad_enabled(); }).join();
  expect_equal("grad_enabled() in another thread, while this one is in a scope", other, true);
}

TEST_CASE("2.5 a weight may be changed in place inside the scope") {
  Tensor w = leaf();
  expect_throws("TT-GRAD-04", "w.add_(step) outside the scope: autograd would lose track",
                [&] { w.add_(w.detach(), -0.5); });
  {
    const NoGrad guard;
    w.add_(w.detach(), -0.5);
  }
  expect_equal("w = {1, 2} after { NoGrad guard; w.add_(w.detach(), -0.5); }", w.to_vector<double>(),
               Numbers{0.5, 1});
  expect("and w still is a leaf that requires grad", w.is_leaf() && w.requires_grad());
}
