// Scratch buffers in device memory, and operands as contiguous arrays (as in
// backend/cpu/loops/contiguous.hpp).
//
// Device memory is allocated and reused in stream order, so a launcher may free a scratch buffer as soon as
// the kernels that use it are queued.
#pragma once

#include <optional>
#include <tinytorch/backend/cuda/device/kernel.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// A scratch buffer of `elements` elements of T, uninitialized; null for 0 elements.
template <class T>
class DeviceScratch {
 public:
  explicit DeviceScratch(int64_t elements)
      : device_(current_device()),
        bytes_(static_cast<size_t>(elements) * sizeof(T)),
        data_(bytes_ == 0 ? nullptr : allocate(bytes_, device_)) {}
  ~DeviceScratch() {
    if (data_) deallocate(data_, bytes_, device_);
  }
  DeviceScratch(const DeviceScratch&) = delete;
  DeviceScratch& operator=(const DeviceScratch&) = delete;
  T* data() const { return static_cast<T*>(data_); }

 private:
  int device_;
  size_t bytes_;
  void* data_;
};

// Defined in kernels/elementwise.cuh. It is declared here because headers of device/ include none of
// kernels/.
void copy(const View& out, const View& x);

inline View contiguous_view(void* data, DType dtype, const Shape& shape) {
  Strides strides = Strides::filled(shape.size(), 1);
  for (int d = shape.size() - 2; d >= 0; --d) strides[d] = strides[d + 1] * shape[d + 1];
  return {data, dtype, shape, strides};
}

// A contiguous view of v: v itself if it is contiguous, else a copy with the same dtype. A view without data
// stays without data.
class Contiguous {
 public:
  explicit Contiguous(const View& v) : view_(v) {
    if (!v.data || v.contiguous()) return;
    scratch_.emplace(v.numel() * static_cast<int64_t>(size_of(v.dtype)));
    view_ = contiguous_view(scratch_->data(), v.dtype, v.shape);
    copy(view_, v);
  }
  const View& view() const { return view_; }
  template <class T>
  T* as() const {
    return view_.as<T>();
  }

 private:
  std::optional<DeviceScratch<char>> scratch_;
  View view_;
};

// An input as a contiguous array of T: v's memory if its layout and dtype fit, else a converted copy. A view
// without data (an absent bias) gives a null pointer.
template <class T>
class ContiguousInput {
 public:
  explicit ContiguousInput(const View& v) {
    if (!v.data) return;
    if (v.dtype == dtype_of<T> && v.contiguous()) {
      data_ = v.as<const T>();
      return;
    }
    scratch_.emplace(v.numel());
    data_ = scratch_->data();
    copy(contiguous_view(scratch_->data(), dtype_of<T>, v.shape), v);
  }
  const T* data() const { return data_; }

 private:
  std::optional<DeviceScratch<T>> scratch_;
  const T* data_ = nullptr;
};

// An output as a contiguous array of T: v's memory if its layout and dtype fit, else a scratch buffer that
// write_back() copies and converts to v.
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
  T* data() const { return data_; }
  // Call after all kernels that write data() are queued.
  void write_back() {
    if (scratch_) copy(view_, contiguous_view(scratch_->data(), dtype_of<T>, view_.shape));
  }
  void finish() { write_back(); }  // deprecated since 0.1.0, ends with 0.2.0: call write_back

 private:
  View view_;
  std::optional<DeviceScratch<T>> scratch_;
  T* data_ = nullptr;
};

// Calls f with a null pointer of the storage type of a floating dtype t. Throws TT-DTYPE-02 for other dtypes.
template <class F>
void dispatch_stored(DType t, F&& f) {
  if (t == DType::f32) return f(static_cast<float*>(nullptr));
  if (t == DType::bf16) return f(static_cast<BFloat16*>(nullptr));
  if (t == DType::f16) return f(static_cast<Half*>(nullptr));
  if (t == DType::f64) return f(static_cast<double*>(nullptr));
  fail("TT-DTYPE-02", "this kernel needs a floating dtype");
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
