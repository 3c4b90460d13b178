#include <support/array.hpp>

#include <random>
#include <tinytorch/backend/cpu/true_positions.hpp>

using namespace test;

TEST_CASE("positions of true elements are complete and increase, for every share and size") {
  std::mt19937 random(4);
  for (const int64_t n : {0, 1, 2, 1023, 1024, 1025, 32'768, 32'769, 300'001}) {
    for (const double share : {0.0, 0.01, 0.5, 1.0}) {
      Array mask(boolean, {n});
      std::vector<int64_t> want;
      std::bernoulli_distribution set(share);
      const tinytorch::backend::View view = mask.view();
      for (int64_t i = 0; i < n; ++i) {
        view.as<bool>()[i] = set(random);
        if (view.as<bool>()[i]) want.push_back(i);
      }
      CHECK(tinytorch::backend::cpu::true_positions(view) == want);
    }
  }
}
