// Factorizations of one matrix by Eigen, for linalg.hpp: plain pointers to row-major matrices on the CPU.
//
// Functions that can fail return the reason, or nullptr. Matrices may be empty, unless stated.
#pragma once

#include <tinytorch/core/simd_intrinsics.hpp>  // before Eigen, which includes the intrinsics too

#if __has_include(<Eigen/Dense>)
#include <Eigen/Dense>
#elif __has_include(<eigen3/Eigen/Dense>)
#include <eigen3/Eigen/Dense>
#else
#error "tinytorch/tensor/ops/linalg.hpp needs Eigen: install libeigen3-dev, or add -I/path/to/eigen"
#endif

#include <algorithm>
#include <cstdint>
#include <tinytorch/core/config.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::linalg::host {

template <class T>
using Dense = ::Eigen::Matrix<T, ::Eigen::Dynamic, ::Eigen::Dynamic>;
template <class T>
using RowMajor = ::Eigen::Matrix<T, ::Eigen::Dynamic, ::Eigen::Dynamic, ::Eigen::RowMajor>;
template <class T>
using In = ::Eigen::Map<const RowMajor<T>>;
template <class T>
using Out = ::Eigen::Map<RowMajor<T>>;

inline constexpr const char* kNotFinite = "has NaN or infinity";

// x [n, k] = a^-1 b; n > 0
template <class T>
const char* solve(T* x, const T* a, const T* b, int64_t n, int64_t k) {
  const ::Eigen::PartialPivLU<Dense<T>> lu(In<T>(a, n, n));
  if ((lu.matrixLU().diagonal().array() == T(0)).any())
    return "is singular\n  hint: use pinv, or add a small multiple of the identity";
  Out<T>(x, n, k) = lu.solve(In<T>(b, n, k));
  return nullptr;
}

template <class T>
T det(const T* a, int64_t n) {  // 1, the product of no factors, for n = 0
  return n == 0 ? T(1) : ::Eigen::PartialPivLU<Dense<T>>(In<T>(a, n, n)).determinant();
}

// L [n, n]; n > 0
template <class T>
const char* cholesky(T* L, const T* a, int64_t n) {
  const ::Eigen::LLT<Dense<T>> llt(In<T>(a, n, n));
  const Dense<T> lower = llt.matrixL();
  if (llt.info() != ::Eigen::Success || !(lower.diagonal().array() > T(0)).all())
    return "is not positive definite\n  hint: add a small multiple of the identity";
  Out<T>(L, n, n) = lower;
  return nullptr;
}

// values [n], vectors [n, n] in columns; n > 0
template <class T>
const char* eigh(T* values, T* vectors, const T* a, int64_t n) {
  if (!In<T>(a, n, n).allFinite()) return kNotFinite;
  const ::Eigen::SelfAdjointEigenSolver<Dense<T>> found(In<T>(a, n, n));
  if (found.info() != ::Eigen::Success) return "needs too many iterations";
  Out<T>(values, n, 1) = found.eigenvalues();
  Out<T>(vectors, n, n) = found.eigenvectors();
  return nullptr;
}

// a [m, n], Q [m, k], R [k, n]
template <class T>
void qr(T* Q, T* R, const T* a, int64_t m, int64_t n, int64_t k) {
  Dense<T> orthonormal = Dense<T>::Identity(m, k), upper = Dense<T>::Zero(k, n);
  if (m > 0 && n > 0) {
    const ::Eigen::HouseholderQR<Dense<T>> found(In<T>(a, m, n));
    orthonormal.applyOnTheLeft(found.householderQ());
    upper = found.matrixQR().topRows(k).template triangularView<::Eigen::Upper>();
  }
  if (m * k > 0) Out<T>(Q, m, k) = orthonormal;
  if (k * n > 0) Out<T>(R, k, n) = upper;
}

// a [m, n], S [min(m, n)], U [m, u], Vh [v, n]; u = m and v = n, or both are min(m, n)
template <class T>
const char* svd(T* S, T* U, T* Vh, const T* a, int64_t m, int64_t n, int64_t u, int64_t v);
// f32 is factorized in f64 and rounded: Eigen's template takes longer to compile than all others here.
template <>
inline const char* svd(float* S, float* U, float* Vh, const float* a, int64_t m, int64_t n, int64_t u,
                       int64_t v) {
  const std::vector<double> wide(a, a + m * n);
  const auto zeros = [](int64_t count) { return std::vector<double>(static_cast<size_t>(count)); };
  std::vector<double> values = zeros(std::min(m, n)), left = zeros(m * u), right = zeros(v * n);
  const char* why = svd(values.data(), left.data(), right.data(), wide.data(), m, n, u, v);
  const auto round = [](const std::vector<double>& from, float* to) {
    std::transform(from.begin(), from.end(), to, [](double x) { return static_cast<float>(x); });
  };
  if (!why) round(values, S), round(left, U), round(right, Vh);
  return why;
}
template <class T>
const char* svd(T* S, T* U, T* Vh, const T* a, int64_t m, int64_t n, int64_t u, int64_t v) {
  if (m == 0 || n == 0) {
    if (m * u > 0) Out<T>(U, m, u).setIdentity();
    if (v * n > 0) Out<T>(Vh, v, n).setIdentity();
    return nullptr;
  }
  if (!In<T>(a, m, n).allFinite()) return kNotFinite;
  const unsigned parts = u == m && v == n ? ::Eigen::ComputeFullU | ::Eigen::ComputeFullV
                                          : ::Eigen::ComputeThinU | ::Eigen::ComputeThinV;
  const ::Eigen::BDCSVD<Dense<T>> found(In<T>(a, m, n), parts);
  Out<T>(S, found.singularValues().size(), 1) = found.singularValues();
  Out<T>(U, m, u) = found.matrixU();
  Out<T>(Vh, v, n) = found.matrixV().transpose();
  return nullptr;
}

}  // namespace tinytorch::inline TT_BUILD::linalg::host
