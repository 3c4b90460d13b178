// Contiguous operands: a tensor as one contiguous row-major array of the compute type.
//
// Kernels with their own loop nests (convolution, pooling, norms, losses) are written for contiguous float or
// double only. An operand that already has this form is used in place. Any other operand (strided, bf16, f16)
// is first converted into scratch memory, and an output is converted back at the end.
#pragma once

#include <optional>
#include <tinytorch/backend/cpu/loops/copy.hpp>
#include <tinytorch/core/allocator.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// A contiguous view of `data` in the shape of `like`.
template <class T>
View contiguous_view(const T* data, const View& like) {
  View v{const_cast<T*>(data), dtype_of<T>, like.shape, Strides::filled(like.rank(), 1)};
  for (int d = v.rank() - 2; d >= 0; --d) v.strides[d] = v.strides[d + 1] * v.shape[d + 1];
  return v;
}

template <class T>
class ContiguousInput {
 public:
  // A view without data (an absent bias) gives a null pointer.
  explicit ContiguousInput(const View& v) {
    if (!v.data) return;
    if (v.dtype == dtype_of<T> && v.contiguous()) {
      data_ = v.as<const T>();
      return;
    }
    scratch_.emplace(v.numel());
    data_ = scratch_->data();
    copy_view(contiguous_view(data_, v), v);
  }
  const T* data() const { return data_; }

 private:
  std::optional<Scratch<T>> scratch_;
  const T* data_ = nullptr;
};

template <class T>
class ContiguousOutput {
 public:
  explicit ContiguousOutput(const View& v) : view_(v) {
    if (!v.data) return;
    if (v.dtype == dtype_of<T> && v.contiguous()) {
      data_ = v.as<T>();
      return;
    }
    scratch_.emplace(v.numel());
    data_ = scratch_->data();
  }
  T* data() { return data_; }
  // Converts the values to the view's dtype and layout. Call it once, when all values are stored.
  void write_back() {
    if (scratch_) copy_view(view_, contiguous_view(data_, view_));
  }
  void finish() { write_back(); }  // deprecated since 0.1.0, ends with 0.2.0: call write_back

 private:
  View view_;
  std::optional<Scratch<T>> scratch_;
  T* data_ = nullptr;
};

// Deprecated names, kept for one version.
template <class T>
using DenseInput = ContiguousInput<T>;
template <class T>
using DenseOutput = ContiguousOutput<T>;

// Calls f with a null pointer of the compute type of floating dtype t: double for f64, else float. Throws
// TT-DTYPE-02 for other dtypes.
template <class F>
void dispatch_floating(DType t, F&& f) {
  if (!is_floating(t)) fail("TT-DTYPE-02", "this kernel needs a floating dtype");
  if (t == DType::f64) return f(static_cast<double*>(nullptr));
  f(static_cast<float*>(nullptr));
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
