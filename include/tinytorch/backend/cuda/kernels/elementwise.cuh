// Elementwise kernels: unary, binary, where, casts, copies and fills, for every dtype and layout (contract:
// backend/cpu/elementwise.hpp).
//
// A thread loads its elements (walk.cuh), converts them to the compute type, applies the function, converts
// the results and stores them. Dtype and function are selected at run time, once per thread and without warp
// divergence, so there is one kernel per compute type. Limit: memory bandwidth, each element once.
#pragma once

#include <cstring>
#include <tinytorch/backend/cuda/device/functions.cuh>
#include <tinytorch/backend/cuda/device/walk.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

template <class C, int kCount>
static __global__ void __launch_bounds__(kElementwiseBlock)
    unary_kernel(const __grid_constant__ Operands<2> o, UnaryFn fn, C p0, C p1) {
  constexpr int kFunctions = std::is_integral_v<C> ? kLastIntegerUnary + 1 : kUnaryCount;
  const Share<C, kCount> share;
  if (share.first >= o.count) return;
  C v[kCount];
  read(v, o, 1, share);
  select<UnaryFn::identity, kFunctions>(static_cast<int>(fn), [&]<UnaryFn kFn>() {
#pragma unroll
    for (C& value : v) {
      if constexpr (kFn == UnaryFn::gelu && std::is_same_v<C, float>) {
        // Its short formula, whatever the layout of the operands.
        const bool narrow =
            kCount == kPerThread16Bit || (is_16_bit(o.operand[0].dtype) && is_16_bit(o.operand[1].dtype));
        value = narrow ? gelu_16_bit(value) : unary_of<kFn>(value, p0, p1);
      } else {
        value = unary_of<kFn>(value, p0, p1);
      }
    }
  });
  write(v, o, share);
}

template <class C, int kCount>
static __global__ void __launch_bounds__(kElementwiseBlock)
    binary_kernel(const __grid_constant__ Operands<3> o, BinaryFn fn, C p0) {
  constexpr int kFunctions = std::is_integral_v<C> ? kLastIntegerBinary + 1 : kBinaryCount;
  const Share<C, kCount> share;
  if (share.first >= o.count) return;
  C u[kCount], v[kCount];
  read_two(u, v, o, 1, share);
  select<BinaryFn::add, kFunctions>(static_cast<int>(fn), [&]<BinaryFn kFn>() {
#pragma unroll
    for (int k = 0; k < kCount; ++k) u[k] = binary_of<kFn>(u[k], v[k], p0);
  });
  write(u, o, share);
}

template <class C, int kCount>
static __global__ void __launch_bounds__(kElementwiseBlock)
    where_kernel(const __grid_constant__ Operands<4> o) {
  const Share<C, kCount> share;
  if (share.first >= o.count) return;
  C condition[kCount], u[kCount], v[kCount];
  read(condition, o, 1, share);
  read_two(u, v, o, 2, share);
#pragma unroll
  for (int k = 0; k < kCount; ++k) u[k] = condition[k] != C(0) ? u[k] : v[k];
  write(u, o, share);
}

// Copies elements as unsigned words of their size; the bits do not change.
template <class Word, int kCount>
static __global__ void __launch_bounds__(kElementwiseBlock)
    copy_kernel(const __grid_constant__ Operands<2> o) {
  const Share<Word, kCount> share;
  if (share.first >= o.count) return;
  Word v[kCount];
  read_as<Word>(v, o, 1, share);
  write_as<Word>(v, o, share);
}

template <class Word, int kCount>
static __global__ void __launch_bounds__(kElementwiseBlock)
    fill_kernel(const __grid_constant__ Operands<1> o, Word value) {
  const Share<Word, kCount> share;
  if (share.first >= o.count) return;
  Word v[kCount];
#pragma unroll
  for (Word& word : v) word = value;
  write_as<Word>(v, o, share);
}

