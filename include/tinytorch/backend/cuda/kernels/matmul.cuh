// Batched matrix products and x W^T + b: by cuBLASLt where it can, else by our own kernel (gemm.cuh).
//
// cuBLASLt takes floating operands whose matrices have a stride of 1 one way or the other: it counts in
// columns, so a row-major out = a b is given as out^T = b^T a^T, and transposes cost nothing. Others are made
// dense first. Which algorithm: its heuristics, asked once per shape and remembered. Sums are in fp32 (fp64
// for f64), reductions of split products in fp32 and in order. bf16 and f16 on tensor cores; f32 too after
// allow_tf32(true). Limit: tensor cores, 989 TFLOP/s in bf16 on H100 and H200.
// Source: NVIDIA, "cuBLAS Library", cuBLASLt.
#pragma once

#include <tinytorch/backend/cuda/dense.cuh>
#include <tinytorch/backend/cuda/kernels/gemm.cuh>
#if !TINYTORCH_CUDA_SIM
#include <cublasLt.h>

#include <array>
#include <map>
#include <mutex>
#endif

namespace tinytorch::inline TT_BUILD::backend::cuda {

// out (+)= fn(a b + bias), the sum before fn also to z: what one product can carry along.
struct Epilogue {
  View bias;  // [N]
  Activation activation = Activation::none;
  View z;
  bool accumulate = false;
  View row_sums{};  // no data, or [M]: sums of the left side's rows are written there
};

#if !TINYTORCH_CUDA_SIM

inline void check_blas(cublasStatus_t status, const char* what, TT_LOC) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  fail("TT-CUDA-06", std::string(what) + ": " + cublasLtGetStatusString(status), loc);
}

// The handle of a device, made at first use. It is never destroyed: at exit CUDA may be gone already.
inline cublasLtHandle_t blas_handle() {
  static std::mutex mutex;
  static std::map<int, cublasLtHandle_t> handles;
  const std::lock_guard lock(mutex);
  cublasLtHandle_t& handle = handles[current_device()];
  if (!handle) check_blas(cublasLtCreate(&handle), "starting cuBLASLt");
  return handle;
}

// Largest power of two, up to 256, that the address is a multiple of.
inline uint32_t alignment_of(const void* data) {
  const auto address = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(data) & 255u);
  return address == 0 ? 256u : address & (~address + 1u);
}

// A matrix as cuBLASLt sees it: column-major [rows, cols] with leading dimension ld.
struct BlasMatrix {
  const void* data = nullptr;
  DType dtype = DType::f32;
  bool transposed = false;  // of what is stored
  int64_t rows = 0, cols = 0, ld = 0, batch_stride = 0;
  uint32_t alignment() const { return alignment_of(data); }
};

inline cudaDataType_t blas_type(DType t) {
  if (t == DType::f64) return CUDA_R_64F;
  if (t == DType::bf16) return CUDA_R_16BF;
  return t == DType::f16 ? CUDA_R_16F : CUDA_R_32F;
}

// d = op(a) op(b), all column-major.
struct BlasProduct {
  BlasMatrix a, b, d;
  int64_t M = 0, N = 0, K = 0, batches = 1;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  void* z = nullptr;
  int64_t z_ld = 0;
  bool accumulate = false;
};

