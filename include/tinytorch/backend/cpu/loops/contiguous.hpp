// Dense operands: a tensor seen as one contiguous array of the compute type.
//
// Kernels with their own loop nests (convolution, pooling, norms, losses) are written for contiguous float or
// double only. An operand that already is that is used in place; any other (strided, bf16, f16) is copied,
// converted, into scratch memory first, and a result is converted back at the end.
#pragma once

#include <optional>
#include <tinytorch/backend/cpu/loops/copy.hpp>
#include <tinytorch/core/allocator.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

template <class T>
class DenseInput {
 public:
  // A view without data (an absent bias) gives a null pointer.
  explicit DenseInput(const View& v) {
    if (!v.data) return;
    if (v.dtype == dtype_of<T> && v.contiguous()) {
      data_ = v.as<const T>();
      return;
    }
    scratch_.emplace(v.numel());
    data_ = scratch_->data();
    Strides strides = Strides::filled(v.rank(), 1);
    for (int d = v.rank() - 2; d >= 0; --d) strides[d] = strides[d + 1] * v.shape[d + 1];
    copy_view({scratch_->data(), dtype_of<T>, v.shape, strides}, v);
  }
  const T* data() const { return data_; }

 private:
  std::optional<Scratch<T>> scratch_;
  const T* data_ = nullptr;
};

template <class T>
class DenseOutput {
 public:
  explicit DenseOutput(const View& v) : view_(v) {
    if (!v.data) return;
    if (v.dtype == dtype_of<T> && v.contiguous()) {
      data_ = v.as<T>();
      return;
    }
    scratch_.emplace(v.numel());
    data_ = scratch_->data();
  }
  T* data() { return data_; }
  // Call when all values are written.
  void finish() {
    if (!scratch_) return;
    Strides strides = Strides::filled(view_.rank(), 1);
    for (int d = view_.rank() - 2; d >= 0; --d) strides[d] = strides[d + 1] * view_.shape[d + 1];
    copy_view(view_, {scratch_->data(), dtype_of<T>, view_.shape, strides});
  }

 private:
  View view_;
  std::optional<Scratch<T>> scratch_;
  T* data_ = nullptr;
};

// Calls f with a null pointer of the type floating tensors of dtype t are computed in: double or float.
template <class F>
void dispatch_floating(DType t, F&& f) {
  if (!is_floating(t)) fail("TT-DTYPE-02", "this kernel needs a floating dtype");
  if (t == DType::f64) return f(static_cast<double*>(nullptr));
  f(static_cast<float*>(nullptr));
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
