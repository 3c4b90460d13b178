// Softmax and layer norm of rows, and GELU, with Eigen's arrays. The library's threads share the rows. The
// case "Eigen NAME" does the work of the case NAME in op_cases.hpp.
#pragma once

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // false alarm of g++ 12 in its AVX-512 header
#include <Eigen/Core>
#include <unsupported/Eigen/SpecialFunctions>
#pragma GCC diagnostic pop
#include <common/op_cases.hpp>
#include <tinytorch/core/parallel.hpp>

namespace bench {

using EigenRow = Eigen::Map<Eigen::Array<float, 1, Eigen::Dynamic>>;

// Calls f(row of x, row of y) for every row of x [rows, cols] and of a new tensor y with the shape of x.
template <class F>
Tensor by_rows(const Tensor& x, int64_t rows, int64_t cols, F f) {
  Tensor y = tt::empty(x.shape());
  tt::parallel_for(rows, std::max<int64_t>(1, 8192 / cols), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      EigenRow from(x.data<float>() + r * cols, cols), to(y.data<float>() + r * cols, cols);
      f(from, to);
    }
  });
  return y;
}

template <class F>
Case eigen_case(const char* name, F f) {
  return {.name = name, .prepare = [f](const Inputs& in) -> Work { return [f, &in] { (void)f(in); }; }};
}

inline std::vector<Case> eigen_cases() {
  return {eigen_case("Eigen softmax",
                     [](const Inputs& in) {
                       return by_rows(in["m"], in.rows, in.cols, [](const EigenRow& x, EigenRow& y) {
                         y = (x - x.maxCoeff()).exp();
                         y *= 1 / y.sum();
                       });
                     }),
          eigen_case("Eigen gelu",
                     [](const Inputs& in) {
                       return by_rows(in["x"], in.rows, in.cols, [](const EigenRow& x, EigenRow& y) {
                         y = 0.5f * x * (1 + (x * 0.70710678f).erf());
                       });
                     }),
          eigen_case("Eigen layer_norm", [](const Inputs& in) {
            EigenRow weight(in["row"].data<float>(), in.cols);
            return by_rows(in["m"], in.rows, in.cols, [weight](const EigenRow& x, EigenRow& y) {
              const float mean = x.mean();
              y = x - mean;
              const float scale = 1 / std::sqrt(y.square().mean() + 1e-5f);
              y = y * scale * weight + weight;
            });
          })};
}

}  // namespace bench
