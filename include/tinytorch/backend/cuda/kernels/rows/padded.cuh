// Rows of an operand as kernels with vector loads need them: contiguous elements, and each row begins at a
// multiple of 16 bytes and is a multiple of 16 bytes long.
#pragma once

#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// x [M, K] as rows of T: in place if it is so, else a copy with zeros behind each row, rounded to T.
template <class T>
class PaddedRows {
 public:
  explicit PaddedRows(const View& x)
      : usable_(x.dtype == dtype_of<T> && x.strides[1] == 1 && x.strides[0] % kEach == 0 &&
                x.strides[0] >= x.shape[1] && x.shape[1] % kEach == 0 &&
                reinterpret_cast<uintptr_t>(x.data) % 16 == 0),
        columns_(ceil_div(x.shape[1], kEach) * kEach),
        own_(usable_ ? 0 : x.shape[0] * columns_),
        data_(usable_ ? x.as<const T>() : own_.data()),
        row_(usable_ ? x.strides[0] : columns_) {
    if (usable_ || x.numel() == 0) return;
    if (columns_ != x.shape[1]) fill({own_.data(), dtype_of<T>, {x.shape[0], columns_}, {columns_, 1}}, 0.0);
    copy({own_.data(), dtype_of<T>, x.shape, {columns_, 1}}, x);
  }
  const T* data() const { return data_; }
  int64_t row() const { return row_; }          // distance of rows, in elements
  int64_t columns() const { return columns_; }  // with the zeros

 private:
  static constexpr int64_t kEach = 16 / static_cast<int64_t>(sizeof(T));
  bool usable_;
  int64_t columns_;
  DeviceScratch<T> own_;
  const T* data_;
  int64_t row_;
};

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
