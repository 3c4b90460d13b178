// Asynchronous copies (cp.async) from global to shared memory, which overlap with computation. They need
// compute capability 8.0; earlier devices copy synchronously.
//
//   copy_async(shared, global, inside);  commit_copies();  ...
//   wait_for_copies<1>();  // all copy groups but the newest are complete
#pragma once

#include <tinytorch/backend/cuda/device/kernel.cuh>
#if TINYTORCH_CUDA_SIM
#include <tinytorch/backend/cuda/sim/async_copies.hpp>
#endif

namespace tinytorch::inline TT_BUILD::backend::cuda {

// Converts a pointer to a 32-bit address in shared memory, as PTX instructions need it.
__device__ __forceinline__ unsigned shared_address(const void* p) {
#if TINYTORCH_CUDA_SIM
  return static_cast<unsigned>(static_cast<const unsigned char*>(p) - dynamic_shared<unsigned char>());
#else
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
#endif
}
// The pointer to such an address.
__device__ __forceinline__ unsigned char* shared_pointer([[maybe_unused]] unsigned address) {
#if TINYTORCH_CUDA_SIM
  return dynamic_shared<unsigned char>() + address;
#elif defined(__CUDA_ARCH__)
  return static_cast<unsigned char*>(__cvta_shared_to_generic(address));
#else
  return nullptr;
#endif
}

// Copies 16 bytes to shared memory, or writes zeros if `inside` is false. Both addresses are aligned to 16
// bytes. The emulator copies at once, or when the thread waits (sim/async_copies.hpp).
__device__ __forceinline__ void copy_async(unsigned shared, const void* global, bool inside) {
#if TINYTORCH_CUDA_SIM
  if (sim::delays_copies()) return sim::add_copy(shared, inside ? global : nullptr);
  *reinterpret_cast<uint4*>(shared_pointer(shared)) = inside ? *static_cast<const uint4*>(global) : uint4{};
#elif __CUDA_ARCH__ >= 800
  const int bytes = inside ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(bytes)
               : "memory");
#elif defined(__CUDA_ARCH__)
  uint4 x{};
  if (inside) x = *static_cast<const uint4*>(global);
  *static_cast<uint4*>(__cvta_shared_to_generic(shared)) = x;
#endif
}
// Copies a word of 4 or 8 bytes in the same way.
template <class Word>
__device__ __forceinline__ void copy_async_word(unsigned shared, const void* global, bool inside) {
  static_assert(sizeof(Word) == 4 || sizeof(Word) == 8);
#if TINYTORCH_CUDA_SIM
  *reinterpret_cast<Word*>(shared_pointer(shared)) = inside ? *static_cast<const Word*>(global) : Word{};
#elif __CUDA_ARCH__ >= 800
  const int bytes = inside ? static_cast<int>(sizeof(Word)) : 0;
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared), "l"(global), "n"(sizeof(Word)),
               "r"(bytes)
               : "memory");
#elif defined(__CUDA_ARCH__)
  *static_cast<Word*>(__cvta_shared_to_generic(shared)) = inside ? *static_cast<const Word*>(global) : Word{};
#endif
}
// Ends a group of this thread's copies.
__device__ __forceinline__ void commit_copies() {
#if TINYTORCH_CUDA_SIM
  if (sim::delays_copies()) sim::end_group();
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
// Waits until at most the kPending newest copy groups of this thread are incomplete.
template <int kPending>
__device__ __forceinline__ void wait_for_copies() {
#if TINYTORCH_CUDA_SIM
  if (!sim::delays_copies()) return;
  sim::AsyncCopy copy;
  while (sim::next_copy(kPending, &copy)) {
    *reinterpret_cast<uint4*>(shared_pointer(copy.to)) =
        copy.from ? *static_cast<const uint4*>(copy.from) : uint4{};
  }
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
