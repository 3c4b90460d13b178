// Guards: whether arguments are of the kind that was captured, whether a variant must be looked at again, and
// what happens if a function cannot be captured.
#pragma once

#include <cstdio>
#include <string>
#include <tinytorch/core/error.hpp>
#include <tinytorch/layers/module.hpp>
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

// True if the next call of a variant runs the function itself, to see whether it still does what was
// captured: the second and third call, every 1024th, and the first one after a module changed its mode.
// `modes` is mode_changes() when the variant was last known to be right.
inline bool must_look_again(int64_t calls, uint64_t modes) {
  return calls == 1 || calls == 2 || calls % 1024 == 0 || modes != mode_changes();
}

// True if the error says that a function cannot be captured or replayed, and not that the function failed.
inline bool refuses_capture(const Error& e) { return std::string(e.code()).rfind("TT-COMPILE", 0) == 0; }
inline void say_eager(const char* what, const std::string& reason) {
  std::fprintf(stderr, "tinytorch: a compiled %s runs eagerly from now on: %s\n", what, reason.c_str());
}

// "f32 [2, 3] on cpu, i64 [2] on cpu".
inline std::string described(const Tensors& arguments) {
  std::string text;
  for (const Tensor& t : arguments) text += (text.empty() ? "" : ", ") + t.describe();
  return text;
}

}  // namespace tinytorch::inline TT_BUILD
