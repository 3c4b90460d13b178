// The umbrella header of acceleration/ is enough to compile a function.
#include <doctest/doctest.h>

#include <tinytorch/acceleration/acceleration.hpp>

TEST_CASE("with acceleration.hpp alone a function is compiled, and replayed for other numbers") {
  namespace tt = tinytorch;
  const auto twice_plus_one = [](const tt::Tensor& x) { return x * 2 + 1; };
  auto f = tt::compile(twice_plus_one);
  for (const double from : {0.0, 5.0}) {
    const tt::Tensor x = tt::arange(from, from + 7, 1, tt::f32, tt::cpu);
    CHECK(f(x).to_vector<float>() == twice_plus_one(x).to_vector<float>());
  }
}
