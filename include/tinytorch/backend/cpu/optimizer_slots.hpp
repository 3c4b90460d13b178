// Walks over the elements of many parameters, for optimizer steps on the CPU.
//
// for_slots() cuts the elements of all parameters into pieces for one parallel loop, and step_pieces() gives
// an update its gradients in the parameter's dtype. Optimizers differ only in the update between them
// (optimizer.hpp, optimizer_rules.hpp).
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <tinytorch/backend/functors.hpp>
#include <tinytorch/backend/parameters.hpp>
#include <tinytorch/core/parallel.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend::cpu::slots {

inline constexpr int64_t kOptimizerGrain = 16384;  // elements that make another thread worthwhile
inline constexpr int64_t kOptimizerPiece = 1024;   // elements that stay in the L1 cache

inline void require_same(const char* op, const View& parameter, const View& other) {
  if (parameter.numel() == other.numel() && parameter.dtype == other.dtype && other.contiguous() &&
      parameter.contiguous()) {
    return;
  }
  fail("TT-OPT-01", std::string(op) + ": a view of " + name_of(other.dtype) + " " + other.shape.str() +
                        " does not match the parameter " + name_of(parameter.dtype) + " " +
                        parameter.shape.str() + "\n  hint: both must be contiguous and of one dtype");
}

// Calls f with a null pointer of the parameter's type. Throws TT-OPT-02 if that is not f32 or f64.
template <class F>
void dispatch_optimizer(const char* op, DType t, F&& f) {
  if (t == DType::f32) return f(static_cast<float*>(nullptr));
  if (t == DType::f64) return f(static_cast<double*>(nullptr));
  fail("TT-OPT-02", std::string(op) + ": parameters must be f32 or f64, got " + name_of(t) +
                        "\n  hint: keep an f32 copy of 16-bit parameters and step that");
}

// Calls f(first element, count, gradient from there on as T) for elements [begin, end) of a slot, and then
// writes the rounded copy of the parameter. A gradient of 16 bits, or with a factor, is converted in a
// buffer.
template <class T, class F>
void step_pieces(const OptimizerSlot& slot, double factor, int64_t begin, int64_t end, F&& f) {
  const bool direct = slot.gradient.dtype == dtype_of<T> && factor == 1;
  if (direct && !slot.rounded.data) return f(begin, end - begin, slot.gradient.as<const T>() + begin);
  T buffer[kOptimizerPiece];
  for (int64_t at = begin; at < end; at += kOptimizerPiece) {
    const int64_t count = std::min(kOptimizerPiece, end - at);
    dispatch(slot.gradient.dtype, [&]<class G>(G*) {
      const G* g = slot.gradient.as<const G>() + at;
      for (int64_t i = 0; i < count; ++i) buffer[i] = static_cast<T>(factor) * convert<T>(g[i]);
    });
    f(at, count, static_cast<const T*>(buffer));
    if (!slot.rounded.data) continue;
    dispatch(slot.rounded.dtype, [&]<class R>(R*) {
      const T* p = slot.parameter.as<const T>() + at;
      R* r = slot.rounded.as<R>() + at;
      for (int64_t i = 0; i < count; ++i) r[i] = convert<R>(p[i]);
    });
  }
}

inline void require_slot(const char* op, const OptimizerSlot& slot) {
  View gradient = slot.gradient;
  if (size_of(gradient.dtype) == 2 && is_floating(gradient.dtype)) gradient.dtype = slot.parameter.dtype;
  require_same(op, slot.parameter, gradient);
  for (const View& state : slot.state) {
    if (state.data) require_same(op, slot.parameter, state);
  }
  View rounded = slot.rounded;
  rounded.dtype = slot.parameter.dtype;
  if (rounded.data) require_same(op, slot.parameter, rounded);
  dispatch_optimizer(op, slot.parameter.dtype, [](auto*) {});
}

// Throws TT-OPT-01 unless the slot has this number of states.
inline void require_states(const char* op, const OptimizerSlot& slot, int count) {
  for (int k = 0; k < 3 && slot.parameter.numel() > 0; ++k) {
    if ((slot.state[k].data != nullptr) == (k < count)) continue;
    fail("TT-OPT-01", std::string(op) + ": a parameter must have " + std::to_string(count) + " states");
  }
}

// Calls f(slot, factor, begin, end) for elements [begin, end) of all slots, or not at all if the factor is
// NaN. One parallel loop covers all slots, as if their elements were adjacent, each slot starting at a
// multiple of kOptimizerPiece.
template <class F>
void for_slots(const char* op, std::span<const OptimizerSlot> slots, const View& scalars, bool clip, F&& f) {
  const double factor = clip ? scalars.as<const double>()[kGradientFactor] : 1.0;
  std::vector<int64_t> first{0};  // position of the first element of each slot
  for (const OptimizerSlot& slot : slots) {
    require_slot(op, slot);
    const int64_t pieces = ceil_div(slot.parameter.numel(), kOptimizerPiece);
    first.push_back(first.back() + pieces * kOptimizerPiece);
  }
  if (std::isnan(factor)) return;
  for (const OptimizerSlot& slot : slots) ++*slot.step.as<int64_t>();
  parallel_for(first.back(), kOptimizerGrain, [&](int64_t begin, int64_t end) {
    const auto after = std::upper_bound(first.begin(), first.end(), begin);
    for (auto s = static_cast<size_t>(after - first.begin()) - 1; s < slots.size() && first[s] < end; ++s) {
      const int64_t from = std::max<int64_t>(0, begin - first[s]),
                    to = std::min(end - first[s], slots[s].parameter.numel());
      if (from < to) f(slots[s], factor, from, to);
    }
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu::slots
