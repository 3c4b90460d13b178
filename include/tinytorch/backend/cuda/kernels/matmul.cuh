// Batched matrix products and x W^T + b, by cuBLASLt if possible, else by gemm.cuh (contract:
// backend/cpu/matmul.hpp). Linear layers of few rows in 16 bits have a kernel of their own
// (gemm/few_rows.cuh).
//
// cuBLASLt computes floating-point products whose matrices have a unit stride in rows or columns. It is
// column-major, so a row-major out = a b is passed as out^T = b^T a^T, and transposes are free. Other
// operands are copied to contiguous memory first. Sums and split-K reductions are in fp32 (fp64 for f64) and
// in a fixed order. bf16 and f16 use tensor cores, f32 only after allow_tf32(true). Limit: tensor cores, 989
// TFLOP/s in bf16 on H100 and H200.
#pragma once

#include <algorithm>
#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/kernels/gemm.cuh>
#include <tinytorch/backend/cuda/kernels/gemm/blas_plan.cuh>
#include <tinytorch/backend/cuda/kernels/gemm/few_rows.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// GEMM epilogue: out (+)= fn(a b + bias + residual), and z = the argument of fn.
struct Epilogue {
  View bias;  // [N]
  Activation activation = Activation::none;
  View z;
  bool accumulate = false;
  View row_sums{};  // no data, or [M]: receives the row sums of a
  View residual{};  // no data, or [M, N]
};

#if !TINYTORCH_CUDA_SIM

// True if the matrices of v have a unit stride along rows (or columns), as cuBLASLt requires.
inline bool has_unit_stride(const View& v, bool along_rows) {
  const int r = v.rank();
  const int64_t lines = v.shape[along_rows ? r - 2 : r - 1], length = v.shape[along_rows ? r - 1 : r - 2];
  const int64_t step = v.strides[along_rows ? r - 1 : r - 2], ld = v.strides[along_rows ? r - 2 : r - 1];
  return (step == 1 || length == 1) && (ld >= length || lines == 1);
}

// v [B, R, C] as an operand of cuBLASLt: op(stored) is v, or v^T if `flipped`.
inline BlasMatrix blas_matrix(const View& v, bool flipped) {
  const int64_t R = v.shape[1], C = v.shape[2];
  const bool along_rows = has_unit_stride(v, true);
  // Row-major rows are the columns of a column-major matrix.
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
  if (e.z.data) code |= 128;  // CUBLASLT_EPILOGUE_..._AUX: also stores the value before the activation
  return code == 0 ? CUBLASLT_EPILOGUE_DEFAULT : static_cast<cublasLtEpilogue_t>(code);
}
// Epilogue that also sums the rows of a, which is cuBLASLt's B if the result is row-major.
inline cublasLtEpilogue_t blas_row_sums(bool row_major) {
  return row_major ? CUBLASLT_EPILOGUE_BGRADB : CUBLASLT_EPILOGUE_BGRADA;
}

// A product of rank 3 with one batch dimension. Returns false if cuBLASLt has no algorithm for it; then
// nothing was queued.
inline bool blas_product(const View& out, const View& a, const View& b, const Epilogue& e) {
  const bool row_major = has_unit_stride(out, true);  // else out = a b is column-major and passed as it is
  if (!row_major && (e.bias.data || e.activation != Activation::none)) return false;
  BlasProduct p;
  p.M = row_major ? out.shape[2] : out.shape[1];
  p.N = row_major ? out.shape[1] : out.shape[2];
  p.K = a.shape[2];
  p.batches = out.shape[0];
  p.a = blas_matrix(row_major ? b : a, row_major);
  p.b = blas_matrix(row_major ? a : b, row_major);
  p.d = {out.data,      out.dtype, false,
         p.M,           p.N,       std::max(p.M, row_major ? out.strides[1] : out.strides[2]),
         out.strides[0]};
  p.epilogue = e.row_sums.data ? blas_row_sums(row_major) : blas_epilogue(e);
  p.bias = e.row_sums.data ? e.row_sums.data : e.bias.data;
  p.z = e.z.data;
  p.z_ld = p.M;
  p.accumulate = e.accumulate;
  if (e.residual.data) {
    p.c = p.d;
    p.c.data = e.residual.data;
    p.c.ld = std::max(p.M, e.residual.strides[row_major ? 0 : 1]);
  }
  BlasPlan plan(p);
  if (!plan.find()) return false;
  plan.run();
  return true;
}

#endif  // !TINYTORCH_CUDA_SIM

// --- shared by both implementations ---

// Batch dimensions of out, a and b, merged as far as their strides allow.
struct Batches {
  Shape shape;
  Strides strides[3];
  Batches(const View& out, const View& a, const View& b) : shape(batches_of(out).shape) {
    const View* const views[3] = {&out, &a, &b};
    for (int k = 0; k < 3; ++k) strides[k] = stretch(batches_of(*views[k]), shape);
    collapse(shape, strides, 3);
  }
};

// v [..., R, C] with the given batch dimensions and strides, starting `offset` elements later.
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
// If the batch dimensions do not merge, there is one call per index of all of them but the longest.
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

