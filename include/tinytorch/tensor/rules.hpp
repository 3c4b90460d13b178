// Checks that the shape and dtype rules of operations share. Each throws an error with a message for the
// user.
#pragma once

#include <concepts>
#include <tinytorch/tensor/primitive.hpp>

namespace tinytorch::inline TT_BUILD {

// The dtype for statistics and sums: f64 for f64 data, else f32.
inline DType statistics_dtype(DType t) { return t == DType::f64 ? DType::f64 : DType::f32; }

inline std::string describe_operands(const Tensors& inputs) {
  std::string s;
  for (const Tensor& t : inputs) {
    if (t.defined()) s += (s.empty() ? "" : " and ") + t.describe();
  }
  return s;
}

// Throws if an operand is undefined, for example because it was moved from. apply() checks this for every
// operation; a function needs the check only if it uses an operand before it calls apply().
inline void require_defined(const char* op, const Tensors& operands, Loc loc) {
  for (const Tensor& t : operands) {
    if (!t.defined()) fail_undefined(op, &t - operands.begin() + 1, loc);
  }
}
template <std::same_as<Tensor>... Operands>
void require_defined(const char* op, Loc loc, const Operands&... operands) {
  if ((operands.defined() && ...)) return;
  int number = 0;
  (void)((++number, operands.defined()) && ...);
  fail_undefined(op, number, loc);
}

inline void require_rank(const char* op, const Tensor& t, int rank, const char* layout, Loc loc) {
  if (t.rank() == rank) return;
  fail("TT-SHAPE-04",
       std::string(op) + ": expected " + layout + " (rank " + std::to_string(rank) + "), got " +
           t.describe() + "\n  hint: reshape, unsqueeze or squeeze the operand",
       loc);
}

inline void require_floating(const char* op, const Tensor& t, Loc loc) {
  if (is_floating(t.dtype())) return;
  fail("TT-DTYPE-02",
       std::string(op) + ": needs a floating dtype, got " + t.describe() +
           "\n  hint: convert first with .to(f32)",
       loc);
}

// Element types that an operation accepts: floating types only, all number types, or also bool.
enum class Accepts : uint8_t { floating, numbers, anything };

inline void require_accepted(const char* op, Accepts accepts, const Tensor& t, Loc loc) {
  if (accepts == Accepts::floating) require_floating(op, t, loc);
  if (accepts == Accepts::numbers && t.dtype() == DType::boolean) {
    fail("TT-DTYPE-05",
         std::string(op) + ": bool is not a number type here, got " + t.describe() +
             "\n  hint: convert first with .to(f32) or .to(i64), or use logical_and / logical_or",
         loc);
  }
}

inline void require_same_dtype(const char* op, const Tensors& inputs, Loc loc) {
  const Tensor* first = nullptr;
  for (const Tensor& t : inputs) {
    if (!t.defined()) continue;
    if (!first) first = &t;
    if (t.dtype() != first->dtype()) {
      fail("TT-DTYPE-03",
           std::string(op) + ": operands differ in dtype: " + describe_operands(inputs) +
               "\n  hint: convert one with .to(" + name_of(first->dtype()) + ") or .to(" +
               name_of(t.dtype()) + ")",
           loc);
    }
  }
}

inline void require_index(const char* op, const Tensor& index, Loc loc) {
  if (index.dtype() == DType::i64) return;
  fail("TT-DTYPE-04",
       std::string(op) + ": indices must be i64, got " + index.describe() +
           "\n  hint: convert them with .to(i64)",
       loc);
}

inline Shape broadcast_or_fail(const char* op, const Tensor& a, const Tensor& b, Loc loc) {
  if (const auto shape = broadcast_shapes(a.shape(), b.shape())) return *shape;
  fail("TT-SHAPE-02",
       std::string(op) + ": shapes do not broadcast: " + describe_operands({a, b}) +
           "\n  rule: aligned at the right, each pair of sizes is equal or one of them is 1"
           "\n  hint: insert a dimension with unsqueeze, or transpose one operand",
       loc);
}

}  // namespace tinytorch::inline TT_BUILD