// Casts between types without a common compute type; one element per thread.
template <class To>
static __global__ void __launch_bounds__(kElementwiseBlock)
    cast_kernel(const __grid_constant__ Operands<2> o) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kElementwiseBlock + threadIdx.x;
  if (i >= o.count) return;
  const auto from = [&]<class From>(From*) {
    const From x = static_cast<const From*>(o.operand[1].data)[o.offset(1, i)];
    static_cast<To*>(o.operand[0].data)[o.offset(0, i)] = to<To>(x);
  };
  for_any_stored(o.operand[1].dtype, from);
}

// Transposes matrices whose columns are contiguous in x and whose rows are contiguous in out. A tile in
// shared memory makes both sides coalesced; its odd width avoids bank conflicts. The operands give the first
// element of each matrix.
inline constexpr int kTile = 32, kTileLines = 8;
template <class Word>
static __global__ void __launch_bounds__(kTile* kTileLines)
    transpose_kernel(const __grid_constant__ Operands<2> matrices, int64_t rows, int64_t cols,
                     int64_t out_row, int64_t x_col) {
  __shared__ Word tile[kTile][kTile + 1];
  Word* out = static_cast<Word*>(matrices.operand[0].data) + matrices.offset(0, blockIdx.z);
  const Word* x = static_cast<const Word*>(matrices.operand[1].data) + matrices.offset(1, blockIdx.z);
  const int64_t r0 = static_cast<int64_t>(blockIdx.x) * kTile, c0 = static_cast<int64_t>(blockIdx.y) * kTile;
  const int lane = static_cast<int>(threadIdx.x), line = static_cast<int>(threadIdx.y);
  for (int c = line; c < kTile; c += kTileLines) {
    if (r0 + lane < rows && c0 + c < cols) tile[c][lane] = x[(c0 + c) * x_col + r0 + lane];
  }
  __syncthreads();
  for (int r = line; r < kTile; r += kTileLines) {
    if (r0 + r < rows && c0 + lane < cols) out[(r0 + r) * out_row + c0 + lane] = tile[lane][r];
  }
}

// --- launchers ---

void unary(UnaryFn fn, const View& out, const View& x, double p0, double p1) {
  if (out.numel() == 0) return;
  if (!strides_fall(out.shape, out.strides)) {
    return in_order_of(out, {x}, [&](const View& to, const View(&in)[1]) { unary(fn, to, in[0], p0, p1); });
  }
  dispatch_compute(x.dtype, [&]<class C>(C*) {
    if (std::is_integral_v<C> && static_cast<int>(fn) > kLastIntegerUnary) {
      fail("TT-DTYPE-02", "unary: this function needs a floating dtype");
    }
    launch_elementwise<C>(
        {out, x}, [&]<int kCount>() { return unary_kernel<C, kCount>; }, fn, convert<C>(p0), convert<C>(p1));
  });
}

void binary(BinaryFn fn, const View& out, const View& a, const View& b, double p0) {
  if (out.numel() == 0) return;
  if (!strides_fall(out.shape, out.strides)) {
    return in_order_of(out, {a, b},
                       [&](const View& to, const View(&in)[2]) { binary(fn, to, in[0], in[1], p0); });
  }
  dispatch_compute(a.dtype, [&]<class C>(C*) {
    if (std::is_integral_v<C> && static_cast<int>(fn) > kLastIntegerBinary) {
      fail("TT-DTYPE-02", "binary: this function needs a floating dtype");
    }
    launch_elementwise<C>(
        {out, a, b}, [&]<int kCount>() { return binary_kernel<C, kCount>; }, fn, convert<C>(p0));
  });
}