// The descriptors of one product, and how to run it.
class BlasPlan {
 public:
  explicit BlasPlan(const BlasProduct& p) : product_(p) {
    const bool f64 = p.d.dtype == DType::f64, tf32 = p.a.dtype == DType::f32 && allows_tf32();
    const cudaDataType_t scale = f64 ? CUDA_R_64F : CUDA_R_32F;
    compute_ = f64 ? CUBLAS_COMPUTE_64F : (tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F);
    check_blas(cublasLtMatmulDescInit(&operation_, compute_, scale), "describing a product");
    set(CUBLASLT_MATMUL_DESC_TRANSA, p.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, p.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, p.epilogue);
    if (p.bias) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
    if (p.z) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, p.z);
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p.z_ld);
    }
    const BlasMatrix* const matrices[3] = {&p.a, &p.b, &p.d};
    for (int k = 0; k < 3; ++k) layout(layouts_[k], *matrices[k]);
  }

  // Whether an algorithm was found; run() then runs it.
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
    const bool f64 = compute_ == CUBLAS_COMPUTE_64F;
    const void* const alpha = f64 ? static_cast<const void*>(&one64) : &one32;
    const void* const zero = f64 ? static_cast<const void*>(&zero64) : &zero32;
    void* const d = const_cast<void*>(product_.d.data);
    check_blas(
        cublasLtMatmul(blas_handle(), &operation_, alpha, product_.a.data, &layouts_[0], product_.b.data,
                       &layouts_[1], product_.accumulate ? alpha : zero, d, &layouts_[2], d, &layouts_[2],
                       &choice_.algo, workspace.data(), choice_.workspaceSize, native_stream()),
        "multiplying matrices");
    note_launch("cublasLtMatmul");
  }

 private:
  using Key = std::array<int64_t, 24>;
  static constexpr size_t kWorkspace = size_t{64} << 20;

  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    check_blas(cublasLtMatmulDescSetAttribute(&operation_, attribute, &value, sizeof(value)),
               "describing a product");
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
  Key key() const {
    Key k{current_device(),      product_.M,        product_.N,          product_.K,
          product_.batches,      product_.epilogue, product_.accumulate, static_cast<int64_t>(compute_),
          product_.z != nullptr, product_.z_ld};
    size_t i = 10;
    for (const BlasMatrix* m : {&product_.a, &product_.b, &product_.d}) {
      k[i++] = m->ld;
      k[i++] = m->batch_stride;
      k[i++] = static_cast<int64_t>(m->dtype) * 2 + m->transposed;
      k[i++] = m->alignment();
    }
    k[i] = result_alignment();
    return k;
  }
  // What is read and written along with the result is accessed in the same pieces.
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
    // Partial sums of split products stay in the compute type.
    const uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, product_.a.alignment());
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, product_.b.alignment());
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, product_.d.alignment());
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, result_alignment());
    int found = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(blas_handle(), &operation_, &layouts_[0], &layouts_[1], &layouts_[2],
                                       &layouts_[2], &preference, 1, &choice_, &found);
    if (status != CUBLAS_STATUS_SUCCESS || found == 0) choice_.state = CUBLAS_STATUS_NOT_SUPPORTED;
  }

  BlasProduct product_;
  cublasComputeType_t compute_;
  cublasLtMatmulDescOpaque_t operation_;
  cublasLtMatrixLayoutOpaque_t layouts_[3];
  cublasLtMatmulHeuristicResult_t choice_{};
};

// Whether the matrices of v can be read as they lie, along rows or along columns.
inline bool has_lines(const View& v, bool along_rows) {
  const int r = v.rank();
  const int64_t lines = v.shape[along_rows ? r - 2 : r - 1], length = v.shape[along_rows ? r - 1 : r - 2];
  const int64_t step = v.strides[along_rows ? r - 1 : r - 2], ld = v.strides[along_rows ? r - 2 : r - 1];
  return (step == 1 || length == 1) && (ld >= length || lines == 1);
}

// v [B, R, C] as an operand: op(stored) is v itself, or v^T where `flipped`.
inline BlasMatrix blas_matrix(const View& v, bool flipped) {
  const int64_t R = v.shape[1], C = v.shape[2];
  const bool along_rows = has_lines(v, true);
  // Stored column-major, rows of v are columns.
  BlasMatrix m{v.data,
               v.dtype,
               along_rows != flipped,
               along_rows ? C : R,
               along_rows ? R : C,
               along_rows ? v.strides[1] : v.strides[2],
               v.strides[0]};
  m.ld = std::max(m.ld, m.rows);
  if (m.cols == 1) m.ld = m.rows;
  return m;
}

