// Linear algebra: solve, inverse, det, Cholesky, eigenvalues, QR, singular values, pseudoinverse, norms.
//
//   #include <tinytorch/tensor/ops/linalg.hpp>   // not part of tinytorch.hpp
//   const auto [values, vectors] = tt::linalg::eigh(covariance);
//
// Matrices are f32 or f64 (else TT-DTYPE-02), [..., M, N]. Names and semantics are those of torch.linalg. The
// factorizations are Eigen's, which must be installed, and run on the CPU: CUDA tensors are copied to the
// host. Source of the derivatives, which all functions have: Giles, "Collected matrix derivative results",
// 2008; Walter and Lehmann, "Algorithmic differentiation of linear algebra functions", 2010. They throw
// TT-SHAPE-04 for less than two dimensions, TT-SHAPE-02 for a matrix that is not square, and TT-LINALG-01
// without a factorization.
#pragma once

#if !__has_include(<Eigen/Dense>) && !__has_include(<eigen3/Eigen/Dense>)
#error "tinytorch/tensor/ops/linalg.hpp needs Eigen: install libeigen3-dev, or add -I/path/to/eigen"
#endif

#include <tinytorch/tensor/operators.hpp>

namespace tinytorch::inline TT_BUILD::linalg {

// X of A X = B, by LU with partial pivoting. A [..., N, N], B [..., N, K] or a vector [..., N] (rank 1, or
// A's shape without its last dimension). Batches broadcast. Throws TT-LINALG-01 for a singular A.
TT_API Tensor solve(const Tensor& A, const Tensor& B, TT_LOC);
TT_API Tensor inverse(const Tensor& A, TT_LOC);
inline Tensor inv(const Tensor& A, TT_LOC) { return inverse(A, loc); }  // its name in torch.linalg
TT_API Tensor det(const Tensor& A, TT_LOC);  // [...]; the derivative needs an invertible A
// The lower triangle L with A = L L^T, of a symmetric positive definite A; only A's lower triangle is read.
TT_API Tensor cholesky(const Tensor& A, TT_LOC);

// Eigenvalues in ascending order [..., N] and orthonormal eigenvectors in columns [..., N, N] of a symmetric
// matrix, of which only the lower triangle is read. The sign of a vector is arbitrary. The derivative of
// vectors needs distinct eigenvalues, that of values does not.
struct EigenPairs {
  Tensor values, vectors;
};
TT_API EigenPairs eigh(const Tensor& A, TT_LOC);

// A = Q R, by Householder reflections. A [..., M, N], k = min(M, N): Q [..., M, k], R [..., k, N]; with
// complete = true, Q [..., M, M] and R [..., M, N]. The derivative needs M >= N, and complete = false.
struct QR {
  Tensor Q, R;
};
TT_API QR qr(const Tensor& A, bool complete = false, TT_LOC);

// A = U diag(S) Vh with singular values in descending order. A [..., M, N], k = min(M, N): U [..., M, M],
// S [..., k], Vh [..., N, N]; with full_matrices = false, U [..., M, k] and Vh [..., k, N]. The signs of
// vectors are arbitrary. The derivative of S is defined for every A; that of U and Vh needs distinct singular
// values above 0, and full_matrices = false. f32 is computed in f64 and rounded.
struct SVD {
  Tensor U, S, Vh;
};
TT_API SVD svd(const Tensor& A, bool full_matrices = true, TT_LOC);
TT_API Tensor svdvals(const Tensor& A, TT_LOC);
// The Moore-Penrose pseudoinverse [..., N, M], by svd. Singular values up to rtol times the largest count as
// 0; rtol < 0 means max(M, N) times the epsilon of the dtype.
TT_API Tensor pinv(const Tensor& A, double rtol = -1, TT_LOC);

// The norm of matrices [...]: order 2 or -2 is the largest or smallest singular value, 1 or -1 the largest or
// smallest sum of a column's magnitudes, and infinity or -infinity that of a row. Throws TT-RANGE-08 else.
TT_API Tensor matrix_norm(const Tensor& A, double order, TT_LOC);
// "fro": the root of the sum of squares; "nuc": the sum of singular values.
TT_API Tensor matrix_norm(const Tensor& A, const std::string& order = "fro", TT_LOC);

}  // namespace tinytorch::inline TT_BUILD::linalg

#if TT_BODIES(LINALG)
#include <algorithm>
#include <cmath>
#include <limits>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tensor/ops.hpp>
#include <tinytorch/tensor/ops/linalg-inl.hpp>
#include <tinytorch/tensor/rules.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::linalg {

