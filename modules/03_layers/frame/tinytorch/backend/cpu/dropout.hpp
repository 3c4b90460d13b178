// Dropout on the CPU: out = x / (1 - p) where a random word says keep, else 0.
//
// The frame of a course header: it has the given parts, and includes the functions of task 3.11.
#pragma once

#include <tinytorch/backend/view.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// out and x of one shape and floating dtype; 0 <= p <= 1.
TT_API void dropout(const View& out, const View& x, double p, uint64_t seed, uint64_t first_block);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(BACKEND) || defined(TINYTORCH_TASK)
#include <tinytorch/backend/cpu/loops/contiguous.hpp>
#include <tinytorch/core/random.hpp>

#include <tasks/backend/cpu/dropout.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

TT_API void dropout(const View& out, const View& x, double p, uint64_t seed, uint64_t first_block) {
  dispatch_floating(x.dtype, [&]<class T>(T*) {
    const DenseInput<T> in(x);
    DenseOutput<T> to(out);
    dropout_values(to.data(), in.data(), x.numel(), p, seed, first_block);
    to.write_back();
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
