// Sum of a matrix over its rows, the gradient of a bias: a reduction of the first dimension.
#pragma once

#include <tinytorch/backend/cuda/kernels/reduce.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

void column_sums(const View& out, const View& x) {
  const bool rows[] = {true, false};
  reduce(ReduceFn::sum, out, x, rows);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
