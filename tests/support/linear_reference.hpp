// The gradients of a linear layer's weight and bias by their definition: the oracle of every backend's kernel.
#pragma once

#include <support/array.hpp>
#include <vector>

namespace test {

// kernel(dweight [N, K], dbias [N], dy [M, N], x [M, K]). A: Array or DeviceArray.
template <class A, class Kernel>
void check_linear_grad_weight(Kernel&& kernel) {
  for (const DType dtype : kFloating) {
    for (const int64_t N : {4, 24}) {
      for (const Layout layout : {Layout::dense, Layout::gaps}) {
        A dy = A::random(dtype, {40, N}, 1, -1, 1, layout), x = A::random(dtype, {40, 16}, 2, -1, 1),
          dw(dtype, {N, 16}), db(dtype, {N});
        kernel(dw.view(), db.view(), dy.view(), x.view());
        const std::vector<double> g = dy.values(), xs = x.values();
        const auto columns = static_cast<size_t>(N);
        std::vector<double> want_w(columns * 16), want_b(columns);
        for (size_t i = 0; i < g.size(); ++i) {
          want_b[i % columns] += g[i];
          for (size_t k = 0; k < 16; ++k) want_w[i % columns * 16 + k] += g[i] * xs[i / columns * 16 + k];
        }
        check_close(dw.values(), want_w, dtype, 60);
        check_close(db.values(), want_b, dtype, 60);
      }
    }
  }
}

}  // namespace test
