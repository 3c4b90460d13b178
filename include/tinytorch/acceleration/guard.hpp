// Guards: whether arguments are of the kind that was captured.
#pragma once

#include <string>
#include <tinytorch/tensor/graph.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD {

// What a captured graph takes for granted about an argument; its elements may be any.
struct ArgumentKey {
  DType dtype;
  Device device;
  Shape shape;
  Strides strides;
  bool grad;  // whether it needs a gradient

  bool matches(const Tensor& t) const {
    return dtype == t.dtype() && device == t.device() && shape == t.shape() && strides == t.strides() &&
           grad == tracks_grad(t);
  }
};

inline std::vector<ArgumentKey> keys_of(const Tensors& arguments) {
  std::vector<ArgumentKey> keys;
  for (const Tensor& t : arguments)
    keys.push_back({t.dtype(), t.device(), t.shape(), t.strides(), tracks_grad(t)});
  return keys;
}

inline bool matches(const std::vector<ArgumentKey>& keys, const Tensors& arguments) {
  if (keys.size() != arguments.size()) return false;
  for (size_t k = 0; k < keys.size(); ++k) {
    if (!keys[k].matches(arguments[k])) return false;
  }
  return true;
}

// "f32 [2, 3] on cpu, i64 [2] on cpu".
inline std::string described(const Tensors& arguments) {
  std::string text;
  for (const Tensor& t : arguments) text += (text.empty() ? "" : ", ") + t.describe();
  return text;
}

}  // namespace tinytorch::inline TT_BUILD
