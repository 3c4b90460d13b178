// One matrix product by cuBLASLt: descriptors, choice of an algorithm, run. The library's heuristic chooses
// the algorithm; it is called once per shape and its choice is cached.
// Source: NVIDIA, "cuBLAS Library", cuBLASLt.
#pragma once

#include <algorithm>
#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/launch.hpp>
#if !TINYTORCH_CUDA_SIM
#include <cublasLt.h>

#include <array>
#include <map>
#include <mutex>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline void check_blas(cublasStatus_t status, const char* what, TT_LOC) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  fail("TT-CUDA-06", std::string(what) + ": " + cublasLtGetStatusString(status), loc);
}

// The cuBLASLt handle of a device, created at first use. It is never destroyed, because CUDA may be gone
// when the program exits.
inline cublasLtHandle_t blas_handle() {
  static std::mutex mutex;
  static std::map<int, cublasLtHandle_t> handles;
  const std::lock_guard lock(mutex);
  cublasLtHandle_t& handle = handles[current_device()];
  if (!handle) check_blas(cublasLtCreate(&handle), "starting cuBLASLt");
  return handle;
}

// Largest power of two up to 256 that divides the address.
inline uint32_t alignment_of(const void* data) {
  const auto address = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(data) & 255u);
  return address == 0 ? 256u : address & (~address + 1u);
}

// A matrix for cuBLASLt: column-major [rows, cols] with leading dimension ld.
struct BlasMatrix {
  const void* data = nullptr;
  DType dtype = DType::f32;
  bool transposed = false;  // the operand is the transpose of the stored matrix
  int64_t rows = 0, cols = 0, ld = 0, batch_stride = 0;
  uint32_t alignment() const { return alignment_of(data); }
};

// u8 stands for fp8 e4m3.
inline cudaDataType_t blas_type(DType t) {
  if (t == DType::f64) return CUDA_R_64F;
  if (t == DType::i8) return CUDA_R_8I;
  if (t == DType::i32) return CUDA_R_32I;
  if (t == DType::u8) return CUDA_R_8F_E4M3;
  if (t == DType::bf16) return CUDA_R_16BF;
  return t == DType::f16 ? CUDA_R_16F : CUDA_R_32F;
}

// d = op(a) op(b) + c, all column-major. Without data c is zero or, with `accumulate`, d itself.
struct BlasProduct {
  BlasMatrix a, b, d, c{};
  int64_t M = 0, N = 0, K = 0, batches = 1;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  void* z = nullptr;
  int64_t z_ld = 0;
  bool accumulate = false;
  // The scales of fp8 operands, f32 in device memory: one factor for each operand, or one for each row of
  // op(a) and each column of op(b).
  const void *a_scale = nullptr, *b_scale = nullptr;
  bool scales_of_lines = false;
};

// The descriptors of one product, and functions that choose an algorithm and run it.
class BlasPlan {
 public:
  explicit BlasPlan(const BlasProduct& p) : product_(p) {
    const bool f64 = p.d.dtype == DType::f64, tf32 = p.a.dtype == DType::f32 && allows_tf32(),
               whole = p.a.dtype == DType::i8;
    const cudaDataType_t scale = f64 ? CUDA_R_64F : whole ? CUDA_R_32I : CUDA_R_32F;
    compute_ = f64     ? CUBLAS_COMPUTE_64F
               : whole ? CUBLAS_COMPUTE_32I
                       : (tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F);
    check_blas(cublasLtMatmulDescInit(&operation_, compute_, scale), "describing a product");
    set(CUBLASLT_MATMUL_DESC_TRANSA, p.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, p.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, p.epilogue);
    if (p.bias) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
    if (p.z) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, p.z);
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p.z_ld);
    }
    if (p.a_scale) set_scales();
    const BlasMatrix* const matrices[4] = {&p.a, &p.b, &p.d, &added()};
    for (int k = 0; k < 4; ++k) layout(layouts_[k], *matrices[k]);
  }

  // Chooses an algorithm for run(); returns false if cuBLASLt has none.
  bool find() {
    static std::mutex mutex;
    static std::map<Key, cublasLtMatmulHeuristicResult_t> known;
    const Key k = key();
    {
      const std::lock_guard lock(mutex);
      const auto at = known.find(k);
      if (at != known.end()) {
        choice_ = at->second;
        return choice_.state == CUBLAS_STATUS_SUCCESS;
      }
    }
    ask();
    const std::lock_guard lock(mutex);
    known[k] = choice_;
    return choice_.state == CUBLAS_STATUS_SUCCESS;
  }

  void run() {
    const DeviceScratch<char> workspace(static_cast<int64_t>(choice_.workspaceSize));
    const double one64 = 1, zero64 = 0;
    const float one32 = 1, zero32 = 0;
    const int32_t one_whole = 1, zero_whole = 0;
    const bool f64 = compute_ == CUBLAS_COMPUTE_64F, whole = compute_ == CUBLAS_COMPUTE_32I;
    const void* const alpha = f64     ? static_cast<const void*>(&one64)
                              : whole ? &one_whole
                                      : static_cast<const void*>(&one32);
    const void* const zero = f64     ? static_cast<const void*>(&zero64)
                             : whole ? &zero_whole
                                     : static_cast<const void*>(&zero32);
    void* const d = const_cast<void*>(product_.d.data);
    check_blas(
        cublasLtMatmul(blas_handle(), &operation_, alpha, product_.a.data, &layouts_[0], product_.b.data,
                       &layouts_[1], adds() ? alpha : zero, added().data, &layouts_[3], d, &layouts_[2],
                       &choice_.algo, workspace.data(), choice_.workspaceSize, native_stream()),
        "multiplying matrices");
    note_launch("cublasLtMatmul");
  }

 private:
  using Key = std::array<int64_t, 28>;
  static constexpr size_t kWorkspace = size_t{64} << 20;

  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    check_blas(cublasLtMatmulDescSetAttribute(&operation_, attribute, &value, sizeof(value)),
               "describing a product");
  }
  void set_scales() {
    set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, product_.a_scale);
    set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, product_.b_scale);
