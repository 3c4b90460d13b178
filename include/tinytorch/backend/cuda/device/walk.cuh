// Elementwise access: maps the threads of a grid to the elements of strided and broadcast operands.
//
// A thread holds some contiguous elements in registers, in the compute type. If they are contiguous and
// aligned in an operand, they are moved by 16-byte vectors; if they are one element there (broadcast), it is
// read once. If an operand fits neither case, the elements of a thread are a block size apart instead, so
// that the accesses of a warp are still coalesced.
#pragma once

#include <tinytorch/backend/cuda/device/vector.cuh>
#include <tinytorch/backend/layout.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kElementwiseBlock = 256;
// Elements per thread. Vectorized: contiguous elements that fill two 16-byte accesses of the widest operand.
// Strided: two elements, a block size apart.
inline constexpr int kPerThreadStrided = 2;
template <class C>
inline constexpr int kPerThread = sizeof(C) == 8 ? 4 : 8;  // for operands of 4 or 8 bytes
inline constexpr int kPerThread16Bit = 16;                 // for 16-bit operands, computed in float

// The access pattern of a thread to its elements of one operand.
enum class Access : uint8_t { vector, broadcast, strided };

struct Operand {
  void* data = nullptr;
  DType dtype = DType::f32;
  Access access = Access::strided;
  int64_t stride[kMaxRank] = {};
};

// kCount operands with one common shape; operand 0 is the output.
template <int kCount>
struct Operands {
  int rank = 0;
  bool index_fits_31_bits = true;  // row-major indices fit 31 bits, so FastDivide is used
  int64_t count = 0;
  int64_t size[kMaxRank] = {};
  FastDivide divide[kMaxRank];
  Operand operand[kCount];

  // Offset, in elements, of the element with row-major index `linear` in operand `which`.
  __device__ __forceinline__ int64_t offset(int which, int64_t linear) const {
    const int64_t* stride = operand[which].stride;
    if (rank == 1) return linear * stride[0];
    int64_t at = 0;
    if (index_fits_31_bits) {
      auto rest = static_cast<uint32_t>(linear);
#pragma unroll 1
      for (int d = rank - 1; d > 0; --d) {
        const uint32_t quotient = divide[d].quotient(rest);
        at += static_cast<int64_t>(rest - quotient * divide[d].divisor) * stride[d];
        rest = quotient;
      }
      return at + static_cast<int64_t>(rest) * stride[0];
    }
#pragma unroll 1
    for (int d = rank - 1; d > 0; --d) {
      const int64_t quotient = linear / size[d];
      at += (linear - quotient * size[d]) * stride[d];
      linear = quotient;
    }
    return at + linear * stride[0];
  }
};

// The elements of this thread: contiguous from `first` on, or a block size apart.
template <class C, int kCount>
struct Share {
  int64_t first;
  __device__ __forceinline__ Share()
      : first(static_cast<int64_t>(blockIdx.x) * (kElementwiseBlock * kCount) +
              static_cast<int64_t>(threadIdx.x) * (kCount > kPerThreadStrided ? kCount : 1)) {}
  __device__ __forceinline__ int64_t element(int k) const {
    return first + (kCount > kPerThreadStrided ? k : k * kElementwiseBlock);
  }
};

// Reads this thread's elements of operand `which`, which stores T. Only a one-dimensional shape has remainder
// elements: with more dimensions, the last is a multiple of the elements per thread.
template <class T, class C, int kCount, int kOperands>
__device__ __forceinline__ void read_as(C (&out)[kCount], const Operands<kOperands>& o, int which,
                                        const Share<C, kCount>& share) {
  const Operand& operand = o.operand[which];
  const T* data = static_cast<const T*>(operand.data);
  if constexpr (kCount > kPerThreadStrided) {
    const T* p = data + o.offset(which, share.first);
    if (operand.access == Access::broadcast) {
      const C value = to<C>(*p);
#pragma unroll
      for (int k = 0; k < kCount; ++k) out[k] = value;
    } else if (share.first + kCount <= o.count) {
      load(out, p);
    } else {
#pragma unroll
      for (int k = 0; k < kCount; ++k) out[k] = share.first + k < o.count ? to<C>(p[k]) : C{};
    }
  } else {
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      const int64_t i = share.element(k);
      out[k] = i < o.count ? to<C>(data[o.offset(which, i)]) : C{};
    }
  }
}

