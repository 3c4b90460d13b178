// What the rest of the library knows of CUDA: plain C++ declarations of kernel launchers, and an opaque
// stream.
//
// Launchers mirror backend/cpu one for one (same stems, same Views) and take the stream last. They are
// declared here and defined by cuda_impl.cuh, which exactly one .cu file includes; so everything above
// compiles with any C++ compiler. This version has no launchers: every op on a CUDA tensor throws
// BuiltWithoutCuda (core/error.hpp).
#pragma once

#include <tinytorch/backend/view.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// A cudaStream_t in disguise; null is the default stream.
struct StreamHandle;
using Stream = StreamHandle*;

// Whether this program can run kernels on a GPU.
constexpr bool is_built() { return TINYTORCH_WITH_CUDA != 0; }

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
