// Build switches, and the library's macros: these ten TT_ macros and the version. The CUDA emulator in
// backend/cuda/sim/ defines a few more for itself: TT_SIM_*, and CUDA's keywords such as __global__.
//
// The headers can be used in two ways:
//   header-only (default)   every function is `inline`; there is nothing to link.
//   TINYTORCH_COMPILED      most functions are only declared; their definitions were compiled once into a
//                           library (CMake target tinytorch::compiled), so a user's file builds in a second.
// TINYTORCH_WITH_CUDA and TINYTORCH_CUDA_SIM (0 or 1) decide which code exists. They select the name of an
// inline namespace, so object files that were built with different values do not link.
#pragma once

#ifndef TINYTORCH_WITH_CUDA
#define TINYTORCH_WITH_CUDA 0
#endif

// 1, together with TINYTORCH_WITH_CUDA=1: the CUDA kernels are compiled for the emulator in
// backend/cuda/sim/ and run on the CPU.
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

// TT_API marks a function whose definition is in the compiled library. TT_BODIES(part) is 1 in a translation
// unit that must see the definitions of a part. Each source file of the library defines one
// TINYTORCH_IMPLEMENT_<part> as 1:
//   PRODUCTS   matrix products, convolutions and attention of backend/cpu
//   BACKEND    all other kernels of backend/cpu
//   TENSOR     tensor/ and autograd/, without linalg
//   LINALG     tensor/ops/linalg.hpp, whose factorizations by Eigen compile longer than all of TENSOR
//   LAYERS     layers, and the file formats that they are saved in
// TINYTORCH_REPLACEABLE makes these functions weak symbols, so that a student's functions that are linked
// beside the compiled library replace the library's.
#ifdef TINYTORCH_COMPILED
#ifdef TINYTORCH_REPLACEABLE
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

// Tells g++ that the iterations of a loop are independent; clang checks this at run time.
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__)
#define TT_SIMD _Pragma("GCC ivdep")
#else
#define TT_SIMD
#endif

// Unrolls a loop of constant length completely, so that the compiler keeps register tiles in registers.
#if defined(__CUDACC__)
#define TT_UNROLL
#elif defined(__clang__)
#define TT_UNROLL _Pragma("unroll")
#else
#define TT_UNROLL _Pragma("GCC unroll 16")
#endif

// 1 if a b + c compiles to one instruction, which rounds once.
#if defined(__FMA__) || defined(__CUDA_ARCH__) || defined(__ARM_FEATURE_FMA)
#define TT_FMA 1
#else
#define TT_FMA 0
#endif

// 1 if this build uses AddressSanitizer; g++ and clang announce it differently.
#if defined(__SANITIZE_ADDRESS__)
#define TT_ASAN 1
#elif defined(__has_feature)
#define TT_ASAN __has_feature(address_sanitizer)
#else
#define TT_ASAN 0
#endif

// Last parameter of a public function that can throw: the caller's file and line, for the error message.
#define TT_LOC ::tinytorch::Loc loc = ::tinytorch::Loc::current()

// Calls a kernel of the backend that holds `tensor`: TT_KERNEL(x, relu(x.view_of())) calls backend::cpu::relu
// or backend::cuda::relu. A build without CUDA has no CUDA tensors, and must not refer to functions that it
// cannot link.
#define TT_KERNEL(tensor, ...)                  \
  do {                                          \
    if ((tensor).device().is_cpu()) {           \
      ::tinytorch::backend::cpu::__VA_ARGS__;   \
    } else if constexpr (TINYTORCH_WITH_CUDA) { \
      ::tinytorch::backend::cuda::__VA_ARGS__;  \
    }                                           \
  } while (false)

#define TINYTORCH_VERSION "0.1.0"
