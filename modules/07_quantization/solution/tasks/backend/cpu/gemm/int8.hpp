// Products of 8-bit integers, exact in 32 bits: the matrix products of quantized layers.
//
// The processor's instruction for them multiplies unsigned by signed bytes. Signed a is shifted by s = 128 to
// be unsigned, and unsigned b by t = 128 to be signed; the sums of rows and columns correct for both:
//
//   sum a b = sum (a + s) (b - t) + t sum (a + s) - s sum (b - t) - K s t        s, t: 128 or 0
//
// Task 7.5: dot_bytes, multiply_bytes. The given parts of this header are in
// modules/07_quantization/frame/tinytorch/backend/cpu/gemm/int8.hpp, which includes this file.
#pragma once

namespace tinytorch::inline TT_BUILD::backend::cpu {

// a[0] b[0] + ... + a[K - 1] b[K - 1], exact; if it does not fit, it wraps at 32 bits. (Unsigned sums wrap,
// signed ones are not defined then.)
inline int32_t dot_bytes(const uint8_t* a, const int8_t* b, int64_t K) {
  uint32_t sum = 0;
  for (int64_t k = 0; k < K; ++k) sum += static_cast<uint32_t>(int32_t{a[k]} * int32_t{b[k]});
  return static_cast<int32_t>(sum);
}

// c [M, N], whose row m begins at c + m c_row, = a [M, K] b [K, N], or += if `accumulate`. a and b are each
// i8, u8 or bool, with any strides; element [i, j] of a is the byte at i a.strides[0] + j a.strides[1]. The
// byte of x + 128 and of x - 128 is that of x with its highest bit inverted.
inline void multiply_bytes(int32_t* c, int64_t c_row, const View& a, const View& b, bool accumulate) {
  const int64_t M = a.shape[0], K = a.shape[1], N = b.shape[1];
  const uint8_t s = a.dtype == DType::i8 ? 128 : 0, t = b.dtype == DType::i8 ? 0 : 128;
  std::vector<uint8_t> a_row(static_cast<size_t>(K));         // a row of a + s
  std::vector<int8_t> b_columns(static_cast<size_t>(N * K));  // the columns of b - t, one after the other
  std::vector<uint32_t> of_col(static_cast<size_t>(N));       // and their sums
  for (int64_t n = 0; n < N; ++n) {
    for (int64_t k = 0; k < K; ++k) {
      const uint8_t byte = b.as<const uint8_t>()[k * b.strides[0] + n * b.strides[1]];
      int8_t& to = b_columns[static_cast<size_t>(n * K + k)];
      to = static_cast<int8_t>(byte ^ t);
      of_col[static_cast<size_t>(n)] += static_cast<uint32_t>(to);
    }
  }
  const uint32_t constant = static_cast<uint32_t>(K) * s * t;
  for (int64_t m = 0; m < M; ++m) {
    uint32_t of_row = 0;
    for (int64_t k = 0; k < K; ++k) {
      const uint8_t byte = a.as<const uint8_t>()[m * a.strides[0] + k * a.strides[1]];
      a_row[static_cast<size_t>(k)] = byte ^ s;
      of_row += a_row[static_cast<size_t>(k)];
    }
    for (int64_t n = 0; n < N; ++n) {
      uint32_t sum = static_cast<uint32_t>(dot_bytes(a_row.data(), b_columns.data() + n * K, K));
      sum += t * of_row;
      sum -= s * of_col[static_cast<size_t>(n)];
      sum -= constant;
      if (accumulate) sum += static_cast<uint32_t>(c[m * c_row + n]);
      c[m * c_row + n] = static_cast<int32_t>(sum);
    }
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
