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

TEST_CASE(
    "a batch size is dimension 0 of some arguments, of one size in each call, and nothing else differs") {
  namespace tt = tinytorch;
  const auto keys = [](const tt::Tensors& t) { return tt::keys_of(t); };
  const tt::Tensor w = tt::ones({4, 4}), a = tt::ones({4, 3}), b = tt::ones({7, 3}), c = tt::ones({7});
  const auto follows = [](std::vector<bool> flags) { return std::optional(std::move(flags)); };
  CHECK(tt::differ_in_batch(keys({a, w}), keys({b, w})) == follows({true, false}));
  CHECK(tt::differ_in_batch(keys({a, tt::ones({4})}), keys({b, c})) == follows({true, true}));
  CHECK(!tt::differ_in_batch(keys({a, tt::ones({5})}), keys({b, c})));        // two sizes in one call
  CHECK(!tt::differ_in_batch(keys({a}), keys({a})));                          // no difference
  CHECK(!tt::differ_in_batch(keys({a}), keys({a, a})));                       // another number
  CHECK(!tt::differ_in_batch(keys({a}), keys({tt::ones({7, 3}, tt::f64)})));  // another dtype
  CHECK(!tt::differ_in_batch(keys({a}), keys({tt::ones({4, 5})})));           // another dimension
  CHECK(!tt::differ_in_batch(keys({a}), keys({tt::ones({3, 7}).t()})));       // other strides
  CHECK(!tt::differ_in_batch(keys({a}), keys({tt::ones({7, 3, 1})})));        // another rank
  CHECK(!tt::differ_in_batch(keys({a}), keys({tt::ones({7, 3}).requires_grad_()})));
}

TEST_CASE("the first failed guard is named with both values") {
  namespace tt = tinytorch;
  const auto keys = tt::keys_of({tt::ones({2, 3}), tt::ones({2})});
  const auto failed = [&](const tt::Tensor& x) {
    return tt::first_failed_guard(keys, {tt::ones({2, 3}), x});
  };
  CHECK(failed(tt::ones({4})) == "argument 1: shape [4], captured with [2]");
  CHECK(failed(tt::ones({2}, tt::f64)) == "argument 1: dtype f64, captured with f32");
  CHECK(failed(tt::ones({2, 2}).select(1, 0)) == "argument 1: strides [2], captured with [1]");
  CHECK(failed(tt::ones({2}).requires_grad_()) == "argument 1: need of a gradient yes, captured with no");
  CHECK(tt::first_failed_guard(keys, {}) == "number of arguments");
  CHECK(failed(tt::ones({2})) == "grad_enabled()");
}