// Writes this thread's elements to operand 0, which stores T.
template <class T, class C, int kCount, int kOperands>
__device__ __forceinline__ void write_as(const C (&in)[kCount], const Operands<kOperands>& o,
                                         const Share<C, kCount>& share) {
  T* data = static_cast<T*>(o.operand[0].data);
  if constexpr (kCount > kPerThreadStrided) {
    T* p = data + o.offset(0, share.first);
    if (share.first + kCount <= o.count) return store(p, in);
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      if (share.first + k < o.count) p[k] = to<T>(in[k]);
    }
  } else {
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      const int64_t i = share.element(k);
      if (i < o.count) data[o.offset(0, i)] = to<T>(in[k]);
    }
  }
}

// Calls f with a null pointer of the storage type of dtype t, which is one of the types with compute type C,
// or bool.
template <class C, class F>
__device__ __forceinline__ void for_stored(DType t, F&& f) {
  if constexpr (std::is_same_v<C, float>) {
    if (t == DType::f32) return f(static_cast<float*>(nullptr));
    if (t == DType::bf16) return f(static_cast<BFloat16*>(nullptr));
    if (t == DType::f16) return f(static_cast<Half*>(nullptr));
  } else if constexpr (std::is_same_v<C, int32_t>) {
    if (t == DType::i32) return f(static_cast<int32_t*>(nullptr));
    if (t == DType::i8) return f(static_cast<int8_t*>(nullptr));
    if (t == DType::u8) return f(static_cast<uint8_t*>(nullptr));
  } else {
    if (t == dtype_of<C>) return f(static_cast<C*>(nullptr));
  }
  f(static_cast<bool*>(nullptr));  // the result of comparisons, for any compute type
}

// Calls f as for_stored does, for all dtypes.
template <class F>
__device__ __forceinline__ void for_any_stored(DType t, F&& f) {
  if (t == DType::f64) return f(static_cast<double*>(nullptr));
  if (t == DType::i64) return f(static_cast<int64_t*>(nullptr));
  is_floating(t) ? for_stored<float>(t, f) : for_stored<int32_t>(t, f);
}

// read_as and write_as with the storage type of the operand's dtype.
template <class C, int kCount, int kOperands>
__device__ __forceinline__ void read(C (&out)[kCount], const Operands<kOperands>& o, int which,
                                     const Share<C, kCount>& share) {
  for_stored<C>(o.operand[which].dtype, [&]<class T>(T*) { read_as<T>(out, o, which, share); });
}
template <class C, int kCount, int kOperands>
__device__ __forceinline__ void write(const C (&in)[kCount], const Operands<kOperands>& o,
                                      const Share<C, kCount>& share) {
  for_stored<C>(o.operand[0].dtype, [&]<class T>(T*) { write_as<T>(in, o, share); });
}

// All loads of two 16-bit operands are issued before the first conversion waits for a load.
inline constexpr int k16BitVectors = kPerThread16Bit * 2 / 16;
template <int kOperands>
__device__ __forceinline__ void fetch(uint4 (&vectors)[k16BitVectors], const Operands<kOperands>& o,
                                      int which, const Share<float, kPerThread16Bit>& share) {
  const Operand& operand = o.operand[which];
  const uint16_t* p = static_cast<const uint16_t*>(operand.data) + o.offset(which, share.first);
  if (operand.access == Access::broadcast) {
    const unsigned two = *p * 0x10001u;
#pragma unroll
    for (uint4& vector : vectors) vector = make_uint4(two, two, two, two);
  } else if (share.first + kPerThread16Bit <= o.count) {
#pragma unroll
    for (int k = 0; k < k16BitVectors; ++k) vectors[k] = reinterpret_cast<const uint4*>(p)[k];
  } else {
    uint16_t values[kPerThread16Bit] = {};
    for (int k = 0; k < kPerThread16Bit; ++k) {
      if (share.first + k < o.count) values[k] = p[k];
    }
    memcpy(vectors, values, sizeof(vectors));
  }
}
template <class T>
__device__ __forceinline__ void convert_vectors(float (&out)[kPerThread16Bit],
                                                const uint4 (&vectors)[k16BitVectors]) {
  T values[kPerThread16Bit];
  memcpy(values, vectors, sizeof(vectors));
#pragma unroll
  for (int k = 0; k < kPerThread16Bit; ++k) out[k] = to<float>(values[k]);
}
__device__ __forceinline__ void convert_vectors(float (&out)[kPerThread16Bit],
                                                const uint4 (&vectors)[k16BitVectors], DType t) {
  t == DType::bf16 ? convert_vectors<BFloat16>(out, vectors) : convert_vectors<Half>(out, vectors);
}