inline cublasLtEpilogue_t blas_epilogue(const Epilogue& e) {
  int code = e.bias.data ? CUBLASLT_EPILOGUE_BIAS : 0;
  if (e.activation == Activation::relu) code |= CUBLASLT_EPILOGUE_RELU;
  if (e.activation == Activation::gelu_tanh) code |= CUBLASLT_EPILOGUE_GELU;
  if (e.z.data) code |= 128;  // the value before the activation is stored beside: CUBLASLT_EPILOGUE_..._AUX
  return code == 0 ? CUBLASLT_EPILOGUE_DEFAULT : static_cast<cublasLtEpilogue_t>(code);
}
// Of a product that sums rows of the left side too, which is cuBLASLt's b where the result lies by rows.
inline cublasLtEpilogue_t blas_row_sums(bool by_rows) {
  return by_rows ? CUBLASLT_EPILOGUE_BGRADB : CUBLASLT_EPILOGUE_BGRADA;
}

// Rank 3, one batch dimension. False: cuBLASLt has no algorithm for it, and nothing was queued.
inline bool blas_product(const View& out, const View& a, const View& b, const Epilogue& e) {
  const bool by_rows = has_lines(out, true);  // else column-major out = a b is what is asked
  if (!by_rows && (e.bias.data || e.activation != Activation::none)) return false;
  BlasProduct p;
  p.M = by_rows ? out.shape[2] : out.shape[1];
  p.N = by_rows ? out.shape[1] : out.shape[2];
  p.K = a.shape[2];
  p.batches = out.shape[0];
  p.a = blas_matrix(by_rows ? b : a, by_rows);
  p.b = blas_matrix(by_rows ? a : b, by_rows);
  p.d = {out.data,      out.dtype, false, p.M, p.N, std::max(p.M, by_rows ? out.strides[1] : out.strides[2]),
         out.strides[0]};
  p.epilogue = e.row_sums.data ? blas_row_sums(by_rows) : blas_epilogue(e);
  p.bias = e.row_sums.data ? e.row_sums.data : e.bias.data;
  p.z = e.z.data;
  p.z_ld = p.M;
  p.accumulate = e.accumulate;
  BlasPlan plan(p);
  if (!plan.find()) return false;
  plan.run();
  return true;
}

#endif  // !TINYTORCH_CUDA_SIM

// --- what both ways share ---

// Merges the batch dimensions of out, a and b into as few as their strides allow.
struct Batches {
  Shape shape;
  Strides strides[3];
  Batches(const View& out, const View& a, const View& b) : shape(batches_of(out).shape) {
    const View* const views[3] = {&out, &a, &b};
    for (int k = 0; k < 3; ++k) strides[k] = stretch(batches_of(*views[k]), shape);
    collapse(shape, strides, 3);
  }
};

// v [..., R, C] with batch dimensions of these strides, `offset` elements on.
inline View with_batches(const View& v, const Shape& batches, const Strides& strides, int64_t offset) {
  View out = v;
  out.data = v.as<char>() + offset * static_cast<int64_t>(size_of(v.dtype));
  const int r = v.rank();
  out.shape = batches;
  out.strides = strides;
  for (int d : {r - 2, r - 1}) {
    out.shape.push_back(v.shape[d]);
    out.strides.push_back(v.strides[d]);
  }
  return out;
}

#if !TINYTORCH_CUDA_SIM
// One call per batch where the batch dimensions do not merge; the longest of them goes into the call.
inline bool blas_batches(const View& out, const View& a, const View& b, const Epilogue& e) {
  Batches all(out, a, b);
  const int rank = all.shape.size();
  int longest = 0;
  for (int d = 1; d < rank; ++d) longest = all.shape[d] > all.shape[longest] ? d : longest;
  const int64_t inside = all.shape[longest], calls = all.shape.numel() / inside;
  if (calls > 64) return false;
  Shape outer = all.shape;
  outer[longest] = 1;
  for (int64_t i = 0; i < calls; ++i) {
    int64_t index[kMaxRank];
    View v[3];
    const View* const views[3] = {&out, &a, &b};
    for (int k = 0; k < 3; ++k) {
      const int64_t offset = locate(outer, all.strides[k], i, index);
      v[k] = with_batches(*views[k], Shape{inside}, Strides::filled(1, all.strides[k][longest]), offset);
    }
    if (!blas_product(v[0], v[1], v[2], e)) {
      if (i > 0) fail("TT-CUDA-06", "cuBLASLt ran one product of a batch but not the next");
      return false;
    }
  }
  return true;
}

