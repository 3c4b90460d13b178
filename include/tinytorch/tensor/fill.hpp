// Conversion of a C++ number to an element: an error if the dtype cannot hold the number.
#pragma once

#include <tinytorch/tensor/primitive.hpp>

#if TT_BODIES(TENSOR)
#include <tinytorch/backend/cpu/elementwise.hpp>

namespace tinytorch::inline TT_BUILD {

// Throws TT-DTYPE-07 unless the dtype can hold the value. `what()` describes the tensor; it is called only
// for the message, because most operations with a number call this function.
template <class What>
void require_holds(What&& what, DType dtype, Scalar value, Loc loc) {
  if (can_hold(dtype, value)) return;
  const char* wider = dtype == DType::f32  ? "f64"
                      : is_floating(dtype) ? "f32"
                      : value.integral     ? "i64"
                                           : "f32";
  fail("TT-DTYPE-07",
       "the number " + value.str() + " does not fit " + what() +
           "\n  hint: convert the tensor first with .to(" + wider + ")",
       loc);
}

inline void require_holds(const Tensor& t, Scalar value, Loc loc) {
  require_holds([&] { return t.describe(); }, t.dtype(), value, loc);
}

inline void fill_values(Tensor& t, Scalar value) {
  if (value.integral) {
    TT_KERNEL(t, fill(t.view_of(), value.integer));
  } else {
    TT_KERNEL(t, fill(t.view_of(), value.real));
  }
}

}  // namespace tinytorch::inline TT_BUILD
#endif