// Operands `which` and the next one.
template <class C, int kCount, int kOperands>
__device__ __forceinline__ void read_two(C (&u)[kCount], C (&v)[kCount], const Operands<kOperands>& o,
                                         int which, const Share<C, kCount>& share) {
  if constexpr (std::is_same_v<C, float> && kCount == kPerThread16Bit) {
    if (is_16_bit(o.operand[which].dtype) && is_16_bit(o.operand[which + 1].dtype)) {
      uint4 first[k16BitVectors], second[k16BitVectors];
      fetch(first, o, which, share);
      fetch(second, o, which + 1, share);
      convert_vectors(u, first, o.operand[which].dtype);
      return convert_vectors(v, second, o.operand[which + 1].dtype);
    }
  }
  read(u, o, which, share);
  read(v, o, which + 1, share);
}

// --- host code ---

template <int kCount>
void set_shape(Operands<kCount>& operands, const Shape& shape) {
  operands.rank = shape.size();
  operands.count = shape.numel();
  operands.index_fits_31_bits = operands.count < (int64_t{1} << 31);
  for (int d = 0; d < operands.rank; ++d) {
    operands.size[d] = shape[d];
    if (operands.index_fits_31_bits)
      operands.divide[d] = FastDivide(static_cast<uint32_t>(shape[d] > 1 ? shape[d] : 1));
  }
}

// Operand, shape and strides of the dimensions d of x with flag[d] == wanted, after merging dimensions
// (collapse).
inline Operands<1> part_of(const View& x, const bool* flag, bool wanted, Shape& shape, Strides& strides) {
  Strides kept[1];
  shape = {};
  for (int d = 0; d < x.rank(); ++d) {
    if (flag[d] != wanted) continue;
    shape.push_back(x.shape[d]);
    kept[0].push_back(x.strides[d]);
  }
  collapse(shape, kept, 1);
  strides = kept[0];
  Operands<1> o;
  set_shape(o, shape);
  for (int d = 0; d < o.rank; ++d) o.operand[0].stride[d] = strides[d];
  return o;
}

template <int kCount>
struct Plan {
  Operands<kCount> operands;
  Shape shape;              // after collapse()
  Strides strides[kCount];  // strides of each operand for `shape`
  bool vectorized = true;

  // views[0] is the output; the other views are broadcast to its shape. per_thread: contiguous elements per
  // thread.
  Plan(const View (&views)[kCount], int per_thread) : shape(views[0].shape) {
    for (int k = 0; k < kCount; ++k) strides[k] = stretch(views[k], views[0].shape);
    collapse(shape, strides, kCount);
    set_shape(operands, shape);
    for (int k = 0; k < kCount; ++k) {
      Operand& operand = operands.operand[k];
      operand.data = views[k].data;
      operand.dtype = views[k].dtype;
      for (int d = 0; d < operands.rank; ++d) operand.stride[d] = strides[k][d];
      operand.access = access(views[k], strides[k], per_thread);
      vectorized =
          vectorized && operand.access != Access::strided && (k > 0 || operand.access == Access::vector);
    }
  }

 private:
  Access access(const View& v, const Strides& s, int per_thread) const {
    const int last = shape.size() - 1;
    if (last > 0 && shape[last] % per_thread != 0)
      return Access::strided;  // elements of a thread would cross rows
    if (s[last] == 0) return Access::broadcast;
    const auto size = static_cast<int64_t>(size_of(v.dtype));
    const int64_t align = size * per_thread < 16 ? size * per_thread : 16;
    bool fits = s[last] == 1 && reinterpret_cast<uintptr_t>(v.data) % static_cast<uintptr_t>(align) == 0;
    for (int d = 0; d < last; ++d) fits = fits && s[d] * size % align == 0;
    return fits ? Access::vector : Access::strided;
  }
};

// Launches an elementwise kernel over all elements of the views; views[0] is the output.
// run.operator()<kCount>() returns the kernel for kCount elements per thread.
template <class C, int kViews, class Run, class... Arguments>
void launch_elementwise(const View (&views)[kViews], Run&& run, const Arguments&... arguments) {
  int wanted = kPerThread<C>;
  if constexpr (std::is_same_v<C, float>) {
    bool narrow = true;
    for (const View& v : views) narrow = narrow && size_of(v.dtype) <= 2;
    if (narrow) wanted = kPerThread16Bit;
  }
  const Plan<kViews> plan(views, wanted);
  const int each = plan.vectorized ? wanted : kPerThreadStrided;
  const LaunchConfig config = over(ceil_div(plan.operands.count, each), kElementwiseBlock);
  if (each == kPerThreadStrided)
    return launch(run.template operator()<kPerThreadStrided>(), config, plan.operands, arguments...);
  if constexpr (std::is_same_v<C, float>) {
    if (each == kPerThread16Bit) {
      return launch(run.template operator()<kPerThread16Bit>(), config, plan.operands, arguments...);
    }
  }
  launch(run.template operator()<kPerThread<C>>(), config, plan.operands, arguments...);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
