// NoGrad: nested scopes, exceptions, threads.
#include <doctest/doctest.h>

#include <stdexcept>
#include <thread>
#include <tinytorch/autograd/grad_mode.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

TEST_CASE("operations are not recorded inside the scope, and recorded after it") {
  tt::Tensor x = tt::ones({2});
  x.requires_grad_();
  {
    const tt::NoGrad outer;
    CHECK_FALSE(tt::grad_enabled());
    CHECK_FALSE((x * 2).requires_grad());
    {
      const tt::NoGrad inner;
      CHECK_FALSE((x * 2).requires_grad());
    }
    CHECK_FALSE((x * 2).requires_grad());
  }
  CHECK(tt::grad_enabled());
  CHECK((x * 2).requires_grad());
}

TEST_CASE("no_grad returns what its function returns") {
  tt::Tensor x = tt::ones({2});
  x.requires_grad_();
  const tt::Tensor y = tt::no_grad([&] { return x * 3; });
  CHECK_FALSE(y.requires_grad());
  CHECK(y.to_vector() == std::vector<float>{3, 3});
  CHECK(tt::no_grad([] { return 5; }) == 5);
}

TEST_CASE("an exception ends the scope") {
  CHECK_THROWS_AS(tt::no_grad([]() -> int { throw std::runtime_error("out"); }), std::runtime_error);
  CHECK(tt::grad_enabled());
}

TEST_CASE("the mode is per thread") {
  const tt::NoGrad guard;
  bool other = false;
  std::thread([&] { other = tt::grad_enabled(); }).join();
  CHECK(other);
}
