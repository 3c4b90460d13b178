// oneDNN's GEMM functions, loaded at run time by dlopen.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <tinytorch/core/dtype.hpp>

namespace bench {

class OneDnn {
 public:
  explicit OneDnn(const std::string& library) {
    void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) throw std::runtime_error(std::string("oneDNN cannot be loaded: ") + dlerror());
    u8s8_ = reinterpret_cast<Gemm<uint8_t>>(dlsym(handle, "dnnl_gemm_u8s8s32"));
    s8s8_ = reinterpret_cast<Gemm<int8_t>>(dlsym(handle, "dnnl_gemm_s8s8s32"));
    bf16_ = reinterpret_cast<GemmBf16>(dlsym(handle, "dnnl_gemm_bf16bf16f32"));
    if (!u8s8_ || !s8s8_ || !bf16_)
      throw std::runtime_error(
          "this oneDNN has no GEMM functions for int8 or bf16; Debian's libdnnl has them");
  }

  // True if oneDNN supports bf16 on this processor, which needs AVX-512.
  bool has_bf16() const {
    const tinytorch::BFloat16 one(1.0f);
    float out = 0;
    return bf16_('N', 'N', 1, 1, 1, 1.0f, &one, 1, &one, 1, 0.0f, &out, 1) == 0;
  }

  // c [M, N] = a [M, K] op(b), all row-major; b is stored as [K, N], or as [N, K] if b_transposed.
  void gemm(bool b_transposed, int64_t M, int64_t N, int64_t K, const uint8_t* a, const int8_t* b,
            int32_t* c) const {
    const int32_t offset = 0;
    check(u8s8_('N', b_transposed ? 'T' : 'N', 'F', M, N, K, 1.0f, a, K, 0, b, b_transposed ? K : N, 0, 0.0f,
                c, N, &offset));
  }
  void gemm(bool b_transposed, int64_t M, int64_t N, int64_t K, const int8_t* a, const int8_t* b,
            int32_t* c) const {
    const int32_t offset = 0;
    check(s8s8_('N', b_transposed ? 'T' : 'N', 'F', M, N, K, 1.0f, a, K, 0, b, b_transposed ? K : N, 0, 0.0f,
                c, N, &offset));
  }
  void gemm(bool b_transposed, int64_t M, int64_t N, int64_t K, const tinytorch::BFloat16* a,
            const tinytorch::BFloat16* b, float* c) const {
    check(bf16_('N', b_transposed ? 'T' : 'N', M, N, K, 1.0f, a, K, b, b_transposed ? K : N, 0.0f, c, N));
  }

 private:
  template <class A>
  using Gemm = int (*)(char, char, char, int64_t, int64_t, int64_t, float, const A*, int64_t, A,
                       const int8_t*, int64_t, int8_t, float, int32_t*, int64_t, const int32_t*);
  using GemmBf16 = int (*)(char, char, int64_t, int64_t, int64_t, float, const tinytorch::BFloat16*, int64_t,
                           const tinytorch::BFloat16*, int64_t, float, float*, int64_t);
  static void check(int status) {
    if (status != 0)
      throw std::runtime_error("a GEMM of oneDNN failed with status " + std::to_string(status));
  }
  Gemm<uint8_t> u8s8_ = nullptr;
  Gemm<int8_t> s8s8_ = nullptr;
  GemmBf16 bf16_ = nullptr;
};

}  // namespace bench