inline void require_matrices(const char* op, const Tensor& A, bool square, Loc loc) {
  require_defined(op, loc, A);
  if (A.dtype() != DType::f32 && A.dtype() != DType::f64) {
    fail("TT-DTYPE-02",
         std::string(op) + ": needs f32 or f64, got " + A.describe() + "\n  hint: convert with .to(f32)",
         loc);
  }
  if (A.rank() < 2)
    fail("TT-SHAPE-04", std::string(op) + ": needs matrices [..., M, N], got " + A.describe(), loc);
  if (square && A.size(-1) != A.size(-2))
    fail("TT-SHAPE-02", std::string(op) + ": needs square matrices [..., N, N], got " + A.describe(), loc);
}
// Throws if matrix number `at` has no factorization, for the reason `why`.
inline void check(const char* op, int64_t at, Loc loc, const char* why) {
  if (!why) return;
  fail("TT-LINALG-01", std::string(op) + ": matrix " + std::to_string(at) + " of the batch " + why, loc);
}
// A's shape without its last two dimensions, followed by `sizes`.
inline Shape batched(const Shape& A, std::initializer_list<int64_t> sizes) {
  Shape shape;
  for (int d = 0; d + 2 < A.size(); ++d) shape.push_back(A[d]);
  for (int64_t n : sizes) shape.push_back(n);
  return shape;
}
inline Tensor mT(const Tensor& A) { return transpose(A, -1, -2); }

// Calls f(in, out, T) with contiguous CPU tensors of type T, and copies the results to the device of `out`.
template <class F>
void on_host(const Tensors& in, Tensors& out, F&& f) {
  Tensors from, to;
  for (const Tensor& t : in) from.push_back(contiguous(t.detach().to(cpu)));
  for (const Tensor& t : out) to.push_back(t.device().is_cpu() ? t : empty(t.shape(), t.dtype(), cpu));
  if (in[0].dtype() == DType::f32) {
    f(from, to, float{});
  } else {
    f(from, to, double{});
  }
  for (size_t i = 0; i < out.size(); ++i)
    if (!out[i].device().is_cpu()) out[i].copy_(to[i].to(out[i].device()));
}
inline int64_t count_of(const Tensor& A) { return batched(A.shape(), {}).numel(); }
// Element 0 of matrix i, of `size` elements, in a contiguous tensor.
template <class T>
T* part(const Tensor& A, int64_t i, int64_t size) {
  return A.numel() == 0 ? nullptr : A.data<T>() + i * size;
}

// A [..., N, N], B [..., N, K] with equal batches.
struct Solve final : Primitive<Solve> {
  static constexpr const char* kName = "linalg.solve";
  Loc loc;  // of the caller, for errors of single matrices
  explicit Solve(Loc caller) : loc(caller) {}
  Specs infer(const Tensors& in, Loc) const override { return {{in[1].shape(), in[1].dtype()}}; }
  double flops(const Tensors& in, const Tensors& out) const override {
    return (static_cast<double>(in[0].numel()) / 3 + static_cast<double>(out[0].numel())) * 2 *
           static_cast<double>(in[0].size(-1));
  }
  void run(const Tensors& in, Tensors& out) const override {
    on_host(in, out, [&]<class T>(const Tensors& from, const Tensors& to, T) {
      const int64_t n = from[0].size(-1), k = to[0].size(-1), count = n == 0 ? 0 : count_of(from[0]);
      for (int64_t i = 0; i < count; ++i) {
        check(kName, i, loc,
              host::solve(part<T>(to[0], i, n * k), part<T>(from[0], i, n * n), part<T>(from[1], i, n * k), n,
                          k));
      }
    });
  }
  Save saves() const override { return Save::both; }
  bool saves_input(size_t i) const override { return i == 0; }
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    const Tensor dB = apply(Solve(loc), {mT(s.inputs[0]), g[0]});
    return {s.needs_grad[0] ? -matmul(dB, mT(s.outputs[0])) : Tensor(), dB};
  }
};

struct Det final : Primitive<Det> {
  static constexpr const char* kName = "linalg.det";
  Specs infer(const Tensors& in, Loc) const override { return {{batched(in[0].shape(), {}), in[0].dtype()}}; }
  void run(const Tensors& in, Tensors& out) const override {
    on_host(in, out, [&]<class T>(const Tensors& from, const Tensors& to, T) {
      const int64_t n = from[0].size(-1), count = count_of(from[0]);
      for (int64_t i = 0; i < count; ++i) to[0].data<T>()[i] = host::det(part<T>(from[0], i, n * n), n);
    });
  }
  Save saves() const override { return Save::both; }
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    const Tensor factor = unsqueeze(unsqueeze(g[0] * s.outputs[0], -1), -1);
    return {factor * inverse(mT(s.inputs[0]))};
  }
};

