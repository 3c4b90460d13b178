// Guards: whether arguments are of the kind that was captured, whether a variant must be looked at again, and
// what happens if a function cannot be captured.
#pragma once

#include <cstdio>
#include <optional>
#include <string>
#include <tinytorch/core/error.hpp>
#include <tinytorch/layers/module.hpp>
#include <tinytorch/tensor/graph.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD {

// The properties of an argument that must be those of the capture; its elements may be any.
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
// captured: the second and third call, if it was recorded and not rehearsed (batch_sizes.hpp); every 1024th;
// and the first one after a module changed its mode. `modes` is mode_changes() when the variant was last
// known to be right.
inline bool must_look_again(int64_t calls, uint64_t modes, bool rehearsed = false) {
  return calls == 1 || (!rehearsed && calls == 2) || calls % 1024 == 0 || modes != mode_changes();
}

// Finds the arguments whose dimension 0 is the batch size, from two calls: those whose shapes differ. The
// result is nullopt if the calls differ in anything else, if another dimension differs, or if dimension 0
// does not have the same size in all these arguments of a call.
inline std::optional<std::vector<bool>> differ_in_batch(const std::vector<ArgumentKey>& a,
                                                        const std::vector<ArgumentKey>& b) {
  if (a.size() != b.size()) return std::nullopt;
  std::vector<bool> follows(a.size(), false);
  int64_t size_a = -1, size_b = -1;
  for (size_t k = 0; k < a.size(); ++k) {
    const ArgumentKey &x = a[k], &y = b[k];
    if (x.dtype != y.dtype || x.device != y.device || x.grad != y.grad || !(x.strides == y.strides))
      return std::nullopt;
    if (x.shape == y.shape) continue;
    Shape with_size_of_y = x.shape;
    if (x.shape.size() != y.shape.size()) return std::nullopt;
    with_size_of_y[0] = y.shape[0];
    if (!(with_size_of_y == y.shape)) return std::nullopt;
    if (size_a >= 0 && (size_a != x.shape[0] || size_b != y.shape[0])) return std::nullopt;
    size_a = x.shape[0], size_b = y.shape[0];
    follows[k] = true;
  }
  if (size_a < 0) return std::nullopt;
  return follows;
}

// The first guard that arguments fail, as a text: "argument 1: shape [3, 2], captured with [4, 2]".
inline std::string first_failed_guard(const std::vector<ArgumentKey>& keys, const Tensors& arguments) {
  if (keys.size() != arguments.size()) return "number of arguments";
  for (size_t k = 0; k < keys.size(); ++k) {
    const Tensor& t = arguments[k];
    const auto text = [&](const std::string& guard, const std::string& now, const std::string& before) {
      return "argument " + std::to_string(k) + ": " + guard + " " + now + ", captured with " + before;
    };
    if (keys[k].dtype != t.dtype()) return text("dtype", name_of(t.dtype()), name_of(keys[k].dtype));
    if (keys[k].device != t.device()) return text("device", t.device().str(), keys[k].device.str());
    if (!(keys[k].shape == t.shape())) return text("shape", t.shape().str(), keys[k].shape.str());
    if (!(keys[k].strides == t.strides())) return text("strides", t.strides().str(), keys[k].strides.str());
    if (keys[k].grad != tracks_grad(t))
      return text("need of a gradient", tracks_grad(t) ? "yes" : "no", keys[k].grad ? "yes" : "no");
  }
  return "grad_enabled()";
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
