// rotate_pairs: rotates pairs of each vector by the angles of its position, as rotary positions do
// (transformer/positions.hpp), in one pass.
//
//   Tensor q = tt::rotate_pairs(x, {.cos = cos, .sin = sin, .first = 7});    // tokens 7, 8, ...
//
// In a vector the pair (x_i, x_{i + R/2}) becomes (x_i cos - x_{i + R/2} sin, x_{i + R/2} cos + x_i sin), and
// elements from R on are kept. Source: Su et al., 2021.
#pragma once

#include <tinytorch/tensor/operators.hpp>

namespace tinytorch::inline TT_BUILD {

struct RotationTables {
  Tensor cos{}, sin{};   // f32 [P, R / 2]: of each position; constants, without a derivative
  int64_t first = 0;     // position of the first token; the others follow
  Tensor positions{};    // i64 [T]: the position of each token, in place of `first`
  int64_t bound = 0;     // if positions are known to be smaller: at most P; 0: they are checked
  bool inverse = false;  // by minus the angle
};
// x [B, H, T, D], floating point, with any strides; D >= R. 16-bit values are rotated in f32. Throws
// TT-RANGE-05 for a position outside [0, P).
TT_API Tensor rotate_pairs(const Tensor& x, const RotationTables& tables, TT_LOC);

}  // namespace tinytorch::inline TT_BUILD

#if TT_BODIES(TENSOR)
#include <string>
#include <tinytorch/backend/cpu/embedding.hpp>
#include <tinytorch/backend/cuda/device/fault.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tensor/rules.hpp>
#include <tinytorch/tensor/vjp/rotate_pairs.hpp>

namespace tinytorch::inline TT_BUILD {

inline void require_rotation(const Tensor& x, const RotationTables& t, Loc loc) {
  require_defined("rotate_pairs", loc, x, t.cos, t.sin);
  require_floating("rotate_pairs", x, loc);
  const bool tables = t.cos.rank() == 2 && t.cos.shape() == t.sin.shape() && t.cos.dtype() == DType::f32 &&
                      t.sin.dtype() == DType::f32 && t.cos.is_contiguous() && t.sin.is_contiguous();
  const bool fit = tables && x.rank() == 4 && t.cos.size(1) >= 1 && 2 * t.cos.size(1) <= x.size(3) &&
                   (!t.positions.defined() || (t.positions.dtype() == DType::i64 && t.positions.rank() == 1 &&
                                               t.positions.size(0) == x.size(2)));
  if (!fit) {
    fail("TT-SHAPE-02",
         "rotate_pairs: expected x [B, H, T, D], contiguous f32 tables [P, R / 2] with R <= D, and positions "
         "i64 [T] or none; got " +
             describe_operands({x, t.cos, t.sin, t.positions}),
         loc);
  }
}

// Positions of a GPU are checked when the host waits for it the next time.
inline void require_positions(const Tensor& x, const RotationTables& t, Loc loc) {
  const int64_t P = t.cos.size(0);
  const auto message = [P](int64_t value, int64_t at) {
    return "rotate_pairs: position " + std::to_string(value) + " of token " + std::to_string(at) +
           " is outside [0, " + std::to_string(P) + "), the rows of the tables";
  };
  if (!t.positions.defined()) {
    const int64_t last = t.first + x.size(2) - 1;
    if (x.size(2) == 0 || (t.first >= 0 && last < P)) return;
    const bool below = t.first < 0;
    fail("TT-RANGE-05", message(below ? t.first : last, below ? 0 : x.size(2) - 1), loc);
  }
  if (x.device().is_cuda()) {
    if (t.bound > 0 && t.bound <= P) return;
    if constexpr (backend::cuda::is_built())
      backend::cuda::check_range(t.positions.view_of(), P, {}, message, loc);
    return;
  }
  const int64_t at = backend::cpu::first_outside(t.positions.view_of(), P);
  if (at >= 0) fail("TT-RANGE-05", message(t.positions.select(0, at).item<int64_t>(), at), loc);
}

TT_API Tensor rotate_pairs(const Tensor& x, const RotationTables& tables, Loc loc) {
  require_rotation(x, tables, loc);
  require_positions(x, tables, loc);
  Tensors in{x, tables.cos.detach(), tables.sin.detach()};
  if (tables.positions.defined()) in.push_back(tables.positions.contiguous(loc));
  return apply(RotatePairsOp(tables.first, tables.inverse), in, loc);
}

}  // namespace tinytorch::inline TT_BUILD
#endif