struct Cholesky final : Primitive<Cholesky> {
  static constexpr const char* kName = "linalg.cholesky";
  Loc loc;  // of the caller, for errors of single matrices
  explicit Cholesky(Loc caller) : loc(caller) {}
  Specs infer(const Tensors& in, Loc) const override { return {{in[0].shape(), in[0].dtype()}}; }
  void run(const Tensors& in, Tensors& out) const override {
    on_host(in, out, [&]<class T>(const Tensors& from, const Tensors& to, T) {
      const int64_t n = from[0].size(-1), count = n == 0 ? 0 : count_of(from[0]);
      for (int64_t i = 0; i < count; ++i)
        check(kName, i, loc, host::cholesky(part<T>(to[0], i, n * n), part<T>(from[0], i, n * n), n));
    });
  }
  Save saves() const override { return Save::outputs; }
  // With P = the lower triangle of L^T g, its diagonal halved: L^-T P L^-1, made symmetric.
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    const Tensor Lt = mT(s.outputs[0]), product = matmul(Lt, g[0]);
    const Tensor P = (tril(product) + tril(product, -1)) * 0.5;
    const Tensor left = solve(Lt, P), both = mT(solve(Lt, mT(left)));
    return {(both + mT(both)) * 0.5};
  }
};

// 1 / (b_j - b_i) for i != j, and 0 on the diagonal. b [..., N]
inline Tensor inverse_differences(const Tensor& b) {
  const Tensor ones_at = eye(b.size(-1), b.dtype(), b.device());
  return (1 - ones_at) / (unsqueeze(b, -2) - unsqueeze(b, -1) + ones_at);
}
inline Tensor times_diagonal(const Tensor& A, const Tensor& s) { return A * unsqueeze(s, -2); }

struct Eigh final : Primitive<Eigh> {
  static constexpr const char* kName = "linalg.eigh";
  Loc loc;  // of the caller, for errors of single matrices
  explicit Eigh(Loc caller) : loc(caller) {}
  Specs infer(const Tensors& in, Loc) const override {
    const Shape& A = in[0].shape();
    return {{batched(A, {A[A.size() - 1]}), in[0].dtype()}, {A, in[0].dtype()}};
  }
  void run(const Tensors& in, Tensors& out) const override {
    on_host(in, out, [&]<class T>(const Tensors& from, const Tensors& to, T) {
      const int64_t n = from[0].size(-1), count = n == 0 ? 0 : count_of(from[0]);
      for (int64_t i = 0; i < count; ++i) {
        check(kName, i, loc,
              host::eigh(part<T>(to[0], i, n), part<T>(to[1], i, n * n), part<T>(from[0], i, n * n), n));
      }
    });
  }
  size_t differentiable_outputs() const override { return 2; }
  Save saves() const override { return Save::outputs; }
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    const Tensor &values = s.outputs[0], &V = s.outputs[1];
    Tensor dA = matmul(times_diagonal(V, g[0]), mT(V));
    if (g.size() > 1 && g[1].defined())
      dA = dA + matmul(matmul(V, matmul(mT(V), g[1]) * inverse_differences(values)), mT(V));
    return {dA};
  }
};

struct Qr final : Primitive<Qr> {
  static constexpr const char* kName = "linalg.qr";
  bool complete;
  Loc loc;
  Qr(bool all, Loc caller) : complete(all), loc(caller) {}
  Specs infer(const Tensors& in, Loc) const override {
    const Shape& A = in[0].shape();
    const int64_t m = in[0].size(-2), n = in[0].size(-1), k = complete ? m : std::min(m, n);
    return {{batched(A, {m, k}), in[0].dtype()}, {batched(A, {k, n}), in[0].dtype()}};
  }
  void run(const Tensors& in, Tensors& out) const override {
    on_host(in, out, [&]<class T>(const Tensors& from, const Tensors& to, T) {
      const int64_t m = from[0].size(-2), n = from[0].size(-1), k = to[0].size(-1);
      for (int64_t i = 0; i < count_of(from[0]); ++i)
        host::qr(part<T>(to[0], i, m * k), part<T>(to[1], i, k * n), part<T>(from[0], i, m * n), m, n, k);
    });
  }
  size_t differentiable_outputs() const override { return 2; }
  Save saves() const override { return Save::outputs; }
  // (gQ + Q sym(M)) R^-T with M = R gR^T - gQ^T Q, where sym copies the lower triangle to the upper one.
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    const Tensor &Q = s.outputs[0], &R = s.outputs[1];
    if (complete || R.size(-2) < R.size(-1)) {
      fail("TT-GRAD-05",
           "linalg.qr: the derivative needs at least as many rows as columns, and complete = false", loc);
    }
    Tensor M = -matmul(mT(g[0]), Q);
    if (g.size() > 1 && g[1].defined()) M = M + matmul(R, mT(g[1]));
    const Tensor right = g[0] + matmul(Q, tril(M) + mT(tril(M, -1)));
    return {mT(solve(R, mT(right)))};
  }
};

