// What a matrix product does with its sums when they are complete and still in the cache: bias, activation, scales.
#pragma once

#include <cstdint>
#include <tinytorch/core/config.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// Is called for rows [i, i + rows) and columns [j, j + cols) of C, each element once, by the thread that formed them. A
// reference to a function object that outlives the product, not a copy: it costs one indirect call for a block.
class Finish {
 public:
  Finish() = default;
  template <class F>
  explicit Finish(const F& f)
      : call_([](const void* self, int64_t i, int64_t rows, int64_t j, int64_t cols) {
          (*static_cast<const F*>(self))(i, rows, j, cols);
        }),
        self_(&f) {}
  void operator()(int64_t i, int64_t rows, int64_t j, int64_t cols) const {
    if (call_) call_(self_, i, rows, j, cols);
  }

 private:
  void (*call_)(const void* self, int64_t i, int64_t rows, int64_t j, int64_t cols) = nullptr;
  const void* self_ = nullptr;
};

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
