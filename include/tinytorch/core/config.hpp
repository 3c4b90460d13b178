// Build switches and every macro of the library (all TT_, all here, at most ten).
//
// One set of headers is used in two ways:
//   header-only (default)   every function is `inline`; nothing to link.
//   TINYTORCH_COMPILED      most functions are only declared here and were compiled once into
//                           a library (CMake target tinytorch::compiled), so a user's file builds in a
//                           second.
// TINYTORCH_WITH_CUDA (0 or 1) alone decides what code exists. It names an inline namespace, so objects
// built with different answers do not link instead of mixing silently.
#pragma once

#ifndef TINYTORCH_WITH_CUDA
#define TINYTORCH_WITH_CUDA 0
#endif

// 1 together with TINYTORCH_WITH_CUDA: the CUDA kernels are compiled for, and run by, the emulator in
// backend/cuda/sim/.
#ifndef TINYTORCH_CUDA_SIM
#define TINYTORCH_CUDA_SIM 0
#endif

#if TINYTORCH_CUDA_SIM
#define TT_BUILD with_cuda_sim
#elif TINYTORCH_WITH_CUDA
#define TT_BUILD with_cuda
#else
#define TT_BUILD cpu_only
#endif

// TT_API marks a function that the compiled library holds. TT_BODIES(part) says whether this translation unit
// sees the definitions of a part; the library's own files, one for each, define TINYTORCH_IMPLEMENT_<part>
// as 1.
//   PRODUCTS   matrix products, convolutions and attention of backend/cpu
//   BACKEND    all its other kernels
//   TENSOR     tensor, autograd
//   LAYERS     layers, and the formats they save in
#ifdef TINYTORCH_COMPILED
#ifdef TINYTORCH_REPLACEABLE  // a task's own functions, linked beside the compiled library, win over the
                              // library's
#define TT_API __attribute__((weak))
#else
#define TT_API
#endif
#define TT_BODIES(part) TINYTORCH_IMPLEMENT_##part
#else
#define TT_API inline
#define TT_BODIES(part) 1
#endif

#ifdef __CUDACC__
#define TT_HOST_DEVICE __host__ __device__
#else
#define TT_HOST_DEVICE
#endif

// Tells g++ that loop iterations are independent; clang checks that at run time and needs no telling.
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__)
#define TT_SIMD _Pragma("GCC ivdep")
#else
#define TT_SIMD
#endif

// Unrolls a loop of constant length completely: register tiles must not become arrays in memory.
#if defined(__CUDACC__)
#define TT_UNROLL
#elif defined(__clang__)
#define TT_UNROLL _Pragma("unroll")
#else
#define TT_UNROLL _Pragma("GCC unroll 16")
#endif

// Whether a b + c is one instruction, which rounds once.
#if defined(__FMA__) || defined(__CUDA_ARCH__) || defined(__ARM_FEATURE_FMA)
#define TT_FMA 1
#else
#define TT_FMA 0
#endif

// Whether AddressSanitizer watches this build; g++ and clang say so differently.
#if defined(__SANITIZE_ADDRESS__)
#define TT_ASAN 1
#elif defined(__has_feature)
#define TT_ASAN __has_feature(address_sanitizer)
#else
#define TT_ASAN 0
#endif

// Last parameter of every public function: the caller's file and line, for error messages.
#define TT_LOC ::tinytorch::Loc loc = ::tinytorch::Loc::current()

// Calls a kernel of the backend that holds `tensor`: TT_KERNEL(x, relu(x.view_of())) is backend::cpu::relu or
// backend::cuda::relu. A build without CUDA has no CUDA tensors, and must not name what it cannot link.
#define TT_KERNEL(tensor, ...)                  \
  do {                                          \
    if ((tensor).device().is_cpu()) {           \
      ::tinytorch::backend::cpu::__VA_ARGS__;   \
    } else if constexpr (TINYTORCH_WITH_CUDA) { \
      ::tinytorch::backend::cuda::__VA_ARGS__;  \
    }                                           \
  } while (false)

#define TINYTORCH_VERSION "0.1.0"
