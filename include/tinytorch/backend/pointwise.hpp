// A pointwise program: several elementwise operations that are computed together, element by element.
//
// Fusion (acceleration/fusion.hpp) makes one program of neighbouring operations, so that the values between
// them stay in registers or in the L1 cache. The interpreter (backend/cpu/pointwise.hpp) and the code
// generators run it. A program gives the same bits as its operations one by one: each result is rounded to
// its dtype before the next step reads it.
#pragma once

#include <cstdint>
#include <tinytorch/core/dtype.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend {

enum class PointwiseKind : uint8_t { unary, binary, where, convert };

// One operation. `in` are numbers of values: first the inputs of the program, then the results of its steps.
struct PointwiseStep {
  using Kind = PointwiseKind;
  Kind kind = Kind::convert;
  uint8_t fn = 0;            // the UnaryFn or BinaryFn
  DType dtype = DType::f32;  // of the result; bool results are 0 or 1
  int in[3] = {-1, -1, -1};  // operands that the kind does not have are -1
  double p[2] = {0, 0};      // parameters of the function, such as the bounds of clamp

  // Sets the function; true, so that a primitive can return it.
  template <class Fn = uint8_t>
  bool set(Kind k, Fn f = Fn{}, double p0 = 0, double p1 = 0) {
    kind = k, fn = static_cast<uint8_t>(f), p[0] = p0, p[1] = p1;
    return true;
  }
  int operands() const { return kind == Kind::where ? 3 : kind == Kind::binary ? 2 : 1; }
};

// All values have dtypes that are computed in one type, `compute`: f32 for f32, bf16, f16 and bool; f64 for
// f64 and bool.
struct PointwiseProgram {
  DType compute = DType::f32;
  std::vector<DType> inputs;
  std::vector<PointwiseStep> steps;
  std::vector<int> outputs;  // numbers of the values that are written to memory, each once

  int values() const { return static_cast<int>(inputs.size() + steps.size()); }
  DType dtype_of_value(int v) const {
    const auto inputs_ = static_cast<int>(inputs.size());
    return v < inputs_ ? inputs[static_cast<size_t>(v)] : steps[static_cast<size_t>(v - inputs_)].dtype;
  }
};

// The largest program of the interpreter on a GPU, which gets a program as a kernel argument: inputs, results
// and steps.
inline constexpr int kDeviceOperands = 16, kDeviceResults = 16, kDeviceSteps = 64;

// The largest number of inputs, and of results, of a kernel that a compiler makes of a program.
inline constexpr size_t kKernelOperands = 32;

// The type in which a value of this dtype is computed, if programs can contain it.
constexpr bool pointwise_dtype(DType dtype, DType compute) {
  if (dtype == DType::boolean) return true;
  if (compute == DType::f64) return dtype == DType::f64;
  return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
}

}  // namespace tinytorch::inline TT_BUILD::backend
