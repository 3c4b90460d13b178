// Masks by magnitude: the elements nearest to 0 go. random_mask is the control that any criterion must beat.
//
//   Tensor keep = magnitude_mask(layer.weight, 0.5);                       // half of one layer
//   Tensors all = magnitude_masks(weights, 0.5, MaskScope::global);        // half of all layers together
//
// With one threshold for all layers ("global"), layers with small weights lose more. Counts are exact: ties
// are broken by position, and never by the value, which could remove too many.
// Source: LeCun, Denker, Solla, "Optimal brain damage", 1989, for the idea; Han et al., "Learning both
// weights and connections for efficient neural networks", 2015.
#pragma once

#include <tinytorch/core/random.hpp>
#include <tinytorch/pruning/sparsity.hpp>

namespace tinytorch::inline TT_BUILD {

// Chooses whether each tensor loses the share (layer), or all tensors together (global).
enum class MaskScope : uint8_t { layer, global };

// w of any shape and dtype -> bool mask: round(sparsity n) elements of the least |w| are false. A NaN goes
// last. Throws TT-PRUNE-02 unless 0 <= sparsity < 1.
inline Tensor magnitude_mask(const Tensor& w, double sparsity, TT_LOC) {
  const NoGrad no_grad;
  require_defined("magnitude_mask", loc, w);
  return mask_of_scores(abs(w.detach().to(DType::f64, loc), loc), sparsity, loc);
}

// One mask for each tensor. Throws TT-PRUNE-04 if a global threshold removed all of a tensor.
inline Tensors magnitude_masks(const Tensors& weights, double sparsity, MaskScope scope = MaskScope::layer,
                               TT_LOC) {
  const NoGrad no_grad;
  require_sparsity("magnitude_masks", sparsity, loc);
  Tensors masks, scores;
  for (const Tensor& w : weights) {
    require_defined("magnitude_masks", loc, w);
    if (scope == MaskScope::layer) {
      masks.push_back(magnitude_mask(w, sparsity, loc));
    } else {
      scores.push_back(abs(w.detach().to(cpu, loc).to(DType::f64, loc), loc).reshape({w.numel()}));
    }
  }
  if (scope == MaskScope::layer || scores.empty()) return masks;
  const Tensor all = mask_of_scores(cat(scores, 0, loc), sparsity, loc);
  int64_t at = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const Tensor& w = weights[i];
    const Tensor mask = all.slice(0, at, at + w.numel()).clone().reshape(w.shape());
    at += w.numel();
    if (w.numel() > 0 && sparsity_of(mask, loc) == 1) {
      fail("TT-PRUNE-04",
           "magnitude_masks: a global sparsity of " + std::to_string(sparsity) + " removes all of tensor " +
               std::to_string(i) + ", " + w.describe() +
               "\n  hint: prune less, or by layer: a layer without numbers passes nothing on",
           loc);
    }
    masks.push_back(mask.to(w.device(), loc));
  }
  return masks;
}

// A mask with the same exact count whose elements are drawn by the generator.
inline Tensor random_mask(const Shape& shape, double sparsity, Generator& generator = default_generator(),
                          TT_LOC) {
  const NoGrad no_grad;
  return mask_of_scores(rand(shape, DType::f64, cpu, generator, loc), sparsity, loc);
}

}  // namespace tinytorch::inline TT_BUILD