void where(const View& out, const View& condition, const View& a, const View& b) {
  if (out.numel() == 0) return;
  if (!strides_fall(out.shape, out.strides)) {
    return in_order_of(out, {condition, a, b},
                       [](const View& to, const View(&in)[3]) { where(to, in[0], in[1], in[2]); });
  }
  dispatch_compute(out.dtype, [&]<class C>(C*) {
    launch_elementwise<C>({out, condition, a, b}, [&]<int kCount>() { return where_kernel<C, kCount>; });
  });
}

// Calls f with a null pointer to the unsigned type that has the size of the dtype.
template <class F>
void dispatch_size(DType t, F&& f) {
  if (size_of(t) == 1) return f(static_cast<uint8_t*>(nullptr));
  if (size_of(t) == 2) return f(static_cast<uint16_t*>(nullptr));
  if (size_of(t) == 4) return f(static_cast<uint32_t*>(nullptr));
  f(static_cast<uint64_t*>(nullptr));
}

// Queues the copy if it is a transposition of matrices; else returns false.
template <class Word>
bool transpose(const Plan<2>& plan) {
  const int last = plan.shape.size() - 1;
  if (last == 0 || plan.strides[0][last] != 1 || plan.strides[1][last - 1] != 1 ||
      plan.strides[1][last] <= 1) {
    return false;
  }
  const int64_t rows = plan.shape[last - 1], cols = plan.shape[last],
                matrices = plan.shape.numel() / (rows * cols);
  const dim3 grid(static_cast<unsigned>(ceil_div(rows, kTile)), static_cast<unsigned>(ceil_div(cols, kTile)),
                  static_cast<unsigned>(matrices));
  if (grid.y > 65535 || matrices > 65535) return false;  // limits of a CUDA grid
  Operands<2> walk = plan.operands;
  walk.rank = last - 1;
  if (last == 1) {  // a single matrix
    walk.rank = 1;
    walk.operand[0].stride[0] = walk.operand[1].stride[0] = 0;
  }
  launch(transpose_kernel<Word>, {grid, dim3(kTile, kTileLines)}, walk, rows, cols, plan.strides[0][last - 1],
         plan.strides[1][last]);
  return true;
}

void copy(const View& out, const View& x) {
  if (out.numel() == 0) return;
  if (!strides_fall(out.shape, out.strides)) {
    return in_order_of(out, {x}, [](const View& to, const View(&in)[1]) { copy(to, in[0]); });
  }
  if (out.dtype == x.dtype) {
    return dispatch_size(out.dtype, [&]<class Word>(Word*) {
      const Plan<2> plan({out, x}, kPerThread<Word>);
      if (transpose<Word>(plan)) return;
      launch_elementwise<Word>({out, x}, [&]<int kCount>() { return copy_kernel<Word, kCount>; });
    });
  }
  if (is_floating(out.dtype) && is_floating(x.dtype) && size_of(out.dtype) < 8 && size_of(x.dtype) < 8) {
    return unary(UnaryFn::identity, out, x, 0, 0);  // float represents all values of both types
  }
  dispatch(out.dtype, [&]<class To>(To*) {
    const Plan<2> plan({out, x}, 1);
    launch(cast_kernel<To>, over(plan.operands.count, kElementwiseBlock), plan.operands);
  });
}

template <class V>
void fill_with(const View& out, V value) {
  if (out.numel() == 0) return;
  dispatch(out.dtype, [&]<class T>(T*) {
    using Word = std::conditional_t<
        sizeof(T) == 1, uint8_t,
        std::conditional_t<sizeof(T) == 2, uint16_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>>;
    const T element = convert<T>(value);
    Word word;
    std::memcpy(&word, &element, sizeof(word));
    const View flat{out.data, out.dtype, {out.numel()}, {1}};  // the order of the elements does not matter
    launch_elementwise<Word>(
        {is_dense(out.shape, out.strides) ? flat : out},
        [&]<int kCount>() { return fill_kernel<Word, kCount>; }, word);
  });
}
void fill(const View& out, double value) { fill_with(out, value); }
void fill(const View& out, int64_t value) { fill_with(out, value); }

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
