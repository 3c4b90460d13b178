// Batched matrix products and x W^T + b: by cuBLASLt where it can, else by our own kernel (gemm.cuh).
//
// cuBLASLt takes floating operands whose matrices have a stride of 1 one way or the other: it counts in
// columns, so a row-major out = a b is given as out^T = b^T a^T, and transposes cost nothing. Others are made
// dense first. Sums are in fp32 (fp64 for f64), reductions of split products in fp32 and in order. bf16 and
// f16 on tensor cores; f32 too after allow_tf32(true). Limit: tensor cores, 989 TFLOP/s in bf16 on H100 and
// H200.
#pragma once

#include <algorithm>
#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/kernels/blas_plan.cuh>
#include <tinytorch/backend/cuda/kernels/gemm.cuh>
#include <tinytorch/backend/cuda/kernels/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// out (+)= fn(a b + bias + residual), the sum before fn also to z: what one product can carry along.
struct Epilogue {
  View bias;  // [N]
  Activation activation = Activation::none;
  View z;
  bool accumulate = false;
  View row_sums{};  // no data, or [M]: sums of the left side's rows are written there
  View residual{};  // no data, or [M, N]
};

#if !TINYTORCH_CUDA_SIM

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
  if (e.residual.data) {
    p.c = p.d;
    p.c.data = e.residual.data;
    p.c.ld = std::max(p.M, e.residual.strides[by_rows ? 0 : 1]);
  }
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

// Contiguous copy of an operand whose matrices lie neither along rows nor along columns.
struct LinedOperand {
  std::optional<DeviceScratch<char>> scratch;
  View view;
  explicit LinedOperand(const View& v) : view(v) {
    if (has_lines(v, true) || has_lines(v, false)) return;
    // A batch dimension of stride 0 stays one.
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

inline bool library_multiply(const View& out, const View& a, const View& b, const Epilogue& e) {
  if (!uses_blas() || !is_floating(a.dtype)) return false;
  if (!has_lines(out, true) && !has_lines(out, false)) return false;
  if (e.residual.data && !has_lines(e.residual, has_lines(out, true))) return false;
  // Odd sizes of 16-bit results are rounded before the bias or the old value is added, and then again.
  const bool odd = out.shape.back() % 8 != 0 || a.shape.back() % 8 != 0;
  const bool adds = e.bias.data || e.accumulate || e.row_sums.data || e.residual.data;
  if (size_of(out.dtype) == 2 && odd && adds) return false;
  const LinedOperand left(a), right(b);
  return blas_batches(out, left.view, right.view, e);
}
#else
inline bool library_multiply(const View&, const View&, const View&, const Epilogue&) { return false; }
#endif

// out (+)= a b, without an activation; out may be f32 for 16-bit a and b. A residual takes the place of what
// out held.
inline void multiply(const View& out, const View& a, const View& b, const View& bias = {},
                     bool accumulate = false, const View& residual = {}) {
  if (out.numel() == 0) return;
  const Epilogue e{bias, Activation::none, {}, accumulate, {}, residual};
  if (a.shape[a.rank() - 1] != 0 && library_multiply(out, a, b, e)) return;
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
  multiply(out, x, transposed(weight), Contiguous(bias).view(), false, residual);
}

void linear_activation(Activation fn, const View& out, const View& z, const View& x, const View& weight,
                       const View& bias) {
  if (out.numel() == 0) return;
  const Contiguous b(bias);
  const View w = transposed(weight);
  // cuBLASLt knows the tanh form of gelu to 16 bits, and keeps z for it; of relu it would keep one bit.
  const bool narrow = size_of(out.dtype) == 2;
  const bool known = (fn == Activation::gelu_tanh && narrow) || (fn == Activation::relu && !z.data);
  if (known && (!z.data || z.contiguous()) && x.shape[1] != 0 &&
      library_multiply(out, x, w, {b.view(), fn, z, false})) {
    return;
  }
  const View& before = z.data ? z : out;
  multiply(before, x, w, b.view());
  if (fn != Activation::none || z.data) unary(activation_fn(fn), out, before, 0, 0);
}

void linear_grad_weight(const View& dweight, const View& dbias, const View& dy, const View& x) {
  const bool fits = dweight.numel() != 0 && dy.shape[0] != 0 && (!dbias.data || dbias.contiguous());
  if (fits && library_multiply(dweight, transposed(dy), x, {{}, Activation::none, {}, false, dbias})) return;
  multiply(dweight, transposed(dy), x);
  column_sums(dbias, dy);
}

// cuBLASLt has DGELU and DGELU_BGRAD for this; it runs them as a kernel of their own after the product, which
// on an H200 takes four times as long as ours.
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
