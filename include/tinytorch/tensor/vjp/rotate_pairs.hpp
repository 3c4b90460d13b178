// Derivative of rotate_pairs: a rotation is linear, and its transpose rotates back.
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <algorithm>
#include <string>
#include <tinytorch/backend/cpu/embedding.hpp>
#include <tinytorch/backend/cpu/rotate_pairs.hpp>
#include <tinytorch/backend/cuda/device/fault.hpp>
#include <tinytorch/tensor/apply.hpp>

namespace tinytorch::inline TT_BUILD {

// x, cos, sin and, if they differ, positions -> x rotated
struct RotatePairsOp final : Primitive<RotatePairsOp> {
  static constexpr const char* kName = "rotate_pairs";
  struct Places {
    int64_t first = 0, bound = 0;  // as in RotationTables
    bool inverse = false;
  };
  Places places;
  explicit RotatePairsOp(const Places& p) : places(p) {}
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
  Tensors vjp(const Saved& s, const Tensors& g) const override {
    Tensors in = s.inputs, grads(in.size());
    in[0] = g[0];
    grads[0] = apply(RotatePairsOp({places.first, places.bound, !places.inverse}), in);
    return grads;
  }

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

}  // namespace tinytorch::inline TT_BUILD
#endif