#if CUBLAS_VERSION >= 120900
    if (!product_.scales_of_lines) return;
    const cublasLtMatmulMatrixScale_t mode = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
    set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, mode);
    set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, mode);
#endif
  }
  void layout(cublasLtMatrixLayoutOpaque_t& out, const BlasMatrix& m) const {
    check_blas(cublasLtMatrixLayoutInit(&out, blas_type(m.dtype), static_cast<uint64_t>(m.rows),
                                        static_cast<uint64_t>(m.cols), m.ld),
               "describing a matrix");
    if (product_.batches == 1) return;
    const auto count = static_cast<int32_t>(product_.batches);
    check_blas(
        cublasLtMatrixLayoutSetAttribute(&out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof(count)),
        "describing a batch");
    check_blas(cublasLtMatrixLayoutSetAttribute(&out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                &m.batch_stride, sizeof(m.batch_stride)),
               "describing a batch");
  }
  bool adds() const { return product_.accumulate || product_.c.data; }
  const BlasMatrix& added() const { return product_.c.data ? product_.c : product_.d; }
  Key key() const {
    Key k{current_device(),      product_.M,        product_.N, product_.K,
          product_.batches,      product_.epilogue, adds(),     static_cast<int64_t>(compute_),
          product_.z != nullptr, product_.z_ld};
    size_t i = 10;
    for (const BlasMatrix* m : {&product_.a, &product_.b, &product_.d, &added()}) {
      k[i++] = m->ld;
      k[i++] = m->batch_stride;
      k[i++] = static_cast<int64_t>(m->dtype) * 2 + m->transposed;
      k[i++] = m->alignment();
    }
    k[i++] = result_alignment();
    k[i] = product_.scales_of_lines;
    return k;
  }
  // Alignment of the result. The epilogue's bias and z are accessed with the same vector width.
  uint32_t result_alignment() const {
    return std::min({product_.d.alignment(), alignment_of(product_.bias), alignment_of(product_.z)});
  }
  void ask() {
    cublasLtMatmulPreferenceOpaque_t preference;
    check_blas(cublasLtMatmulPreferenceInit(&preference), "choosing an algorithm");
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      check_blas(cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof(value)),
                 "choosing an algorithm");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspace);
    // Partial sums of split-K products stay in the compute type.
    const uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, product_.a.alignment());
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, product_.b.alignment());
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, added().alignment());
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, result_alignment());
    int found = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(blas_handle(), &operation_, &layouts_[0], &layouts_[1], &layouts_[3],
                                       &layouts_[2], &preference, 1, &choice_, &found);
    if (status != CUBLAS_STATUS_SUCCESS || found == 0) choice_.state = CUBLAS_STATUS_NOT_SUPPORTED;
  }

  BlasProduct product_;
  cublasComputeType_t compute_;
  cublasLtMatmulDescOpaque_t operation_;
  cublasLtMatrixLayoutOpaque_t layouts_[4];  // layouts of a, b, d, c
  cublasLtMatmulHeuristicResult_t choice_{};
};

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
#endif
