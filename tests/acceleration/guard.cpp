// Guards: each property of an argument that a graph depends on.
#include <doctest/doctest.h>

#include <tinytorch/acceleration/guard.hpp>
#include <tinytorch/tensor/ops.hpp>

TEST_CASE("arguments match only if every property is equal; elements do not matter") {
  namespace tt = tinytorch;
  const tt::Tensor x = tt::ones({2, 3});
  const auto keys = tt::keys_of({x});
  CHECK(tt::matches(keys, {tt::Tensor(tt::zeros({2, 3}))}));
  CHECK(!tt::matches(keys, {x, x}));
  CHECK(!tt::matches(keys, {tt::Tensor(tt::ones({3, 2}))}));
  CHECK(!tt::matches(keys, {tt::ones({3, 2}).t()}));
  CHECK(!tt::matches(keys, {tt::Tensor(tt::ones({2, 3}, tt::f64))}));
  CHECK(!tt::matches(keys, {tt::ones({2, 3}).requires_grad_()}));
  CHECK(tt::described({x, x}).find(", ") != std::string::npos);
}
