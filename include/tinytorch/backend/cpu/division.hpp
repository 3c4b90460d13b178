// floor_divide, remainder and fmod on the CPU, for every number dtype and layout.
#pragma once

#include <tinytorch/backend/division.hpp>
#include <tinytorch/backend/view.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// out = fn(a, b), all of one dtype; a and b broadcast to out (contract: elementwise.hpp). An integer b has no
// zeros.
TT_API void division(Division fn, const View& out, const View& a, const View& b);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(BACKEND)
#include <tinytorch/backend/cpu/loops/row_walk.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

template <Division fn, class T>
void division_kernel(T* out, const T* const* in, int64_t n, const double*) {
  for (int64_t i = 0; i < n; ++i) out[i] = division_value<fn, T>(in[0][i], in[1][i]);
}

TT_API void division(Division fn, const View& out, const View& a, const View& b) {
  dispatch_compute(out.dtype, [&]<class T>(T*) {
    constexpr Kernel<T> kKernels[] = {division_kernel<Division::floor, T>,
                                      division_kernel<Division::remainder, T>,
                                      division_kernel<Division::fmod, T>};
    run_elementwise<T>(kKernels[static_cast<int>(fn)], out, {a, b}, nullptr);
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