// An operand of cuBLASLt; a contiguous copy if its matrices have no unit stride.
struct BlasOperand {
  std::optional<DeviceScratch<char>> scratch;
  View view;
  explicit BlasOperand(const View& v) : view(v) {
    if (has_unit_stride(v, true) || has_unit_stride(v, false)) return;
    // A batch dimension of stride 0 is not copied repeatedly.
    Shape shape = v.shape;
    for (int d = 0; d < v.rank() - 2; ++d) shape[d] = v.strides[d] == 0 ? 1 : shape[d];
    scratch.emplace(shape.numel() * static_cast<int64_t>(size_of(v.dtype)));
    view = contiguous_view(scratch->data(), v.dtype, shape);
    View once = v;
    once.shape = shape;
    copy(view, once);
    for (int d = 0; d < v.rank() - 2; ++d) view.strides[d] = v.strides[d] == 0 ? 0 : view.strides[d];
    view.shape = v.shape;
  }
};

inline bool blas_multiply(const View& out, const View& a, const View& b, const Epilogue& e) {
  if (!uses_blas() || !is_floating(a.dtype)) return false;
  if (!has_unit_stride(out, true) && !has_unit_stride(out, false)) return false;
  if (e.residual.data && !has_unit_stride(e.residual, has_unit_stride(out, true))) return false;
  // For these sizes cuBLASLt rounds 16-bit products before it adds the bias or the old value, and then
  // again.
  const bool odd = out.shape.back() % 8 != 0 || a.shape.back() % 8 != 0;
  const bool adds = e.bias.data || e.accumulate || e.row_sums.data || e.residual.data;
  if (size_of(out.dtype) == 2 && odd && adds) return false;
  const BlasOperand a_operand(a), b_operand(b);
  return blas_batches(out, a_operand.view, b_operand.view, e);
}
#else
inline bool blas_multiply(const View&, const View&, const View&, const Epilogue&) { return false; }
#endif

// out (+)= a b + bias, without an activation. out may be f32 for 16-bit a and b. A residual replaces the old
// value of out.
inline void multiply(const View& out, const View& a, const View& b, const View& bias = {},
                     bool accumulate = false, const View& residual = {}) {
  if (out.numel() == 0) return;
  const Epilogue e{bias, Activation::none, {}, accumulate, {}, residual};
  if (a.shape[a.rank() - 1] != 0 && blas_multiply(out, a, b, e)) return;
  if (residual.data) copy(out, residual);
  gemm(out, a, b, bias, accumulate || residual.data);
}

void matmul(const View& out, const View& a, const View& b, bool accumulate) {
  multiply(out, a, b, {}, accumulate);
}

void linear(const View& out, const View& x, const View& weight, const View& bias) {
  linear_residual(out, x, weight, bias, {});
}

void linear_residual(const View& out, const View& x, const View& weight, const View& bias,
                     const View& residual) {
  if (out.numel() == 0) return;
  const Contiguous b(bias);
  if (linear_few_rows(Activation::none, out, x, weight, b.view(), residual)) return;
  multiply(out, x, transposed(weight), b.view(), false, residual);
}

void linear_activation(Activation fn, const View& out, const View& z, const View& x, const View& weight,
                       const View& bias) {
  if (out.numel() == 0) return;
  const Contiguous b(bias);
  if (!z.data && linear_few_rows(fn, out, x, weight, b.view(), {})) return;
  const View w = transposed(weight);
  // cuBLASLt has only the tanh form of gelu, with 16-bit accuracy; it can store z for gelu, but only one bit
  // of it for relu.
  const bool narrow = size_of(out.dtype) == 2;
  const bool known = (fn == Activation::gelu_tanh && narrow) || (fn == Activation::relu && !z.data);
  if (known && (!z.data || z.contiguous()) && x.shape[1] != 0 &&
      blas_multiply(out, x, w, {b.view(), fn, z, false})) {
    return;
  }
  const View& before = z.data ? z : out;
  multiply(before, x, w, b.view());
  if (fn != Activation::none || z.data) unary(activation_fn(fn), out, before, 0, 0);
}

void linear_grad_weight(const View& dweight, const View& dbias, const View& dy, const View& x) {
  const bool fits = dweight.numel() != 0 && dy.shape[0] != 0 && (!dbias.data || dbias.contiguous());
  if (fits && blas_multiply(dweight, transposed(dy), x, {{}, Activation::none, {}, false, dbias})) return;
  multiply(dweight, transposed(dy), x);
  column_sums(dbias, dy);
}

// cuBLASLt's epilogues DGELU and DGELU_BGRAD run as a separate kernel after the product, which on an H200
// takes four times as long as this one.
void linear_grad_activation(Activation fn, const View& dz, const View& dbias, const View& dy,
                            const View& weight, const View& z) {
  multiply(dz, dy, weight);
  if (dbias.data) {
    bias_activation_grad(fn, dz, dbias, dz, z, {});
  } else if (fn != Activation::none) {
    activation_grad(activation_grad_fn(fn), dz, dz, z);
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
