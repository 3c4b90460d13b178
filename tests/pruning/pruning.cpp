// The umbrella header of pruning/ is enough to store a pruned matrix.
#include <doctest/doctest.h>

#include <tinytorch/pruning/pruning.hpp>

namespace tt = tinytorch;

TEST_CASE("with pruning.hpp alone a matrix of ones is stored in every format and comes back") {
  const tt::Tensor w = tt::eye(32, tt::f32, tt::cpu);
  const auto same = [&](const tt::Tensor& got) { return got.to_vector<float>() == w.to_vector<float>(); };
  CHECK(same(tt::to_bitmap(w).dense()));
  CHECK(same(tt::to_csr(w).dense()));
  CHECK(same(tt::to_bsr(w, 16).dense()));
  CHECK(same(tt::to_two_four(w).dense()));
}
