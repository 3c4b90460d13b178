// Comparison of two captures of one function: whether a replay of the first still does what the function
// does.
//
// C++ control flow is invisible to a capture: a branch on a variable of the program leaves no trace in the
// graph. So a compiled function is captured again from time to time, and the two records are compared step by
// step.
#pragma once

#include <cstring>
#include <optional>
#include <string>
#include <tinytorch/acceleration/graph.hpp>

namespace tinytorch::inline TT_BUILD {

// True if two external tensors are the same memory, or constants of equal elements, which the function made
// anew.
inline bool same_external(const Tensor& a, const Tensor& b) {
  if (a.storage() == b.storage()) return true;
  if (a.device() != b.device() || a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  if (!a.is_contiguous() || !b.is_contiguous()) return false;
  const Tensor p = a.detach().to(cpu), q = b.detach().to(cpu);
  const auto bytes = [](const Tensor& t) { return t.view_of().as<const char>(); };
  return p.bytes() == 0 || std::memcmp(bytes(p), bytes(q), p.bytes()) == 0;
}

// The degree to which two graphs must be equal. With `replay` everything is equal, so that a replay of one
// computes what the other computes. With `form` the operations and their operands are equal, but sizes,
// numbers and constants may differ.
enum class Sameness : uint8_t { replay, form };

inline bool same_value(const GraphValue& a, const GraphValue& b, Sameness how = Sameness::replay) {
  if (how == Sameness::form) {
    return a.kind == b.kind && a.dtype == b.dtype && a.shape.size() == b.shape.size() &&
           a.device == b.device && a.root == b.root;
  }
  const bool same_layout = a.kind == b.kind && a.dtype == b.dtype && a.shape == b.shape &&
                           a.strides == b.strides && a.device == b.device && a.root == b.root &&
                           a.offset == b.offset;
  return same_layout && (a.kind != ValueKind::external || same_external(a.external, b.external));
}

// The first difference between the steps [0, steps) of `expected` and all steps of `actual`; nothing if they
// are equal.
inline std::optional<std::string> first_difference(const OpGraph& expected, size_t steps,
                                                   const OpGraph& actual, Sameness how = Sameness::replay) {
  const auto name = [](const OpGraph& g, size_t s, size_t end) {
    return s < end ? "'" + std::string(g.steps[s].op->name()) + "'" : std::string("the end");
  };
  for (size_t s = 0; s < std::max(steps, actual.steps.size()); ++s) {
    const bool both = s < steps && s < actual.steps.size();
    const auto difference = [&](const std::string& what) {
      return "step " + std::to_string(s) + " was " + name(expected, s, steps) + " and is now " +
             name(actual, s, actual.steps.size()) + what;
    };
    if (!both) return difference("");
    const GraphStep &a = expected.steps[s], &b = actual.steps[s];
    if (std::strcmp(a.op->name(), b.op->name()) != 0) return difference("");
    if (a.inputs != b.inputs || a.outputs != b.outputs) return difference(" of other operands");
    backend::PointwiseStep p, q;
    if (how == Sameness::replay && a.op->pointwise(p) && b.op->pointwise(q) &&
        (p.p[0] != q.p[0] || p.p[1] != q.p[1]))
      return difference(" with another number");
    for (const auto* list : {&a.inputs, &a.outputs}) {
      for (const int v : *list) {
        if (v >= 0 && !same_value(expected.value(v), actual.value(v), how))
          return difference(" with an operand or result of another shape, layout or constant");
      }
    }
  }
  return std::nullopt;
}

}  // namespace tinytorch::inline TT_BUILD
