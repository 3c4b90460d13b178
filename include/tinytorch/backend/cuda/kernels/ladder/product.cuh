// Parts that the kernels of ladder/steps.hpp share: operands with contiguous rows, and the tile of a block.
#pragma once

#include <optional>
#include <string>
#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/device/kernel.cuh>
#include <tinytorch/backend/cuda/device/vector.cuh>
#include <tinytorch/backend/cuda/kernels/ladder/steps.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// out [M, N] = a [M, K] b [K, N]. Element [m, k] of a is a[m * a_row + k]. The flags tell whether each piece
// of 16 bytes of a matrix, counted from the beginning of a row, is aligned.
template <class T>
struct LadderProduct {
  void* out;
  const T *a, *b;
  int64_t M, N, K, out_row, a_row, b_row;
  bool narrow, out_vectors, a_vectors, b_vectors;  // narrow: out is bf16, not f32

  __device__ __forceinline__ void write(int64_t m, int64_t n, float sum) const {
    if (narrow)
      static_cast<BFloat16*>(out)[m * out_row + n] = to<BFloat16>(sum);
    else
      static_cast<float*>(out)[m * out_row + n] = sum;
  }
};

// The first row and column of the tile of a block. Tiles are numbered along the rows of out.
struct LadderTile {
  int64_t m, n;
};
__device__ __forceinline__ LadderTile ladder_tile(int64_t N, int rows, int cols) {
  const int64_t across = ceil_div(N, cols);
  return {static_cast<int64_t>(blockIdx.x) / across * rows, static_cast<int64_t>(blockIdx.x) % across * cols};
}
// A block for each tile of out, partial tiles included.
template <class T>
dim3 ladder_grid(const LadderProduct<T>& p, int rows, int cols) {
  return dim3(static_cast<unsigned>(ceil_div(p.M, rows) * ceil_div(p.N, cols)));
}

// to [rows, cols] = from, of 16 or 32 bits an element; `all` is rows cols.
template <class Bits>
__global__ void __launch_bounds__(256)
    copy_matrix_kernel(Bits* to_, int64_t to_row, int64_t to_col, const Bits* from, int64_t row, int64_t col,
                       int64_t cols, int64_t all) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (i < all) to_[i / cols * to_row + i % cols * to_col] = from[i / cols * row + i % cols * col];
}
inline void copy_matrix(const View& to_, const View& from) {
  const auto run = [&]<class Bits>(Bits*) {
    launch(copy_matrix_kernel<Bits>, over(from.numel(), 256), to_.as<Bits>(), to_.strides[0], to_.strides[1],
           from.as<const Bits>(), from.strides[0], from.strides[1], from.shape[1], from.numel());
  };
  if (size_of(from.dtype) == 2) return run(static_cast<uint16_t*>(nullptr));
  run(static_cast<uint32_t*>(nullptr));
}

// A matrix with contiguous rows: the view itself, or a copy.
class LadderOperand {
 public:
  explicit LadderOperand(const View& v) : view_(v) {
    if (v.strides[1] == 1 || v.shape[1] <= 1 || v.numel() == 0) return;
    copy_.emplace(v.numel() * static_cast<int64_t>(size_of(v.dtype)));
    view_ = contiguous_view(copy_->data(), v.dtype, v.shape);
    copy_matrix(view_, v);
  }
  const View& view() const { return view_; }
  bool vectors() const {
    const auto bytes = static_cast<int64_t>(size_of(view_.dtype));
    return reinterpret_cast<uintptr_t>(view_.data) % 16 == 0 && view_.strides[0] * bytes % 16 == 0;
  }

 private:
  std::optional<DeviceScratch<char>> copy_;
  View view_;
};

// Checks the operands, and calls run(p) unless out is empty.
template <class T, class F>
void run_ladder_product(const char* name, const View& out, const View& a, const View& b, F&& run) {
  const std::string op = std::string(name) + ": ";
  if (out.rank() != 2 || a.rank() != 2 || b.rank() != 2)
    fail("TT-SHAPE-04", op + "out, a and b are matrices");
  if (a.shape[1] != b.shape[0] || out.shape[0] != a.shape[0] || out.shape[1] != b.shape[1])
    fail("TT-SHAPE-02", op + "out " + out.shape.str() + " is no product of " + a.shape.str() + " and " +
                            b.shape.str() + "; it must be [M, N], of [M, K] and [K, N]");
  const bool narrow = out.dtype == DType::bf16 && dtype_of<T> == DType::bf16;
  if (a.dtype != dtype_of<T> || b.dtype != dtype_of<T> || (out.dtype != DType::f32 && !narrow))
    fail("TT-DTYPE-02", op + "a and b must be " + name_of(dtype_of<T>) + ", and out f32" +
                            (dtype_of<T> == DType::bf16 ? " or bf16" : ""));
  if (out.numel() == 0) return;
  const LadderOperand a_rows(a), b_rows(b);
  const auto product = [&](const View& to) {
    const LadderOperand result(to);
    run(LadderProduct<T>{to.data, a_rows.view().template as<const T>(), b_rows.view().template as<const T>(),
                         out.shape[0], out.shape[1], a.shape[1], to.strides[0], a_rows.view().strides[0],
                         b_rows.view().strides[0], narrow, result.vectors(), a_rows.vectors(),
                         b_rows.vectors()});
  };
  if (out.strides[1] == 1 || out.shape[1] == 1) return product(out);
  DeviceScratch<char> rows(out.numel() * static_cast<int64_t>(size_of(out.dtype)));
  const View whole = contiguous_view(rows.data(), out.dtype, out.shape);
  product(whole);
  copy_matrix(out, whole);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