struct Svd final : Primitive<Svd> {
  static constexpr const char* kName = "linalg.svd";
  bool full;
  Loc loc;
  Svd(bool all, Loc caller) : full(all), loc(caller) {}
  // The outputs are S, U and Vh, because backward defines the gradient of the first one.
  Specs infer(const Tensors& in, Loc) const override {
    const Shape& A = in[0].shape();
    const DType t = in[0].dtype();
    const int64_t m = in[0].size(-2), n = in[0].size(-1), k = std::min(m, n);
    return {{batched(A, {k}), t}, {batched(A, {m, full ? m : k}), t}, {batched(A, {full ? n : k, n}), t}};
  }
  void run(const Tensors& in, Tensors& out) const override {
    on_host(in, out, [&]<class T>(const Tensors& from, const Tensors& to, T) {
      const int64_t m = from[0].size(-2), n = from[0].size(-1), k = to[0].size(-1);
      const int64_t u = to[1].size(-1), v = to[2].size(-2);
      for (int64_t i = 0; i < count_of(from[0]); ++i) {
        check(kName, i, loc,
              host::svd(part<T>(to[0], i, k), part<T>(to[1], i, m * u), part<T>(to[2], i, v * n),
                        part<T>(from[0], i, m * n), m, n, u, v));
      }
    });
  }
  size_t differentiable_outputs() const override { return 3; }
  Save saves() const override { return Save::outputs; }
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    const Tensor& S = s.outputs[0];
    const int64_t k = S.size(-1);
    const Tensor U = slice(s.outputs[1], -1, 0, k), Vt = slice(s.outputs[2], -2, 0, k), V = mT(Vt);
    const Tensor gU = g.size() > 1 ? g[1] : Tensor(), gVt = g.size() > 2 ? g[2] : Tensor();
    Tensor dA = matmul(times_diagonal(U, g[0]), Vt);
    if ((gU.defined() || gVt.defined()) && full) {
      fail("TT-GRAD-05", "linalg.svd: the derivative of U and Vh needs full_matrices = false", loc);
    }
    const Tensor F = gU.defined() || gVt.defined() ? inverse_differences(square(S)) : Tensor();
    const Tensor column = unsqueeze(S, -1);  // scales rows
    if (gU.defined()) {
      const Tensor X = matmul(mT(U), gU), inner = times_diagonal((X - mT(X)) * F, S);
      const Tensor outside = times_diagonal(gU - matmul(U, X), 1 / S);
      dA = dA + matmul(matmul(U, inner) + outside, Vt);
    }
    if (gVt.defined()) {
      const Tensor X = matmul(Vt, mT(gVt)), inner = column * ((X - mT(X)) * F);
      const Tensor outside = (gVt - matmul(mT(X), Vt)) / column;
      dA = dA + matmul(U, matmul(inner, Vt) + outside);
    }
    return {dA};
  }
};

