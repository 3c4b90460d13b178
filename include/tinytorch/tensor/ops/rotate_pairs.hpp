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
  int64_t bound = 0;     // > 0: positions are known to be smaller, and a GPU does not check them
  bool inverse = false;  // by minus the angle
};
// x [B, H, T, D], floating point, with any strides; D >= R. 16-bit values are rotated in f32. Throws
// TT-RANGE-05 for a position outside [0, P); with a `bound` that does not hold, a GPU gives NaN.
TT_API Tensor rotate_pairs(const Tensor& x, const RotationTables& tables, TT_LOC);

}  // namespace tinytorch::inline TT_BUILD

#if TT_BODIES(TENSOR)
#include <string>
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

TT_API Tensor rotate_pairs(const Tensor& x, const RotationTables& tables, Loc loc) {
  require_rotation(x, tables, loc);
  Tensors in{x, tables.cos.detach(), tables.sin.detach()};
  if (tables.positions.defined()) in.push_back(tables.positions.contiguous(loc));
  return apply(RotatePairsOp({tables.first, tables.bound, tables.inverse}), in, loc);
}

}  // namespace tinytorch::inline TT_BUILD
#endif