// Dense copy of an operand whose matrices lie neither along rows nor along columns.
struct LinedOperand {
  std::optional<DeviceScratch<char>> scratch;
  View view;
  explicit LinedOperand(const View& v) : view(v) {
    if (has_lines(v, true) || has_lines(v, false)) return;
    // A batch dimension of stride 0 stays one.
    Shape shape = v.shape;
    for (int d = 0; d < v.rank() - 2; ++d) shape[d] = v.strides[d] == 0 ? 1 : shape[d];
    scratch.emplace(shape.numel() * static_cast<int64_t>(size_of(v.dtype)));
    view = dense_view(scratch->data(), v.dtype, shape);
    View once = v;
    once.shape = shape;
    copy(view, once);
    for (int d = 0; d < v.rank() - 2; ++d) view.strides[d] = v.strides[d] == 0 ? 0 : view.strides[d];
    view.shape = v.shape;
  }
};

inline bool library_multiply(const View& out, const View& a, const View& b, const Epilogue& e) {
  if (!uses_blas() || !is_floating(a.dtype)) return false;
  if (!has_lines(out, true) && !has_lines(out, false)) return false;
  // Odd sizes of 16-bit results are rounded before the bias or the old value is added, and then again.
  const bool odd = out.shape.back() % 8 != 0 || a.shape.back() % 8 != 0;
  if (size_of(out.dtype) == 2 && odd && (e.bias.data || e.accumulate || e.row_sums.data)) return false;
  const LinedOperand left(a), right(b);
  return blas_batches(out, left.view, right.view, e);
}
#else
inline bool library_multiply(const View&, const View&, const View&, const Epilogue&) { return false; }
#endif

// out (+)= a b, without an activation; out may be f32 for 16-bit a and b.
inline void multiply(const View& out, const View& a, const View& b, const View& bias = {},
                     bool accumulate = false) {
  if (out.numel() == 0) return;
  if (a.shape[a.rank() - 1] != 0 && library_multiply(out, a, b, {bias, Activation::none, {}, accumulate})) {
    return;
  }
  gemm(out, a, b, bias, accumulate);
}

void matmul(const View& out, const View& a, const View& b, bool accumulate) {
  multiply(out, a, b, {}, accumulate);
}

inline bool is_dense_vector(const View& v) { return !v.data || v.shape[0] <= 1 || v.strides[0] == 1; }

void linear(const View& out, const View& x, const View& weight, const View& bias) {
  linear_activation(Activation::none, out, {}, x, weight, bias);
}

void linear_activation(Activation fn, const View& out, const View& z, const View& x, const View& weight,
                       const View& bias) {
  if (out.numel() == 0) return;
  std::optional<DeviceScratch<char>> scratch;
  View b = bias;
  if (!is_dense_vector(bias)) {
    scratch.emplace(bias.numel() * static_cast<int64_t>(size_of(bias.dtype)));
    b = dense_view(scratch->data(), bias.dtype, bias.shape);
    copy(b, bias);
  }
  const View w = transposed(weight);
  // cuBLASLt knows the tanh form of gelu to 16 bits, and keeps z for it; of relu it would keep one bit.
  const bool narrow = size_of(out.dtype) == 2;
  const bool known = (fn == Activation::gelu_tanh && narrow) || (fn == Activation::relu && !z.data);
  if (known && (!z.data || z.contiguous()) && x.shape[1] != 0 &&
      library_multiply(out, x, w, {b, fn, z, false})) {
    return;
  }
  const View& before = z.data ? z : out;
  multiply(before, x, w, b);
  if (fn != Activation::none || z.data) unary(activation_fn(fn), out, before, 0, 0);
}

void linear_grad_weight(const View& dweight, const View& dbias, const View& dy, const View& x) {
  const bool fits = dweight.numel() != 0 && dy.shape[0] != 0 && is_dense_vector(dbias);
  if (fits && library_multiply(dweight, transposed(dy), x, {{}, Activation::none, {}, false, dbias})) return;
  multiply(dweight, transposed(dy), x);
  const bool rows[] = {true, false};
  reduce(ReduceFn::sum, dbias, dy, rows);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