TT_API Tensor solve(const Tensor& A, const Tensor& B, Loc loc) {
  require_matrices("linalg.solve", A, true, loc);
  require_defined("linalg.solve", loc, A, B);
  require_same_dtype("linalg.solve", {A, B}, loc);
  bool vector = B.rank() == 1 || B.rank() == A.rank() - 1;
  for (int d = 0; vector && B.rank() > 1 && d < B.rank(); ++d) vector = B.shape()[d] == A.shape()[d];
  const Tensor columns = vector ? unsqueeze(B, -1, loc) : B;
  if (columns.rank() < 2 || columns.size(-2) != A.size(-1)) {
    fail("TT-SHAPE-02",
         "linalg.solve: " + describe_operands({A, B}) + "\n  rule: A [..., N, N], B [..., N, K] or [..., N]",
         loc);
  }
  const auto batch = broadcast_shapes(batched(A.shape(), {}), batched(columns.shape(), {}));
  if (!batch)
    fail("TT-SHAPE-02", "linalg.solve: the batches do not broadcast: " + describe_operands({A, B}), loc);
  const auto all = [&](const Tensor& t) {
    Shape shape = *batch;
    shape.push_back(t.size(-2));
    shape.push_back(t.size(-1));
    return t.shape() == shape ? t : expand(t, shape, loc);
  };
  const Tensor X = apply(Solve(loc), {all(A), all(columns)}, loc);
  return vector ? squeeze(X, -1, loc) : X;
}
TT_API Tensor inverse(const Tensor& A, Loc loc) {
  require_matrices("linalg.inverse", A, true, loc);
  return solve(A, eye(A.size(-1), A.dtype(), A.device(), loc), loc);
}
TT_API Tensor det(const Tensor& A, Loc loc) {
  require_matrices("linalg.det", A, true, loc);
  return apply(Det(), {A}, loc);
}
TT_API Tensor cholesky(const Tensor& A, Loc loc) {
  require_matrices("linalg.cholesky", A, true, loc);
  return apply(Cholesky(loc), {A}, loc);
}
TT_API EigenPairs eigh(const Tensor& A, Loc loc) {
  require_matrices("linalg.eigh", A, true, loc);
  const Tensors out = apply_all(Eigh(loc), {A}, loc);
  return {out[0], out[1]};
}
TT_API QR qr(const Tensor& A, bool complete, Loc loc) {
  require_matrices("linalg.qr", A, false, loc);
  const Tensors out = apply_all(Qr(complete, loc), {A}, loc);
  return {out[0], out[1]};
}
TT_API SVD svd(const Tensor& A, bool full_matrices, Loc loc) {
  require_matrices("linalg.svd", A, false, loc);
  const Tensors out = apply_all(Svd(full_matrices, loc), {A}, loc);
  return {out[1], out[0], out[2]};
}
TT_API Tensor svdvals(const Tensor& A, Loc loc) { return svd(A, false, loc).S; }
TT_API Tensor pinv(const Tensor& A, double rtol, Loc loc) {
  require_matrices("linalg.pinv", A, false, loc);
  const int64_t larger = std::max(A.size(-1), A.size(-2));
  if (A.numel() == 0) return mT(A).clone();
  const double eps = A.dtype() == DType::f32 ? std::numeric_limits<float>::epsilon()
                                             : std::numeric_limits<double>::epsilon();
  const double relative = rtol >= 0 ? rtol : static_cast<double>(larger) * eps;
  const SVD d = svd(A, false, loc);
  const Tensor largest = slice(d.S.detach(), -1, 0, 1, 1, loc);
  const Tensor kept = gt(d.S.detach(), largest * relative, loc);
  const Tensor one = scalar_like(1, d.S, loc), zero = scalar_like(0, d.S, loc);
  const Tensor inverted = where(kept, one / where(kept, d.S, one, loc), zero, loc);
  return matmul(times_diagonal(mT(d.Vh), inverted), mT(d.U), loc);
}

TT_API Tensor matrix_norm(const Tensor& A, double order, Loc loc) {
  require_matrices("linalg.matrix_norm", A, false, loc);
  const double size = std::abs(order);
  const bool largest = order > 0, columns = size == 1;
  if (size == 2)
    return largest ? max(svdvals(A, loc), Dims{-1}, false, loc) : min(svdvals(A, loc), Dims{-1}, false, loc);
  if (!columns && size != std::numeric_limits<double>::infinity()) {
    fail("TT-RANGE-08",
         "linalg.matrix_norm: the order must be 1, 2, infinity, their negatives, \"fro\" or \"nuc\", got " +
             std::to_string(order),
         loc);
  }
  const Tensor sums = sum(abs(A, loc), Dims{columns ? -2 : -1}, false, loc);
  return largest ? max(sums, Dims{-1}, false, loc) : min(sums, Dims{-1}, false, loc);
}
TT_API Tensor matrix_norm(const Tensor& A, const std::string& order, Loc loc) {
  require_matrices("linalg.matrix_norm", A, false, loc);
  if (order == "fro") return norm(A, Dims{-2, -1}, false, loc);
  if (order == "nuc") return sum(svdvals(A, loc), Dims{-1}, false, loc);
  fail("TT-RANGE-08",
       "linalg.matrix_norm: the order must be a number, \"fro\" or \"nuc\", got \"" + order + "\"", loc);
}
}  // namespace tinytorch::inline TT_BUILD::linalg
#endif
