// Masks by magnitude: the elements nearest to 0 go. random_mask is the control that any criterion must beat.
//
// The frame of a course header: it has the given parts, and includes the functions of task 8.1. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <tinytorch/core/random.hpp>
#include <tinytorch/pruning/sparsity.hpp>

namespace tinytorch::inline TT_BUILD {

// Chooses whether each tensor loses the share (layer), or all tensors together (global).
enum class MaskScope : uint8_t { layer, global };

inline Tensor magnitude_mask(const Tensor& w, double sparsity, TT_LOC);  // task 8.1
inline Tensors magnitude_masks(const Tensors& weights, double sparsity, MaskScope scope = MaskScope::layer,
                               TT_LOC);  // task 8.1
inline Tensor random_mask(const Shape& shape, double sparsity, Generator& generator = default_generator(),
                          TT_LOC);  // task 8.1

}  // namespace tinytorch::inline TT_BUILD

#include <tasks/pruning/magnitude.hpp>
