// Elementwise operations on the CPU: unary, binary, where, casts and copies, for every dtype and layout.
//
// Contract: out has the broadcast shape; inputs broadcast to it (missing leading dimensions and sizes of 1
// stretch). out may be the same memory as an input, element for element; otherwise they must not overlap.
// The given parts choose the types and the function before a loop begins, so a loop has only pointers, steps
// and a function.
//
// Task 1.4: map, zip, choose. The given parts of this header are in
// modules/01_tensor/frame/tinytorch/backend/cpu/elementwise.hpp, which includes this file.
#pragma once

namespace tinytorch::inline TT_BUILD::backend::cpu {

// out = f(x), element by element. x is broadcast to out's shape. Out and In are the types of their elements,
// and f takes an In and returns an Out. Rows<2>({out, x}) says where each row begins and how far apart its
// elements are.
template <class Out, class In, class F>
void map(const View& out, const View& x, F f) {
  const Rows<2> rows({out, x});
  for (int64_t row = 0; row < rows.count; ++row) {
    Out* to = out.as<Out>() + rows.start(0, row);
    const In* from = x.as<const In>() + rows.start(1, row);
    for (int64_t j = 0; j < rows.length; ++j) to[j * rows.step(0)] = f(from[j * rows.step(1)]);
  }
}

// out = f(a, b), element by element. a and b have elements of the same type, and each is broadcast to out's
// shape separately: [3, 1] and [4] give [3, 4].
template <class Out, class In, class F>
void zip(const View& out, const View& a, const View& b, F f) {
  const Rows<3> rows({out, a, b});
  for (int64_t row = 0; row < rows.count; ++row) {
    Out* to = out.as<Out>() + rows.start(0, row);
    const In* left = a.as<const In>() + rows.start(1, row);
    const In* right = b.as<const In>() + rows.start(2, row);
    for (int64_t j = 0; j < rows.length; ++j) {
      to[j * rows.step(0)] = f(left[j * rows.step(1)], right[j * rows.step(2)]);
    }
  }
}

// out = a where the condition is true, else b. Elements of out, a and b are T, and all three inputs are
// broadcast to out's shape. Values are copied and not computed with, so a value that is not chosen may even
// be a NaN.
template <class T>
void choose(const View& out, const View& condition, const View& a, const View& b) {
  const Rows<4> rows({out, condition, a, b});
  for (int64_t row = 0; row < rows.count; ++row) {
    T* to = out.as<T>() + rows.start(0, row);
    const bool* holds = condition.as<const bool>() + rows.start(1, row);
    const T* yes = a.as<const T>() + rows.start(2, row);
    const T* no = b.as<const T>() + rows.start(3, row);
    for (int64_t j = 0; j < rows.length; ++j) {
      to[j * rows.step(0)] = holds[j * rows.step(1)] ? yes[j * rows.step(2)] : no[j * rows.step(3)];
    }
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
