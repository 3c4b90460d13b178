// A product as a work of the steps of this module.
#pragma once

#include <support/speed.hpp>
#include <tinytorch/backend/cuda/kernels/ladder/steps.hpp>

namespace course {

template <class F>
Work ladder_work(DType dtype, int64_t M, int64_t N, int64_t K, F gemm) {
  const Held a = random(dtype, {M, K}), b = random(dtype, {K, N}), out = empty(f32, {M, N});
  return {std::string("product of ") + name_of(dtype) + " " + a->shape().str() + " and " + b->shape().str(),
          static_cast<double>((M * K + K * N) * static_cast<int64_t>(size_of(dtype)) + 4 * M * N),
          2.0 * static_cast<double>(M * N * K), [=] { gemm(out->view(), a->view(), b->view()); }};
}

}  // namespace course
