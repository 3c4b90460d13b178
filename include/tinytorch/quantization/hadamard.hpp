// A random Hadamard rotation spreads an outlier over all channels, before weights or activations are rounded.
//
//   y = x D H / sqrt(n),   D = diagonal of random signs,   H_ij = (-1)^(number of ones in i AND j)
//
// The rotation Q = D H / sqrt(n) is orthogonal, so (x Q) (W Q)^T = x W^T: rotating the inputs and the weights
// changes no output, and the largest of n values of a vector with one outlier falls by sqrt(n). The signs
// keep a constant vector from becoming an outlier itself. It takes log2(n) additions a value.
//
// If the width K is not a power of two, blocks of n = the largest power of two that divides K are rotated
// (256 of 768): an outlier spreads over its block.
// Source: Ashkboos et al., "QuaRot: outlier-free 4-bit inference in rotated LLMs", 2024.
#pragma once

#include <tinytorch/backend/kv_format.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/quantization/affine.hpp>

namespace tinytorch::inline TT_BUILD {

// Sign of channel j: bit j of the stream of random numbers of this seed.
inline float hadamard_sign(uint64_t seed, int64_t j) {
  constexpr uint64_t kStream = 0x4861646172;  // apart from the numbers of a Generator with this seed
  const PhiloxBlock bits = philox(seed, static_cast<uint64_t>(j / 128), kStream);
  return (bits.v[j % 128 / 32] >> (j % 32)) & 1 ? -1.0f : 1.0f;
}

// x = x H, in place, for n values, a power of two: each step adds and subtracts pairs at distance `half`.
inline void hadamard_transform(double* x, int64_t n) {
  for (int64_t half = 1; half < n; half *= 2) {
    for (int64_t first = 0; first < n; first += 2 * half) {
      for (int64_t i = first; i < first + half; ++i) {
        const double a = x[i], b = x[i + half];
        x[i] = a + b, x[i + half] = a - b;
      }
    }
  }
}

// Rotates each row; `inverse` applies Q^T.
inline Tensor hadamard_apply(const char* op, const Tensor& x, uint64_t seed, bool inverse, Loc loc) {
  const Tensor from = calibration_values(op, x, loc);
  const int64_t K = from.rank() == 0 ? 1 : from.size(-1),
                n = backend::hadamard_block(std::max<int64_t>(K, 1));
  if (K > 0 && n < 2) {
    fail("TT-CALIB-03",
         std::string(op) + ": " + std::to_string(K) +
             " channels have no block of 2, 4, 8, ...\n  hint: pad "
             "the channels to a multiple of a power of two",
         loc);
  }
  const Tensor out = from.clone();
  if (out.numel() == 0) return out.to(x.dtype(), loc).to(x.device(), loc);
  std::vector<float> sign(static_cast<size_t>(K));
  for (int64_t j = 0; j < K; ++j) sign[static_cast<size_t>(j)] = hadamard_sign(seed, j);
  const double factor = 1 / std::sqrt(static_cast<double>(n));
  parallel_for(out.numel() / K, 16, [&](int64_t begin, int64_t end) {
    std::vector<double> row(static_cast<size_t>(K));
    for (int64_t r = begin; r < end; ++r) {
      float* const values = out.data<float>() + r * K;
      for (size_t j = 0; j < row.size(); ++j)
        row[j] = static_cast<double>(inverse ? values[j] : values[j] * sign[j]) * factor;
      for (int64_t first = 0; first < K; first += n) hadamard_transform(row.data() + first, n);
      for (size_t j = 0; j < row.size(); ++j) {
        const auto y = static_cast<float>(row[j]);
        values[j] = inverse ? y * sign[j] : y;
      }
    }
  });
  return out.to(x.dtype(), loc).to(x.device(), loc);
}

// x [..., K], floating -> x Q of the same shape, dtype and device; K is even (else TT-CALIB-03). Rotate a
// weight [N, K] and its inputs with the same seed.
inline Tensor hadamard_rotate(const Tensor& x, uint64_t seed, TT_LOC) {
  return hadamard_apply("hadamard_rotate", x, seed, false, loc);
}
// x Q^T: takes a rotation back.
inline Tensor hadamard_unrotate(const Tensor& x, uint64_t seed, TT_LOC) {
  return hadamard_apply("hadamard_unrotate", x, seed, true, loc);
}

}  // namespace tinytorch::inline TT_BUILD
