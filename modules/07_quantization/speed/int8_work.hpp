// Products of 8-bit codes, x [M, K] w [N, K]^T, with exact sums as their result.
#pragma once

#include <support/speed.hpp>
#include <tinytorch/backend/cuda/launch.hpp>

namespace course {

inline Work int8_product(int64_t M, int64_t N, int64_t K) {
  const Held x = random(i8, {M, K}, -127, 127), w = random(i8, {N, K}, -127, 127), out = empty(i32, {M, N});
  const double codes = static_cast<double>(N * K + M * K), sums = 4 * static_cast<double>(M * N);
  const std::string shape = std::to_string(M) + " x " + std::to_string(N) + " sums of " + std::to_string(K);
  return {shape, codes + sums, sums / 2 * static_cast<double>(K), [=] {
            backend::cuda::linear_int8(out->view(), x->view(), w->view(), {}, {}, {},
                                       backend::Activation::none);
          }};
}

}  // namespace course
