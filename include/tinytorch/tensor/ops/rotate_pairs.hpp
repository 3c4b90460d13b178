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
#include <algorithm>
#include <string>
#include <tinytorch/backend/cpu/embedding.hpp>
#include <tinytorch/backend/cpu/rotate_pairs.hpp>
#include <tinytorch/backend/cuda/device/fault.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tensor/rules.hpp>
#include <tinytorch/tensor/vjp/rotate_pairs.hpp>

namespace tinytorch::inline TT_BUILD {

// x, cos, sin and, if they differ, positions -> x rotated
struct RotatePairsOp final : Primitive<RotatePairsOp> {
  static constexpr const char* kName = "rotate_pairs";
  RotationPlaces places;
  explicit RotatePairsOp(const RotationPlaces& p) : places(p) {}
  Specs infer(const Tensors& in, Loc loc) const override {
    if (in.size() > 3)
      require_positions(in[3], in[1].size(0), loc);
    else
      require_following(in[0].size(2), in[1].size(0), loc);
    return {{in[0].shape(), in[0].dtype()}};
  }
  double flops(const Tensors& in, const Tensors&) const override {
    return 3 * static_cast<double>(in[0].numel());
  }
  void run(const Tensors& in, Tensors& out) const override {
    const backend::View positions = in.size() > 3 ? in[3].view_of() : backend::View{};
    TT_KERNEL(out[0],
              rotate_pairs(out[0].view_of(), in[0].view_of(),
                           {in[1].view_of(), in[2].view_of(), positions, places.first, places.inverse}));
  }
  Save saves() const override { return Save::inputs; }
  bool saves_input(size_t i) const override { return i > 0; }
  Tensors vjp(const Saved& s, const Tensors& g) const override { return vjp::rotate_pairs(g[0], s, places); }

 private:
  static std::string outside(int64_t position, int64_t token, int64_t P) {
    return "rotate_pairs: position " + std::to_string(position) + " of token " + std::to_string(token) +
           " is outside [0, " + std::to_string(P) + "), the rows of the tables";
  }
  void require_following(int64_t tokens, int64_t P, Loc loc) const {
    if (tokens == 0 || (places.first >= 0 && places.first <= P - tokens)) return;
    const int64_t token = places.first < 0 ? 0 : std::max<int64_t>(0, P - places.first);
    fail("TT-RANGE-05", outside(places.first + token, token, P), loc);
  }
  // A GPU's positions are checked when the host waits for it the next time.
  void require_positions(const Tensor& positions, int64_t P, Loc loc) const {
    if (positions.device().is_cuda()) {
      if (places.bound > 0 && places.bound <= P) return;
      if constexpr (backend::cuda::is_built())
        backend::cuda::check_range(
            positions.view_of(), P, {}, [P](int64_t value, int64_t at) { return outside(value, at, P); },
            loc);
      return;
    }
    const int64_t at = backend::cpu::first_outside(positions.view_of(), P);
    if (at >= 0) fail("TT-RANGE-05", outside(positions.data<int64_t>()[at], at, P), loc);
  }
};

inline Tensor apply_rotation(const Tensors& inputs, const RotationPlaces& places, Loc loc) {
  return apply(RotatePairsOp(places), inputs, loc);
}

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
  return apply_rotation(in, {tables.first, tables.bound, tables.inverse}, loc);
}

}  // namespace tinytorch::inline TT_BUILD
#endif
