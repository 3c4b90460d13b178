// dropout: sets elements to 0 with probability p and scales the others, so that the expected value is
// unchanged.
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <tinytorch/backend/cpu/dropout.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tensor/kept_layout.hpp>
#include <tinytorch/tensor/rules.hpp>
#include <tinytorch/tensor/vjp/dropout.hpp>

namespace tinytorch::inline TT_BUILD {

// Stores the position in the random stream, from which the mask is recomputed in the backward pass.
struct DropoutOp final : Primitive<DropoutOp> {
  static constexpr const char* kName = "dropout";
  double p;
  uint64_t seed, first_block;
  DropoutOp(double probability, uint64_t s, uint64_t first) : p(probability), seed(s), first_block(first) {}

  Specs infer(const Tensors& in, Loc loc) const override {
    require_floating(kName, in[0], loc);
    return {{in[0].shape(), in[0].dtype(), kept_layout(in, in[0].shape())}};
  }
  double flops(const Tensors& in, const Tensors&) const override {
    return static_cast<double>(in[0].numel());
  }
  void run(const Tensors& in, Tensors& out) const override {
    TT_KERNEL(out[0], dropout(out[0].view_of(), in[0].view_of(), p, seed, first_block));
  }
  std::optional<GeneratorState> draws_from() const override { return GeneratorState{seed, first_block}; }
  OwnedPrimitive drawing_from(GeneratorState place) const override {
    return OwnedPrimitive(new DropoutOp(p, place.seed, place.next_block));
  }
  Tensors vjp(const Saved&, const Tensors& g) const override { return {vjp::dropout(g[0], *this)}; }
};

TT_API Tensor dropout(const Tensor& x, double p, Generator& generator, Loc loc) {
  require_defined("dropout", loc, x);
  if (!(p >= 0 && p <= 1)) {
    fail("TT-RANGE-02", "dropout: p must be from 0 to 1, got " + std::to_string(p), loc);
  }
  const uint64_t blocks = (static_cast<uint64_t>(x.numel()) + 3) / 4;
  const uint64_t seed = generator.state().seed;
  return apply(DropoutOp(p, seed, generator.reserve(blocks)), {x}, loc);
}

}  // namespace tinytorch::inline TT_BUILD
#endif
