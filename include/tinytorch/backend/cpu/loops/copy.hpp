// Copies between views of any dtype and layout.
//
// Contiguous views of one dtype are copied as bytes. Strided views of one dtype are copied in contiguous
// runs, and transposed matrices in tiles (transpose.hpp). Other pairs of dtypes are converted in the L1 cache
// (row_walk.hpp). Results larger than the caches are written with non-temporal stores (non_temporal.hpp).
#pragma once

#include <tinytorch/backend/view.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// out = x converted to out's dtype; x broadcasts to out's shape. out and x are either the same memory element
// for element, or do not overlap.
TT_API void copy_view(const View& out, const View& x);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(BACKEND)
#include <algorithm>
#include <cstring>
#include <tinytorch/backend/cpu/loops/function_kernels.hpp>
#include <tinytorch/backend/cpu/loops/non_temporal.hpp>
#include <tinytorch/backend/cpu/loops/pack.hpp>
#include <tinytorch/backend/cpu/loops/row_walk.hpp>
#include <tinytorch/backend/cpu/loops/transpose.hpp>
#include <tinytorch/core/parallel.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// Copies a strided view to another one of the same collapsed shape and dtype, whose elements have kBytes. It
// needs no buffer, except for non-temporal stores.
template <size_t kBytes>
void copy_same_dtype(const View& out, const View& x, bool non_temporal) {
  const Shape& shape = out.shape;
  const Strides &to = out.strides, &from = x.strides;
  const int last = shape.size() - 1, down = to[last] == 1 ? transposed_dimension(shape, from) : -1;
  if (down >= 0) {
    using Element = SignedOf<kBytes>;
    constexpr int64_t kBand = 64;  // rows of one matrix in a task
    const int64_t rows = shape[down], cols = shape[last], bands = ceil_div(rows, kBand);
    Shape outer = shape;
    outer[down] = outer[last] = 1;
    return parallel_for(outer.numel() * bands, std::max<int64_t>(1, kElementwiseGrain / (kBand * cols)),
                        [&](int64_t begin, int64_t end) {
                          int64_t index[kMaxRank];
                          for (int64_t task = begin; task < end; ++task) {
                            const int64_t matrix = task / bands, row = task % bands * kBand;
                            copy_transposed(
                                out.as<Element>() + locate(outer, to, matrix, index) + row * to[down],
                                to[down], x.as<const Element>() + locate(outer, from, matrix, index) + row,
                                from[last], std::min(kBand, rows - row), cols);
                          }
                        });
  }
  if (non_temporal) {
    return parallel_for(shape.numel(), kElementwiseGrain, [&](int64_t begin, int64_t end) {
      constexpr int64_t kMost = kPackBytes / int64_t{kBytes};
      alignas(64) char buffer[kPackBytes];
      for (int64_t i = begin; i < end; i += kMost) {
        const int64_t n = std::min(kMost, end - i);
        gather(buffer, x, i, n);
        stream_copy(element_at(out, i), buffer, n * int64_t{kBytes});
      }
      stream_fence();
    });
  }
  parallel_for(shape.numel(), kElementwiseGrain, [&](int64_t begin, int64_t end) {
    for_each_run_of_both(shape, to, from, begin, end - begin, [&](int64_t a, int64_t b, int64_t length) {
      copy_words<kBytes>({element_at(out, a), 0, to[last]}, {element_at(x, b), 0, from[last]}, 1, length);
    });
  });
}

// Copies to another dtype. The dimensions of out are in memory order.
inline void convert_view(const View& out, const View& x, bool non_temporal) {
  // The intermediate type must represent both dtypes exactly: integers go to 16-bit floats by way of double,
  // so that they are rounded once.
  DType via = x.dtype;
  if (out.dtype == DType::f64 || (is_16_bit(out.dtype) && is_integral(x.dtype))) via = DType::f64;
  if (out.dtype == DType::f32 && !is_floating(x.dtype)) via = DType::f32;
  via = dispatch_compute(via, []<class T>(T*) { return dtype_of<T>; });
  Shape shape = out.shape;
  Strides strides[] = {out.strides, stretch(x, out.shape)};
  collapse(shape, strides, 2);
  const View to{out.data, out.dtype, shape, strides[0]}, from{x.data, x.dtype, shape, strides[1]};
  const bool in_tiles = shape.numel() >= kTiledElements && transposed_dimension(shape, from.strides) >= 0;
  const bool to_is_flat = to.contiguous(), from_is_flat = from.contiguous();
  const bool streams = non_temporal && via == to.dtype;  // what is computed in another dtype is not streamed
  if ((via == to.dtype || via == from.dtype) && !streams && !in_tiles && (to_is_flat || from_is_flat)) {
    return parallel_for(shape.numel(), kElementwiseGrain, [&](int64_t begin, int64_t end) {
      if (to_is_flat) return pack(element_at(to, begin), to.dtype, from, begin, end - begin);
      unpack(to, begin, element_at(from, begin), from.dtype, end - begin);
    });
  }
  dispatch_compute(via, [&]<class T>(T*) {
    const double parameters[] = {0, 0};
    run_elementwise<T>(unary_kernel<UnaryFn::identity, T>, out, {x}, parameters);
  });
}

// True if x broadcasts one element. Such a fill uses ordinary stores, because it reads nothing that the
// stores could evict from the cache, and a filled tensor is usually read next.
inline bool is_one_element(const View& x) { return bytes_of(x) <= static_cast<int64_t>(size_of(x.dtype)); }

TT_API void copy_view(const View& out, const View& x) {
  if (out.numel() == 0) return;
  const bool non_temporal = !is_one_element(x) && uses_non_temporal_stores(out, {x});
  if (out.dtype == x.dtype && out.contiguous() && x.contiguous() && out.shape == x.shape) {
    return parallel_for(bytes_of(out), int64_t{1} << 18, [&](int64_t begin, int64_t end) {
      char* const to = out.as<char>() + begin;
      const char* const from = x.as<const char>() + begin;
      if (!non_temporal) return void(std::memcpy(to, from, static_cast<size_t>(end - begin)));
      stream_copy(to, from, end - begin);
      stream_fence();
    });
  }
  if (!strides_fall(out.shape, out.strides)) {
    return in_order_of(out, {x}, [](const View& to, const View(&in)[1]) { copy_view(to, in[0]); });
  }
  if (out.dtype == x.dtype) {
    Shape shape = out.shape;
    Strides strides[] = {out.strides, stretch(x, out.shape)};
    collapse(shape, strides, 2);
    const View to{out.data, out.dtype, shape, strides[0]}, from{x.data, x.dtype, shape, strides[1]};
    return dispatch_size(size_of(out.dtype), [&]<size_t kBytes>(std::integral_constant<size_t, kBytes>) {
      copy_same_dtype<kBytes>(to, from, non_temporal);
    });
  }
  convert_view(out, x, non_temporal);
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
