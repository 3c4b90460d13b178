// Convolution of images on CUDA, forward and both gradients, with groups and dilation.
//
//   forward     out[n] = W cols[n] + bias         cols = im2col(x): [K, OH OW] for each sample and group
//   to input    dx = col2im(W^T dy)               each pixel gathers its taps, so no atomics are needed
//   to weight   dW = dy cols^T                    the columns of all samples form one product
//
// K = C / groups * KH * KW. Columns are in scratch memory for a slab of samples at a time; matmul.cuh
// multiplies. For a 1 x 1 window of stride 1 the image is its columns. Depthwise convolutions
// (conv/depthwise.cuh) and 16-bit images on tensor cores (conv/implicit.cuh, conv/implicit_grad.cuh) need no
// columns. Slabs depend on shapes alone and there are no atomics: results are deterministic.
// Source: Chellapilla, Puri, Simard, "High performance convolutional neural networks for document
// processing", 2006.
#pragma once

#include <algorithm>
#include <tinytorch/backend/cuda/kernels/conv/depthwise.cuh>
#include <tinytorch/backend/cuda/kernels/conv/implicit.cuh>
#include <tinytorch/backend/cuda/kernels/conv/implicit_grad.cuh>
#include <tinytorch/backend/cuda/kernels/matmul.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// Layout of the columns of `samples` samples: element (n, k, p) is at n * sample_stride + k * row_stride +
// p, where k counts (channel, kh, kw) of all groups.
struct Columns {
  ConvShape shape;
  int64_t samples, sample_stride, row_stride, count;
  Divider by_outputs, by_width, by_taps, by_kernel_w, by_rows;

  Columns(const ConvShape& s, int64_t n, bool samples_side_by_side)
      : shape(s),
        samples(n),
        sample_stride(samples_side_by_side ? s.outputs : s.groups * s.K * s.outputs),
        row_stride(samples_side_by_side ? n * s.outputs : s.outputs),
        count(n * s.groups * s.K * s.outputs),
        by_outputs(s.outputs, count),
        by_width(s.OW, count),
        by_taps(s.window.kernel_h * s.window.kernel_w, count),
        by_kernel_w(s.window.kernel_w, count),
        by_rows(s.groups * s.K, count) {}
};

// A thread writes kVectorSize adjacent positions of a row; `outputs` must be a multiple of kVectorSize.
template <class T, int kVectorSize>
static __global__ void __launch_bounds__(kPlaneBlock)
    im2col_kernel(T* cols, const T* x, const __grid_constant__ Columns l) {
  const int64_t i = global_thread_index() * kVectorSize;
  if (i >= l.count) return;
  const ConvShape& s = l.shape;
  const int64_t row = l.by_outputs.quotient(i), p = i - row * s.outputs;
  const int64_t n = l.by_rows.quotient(row), k = row - n * (s.groups * s.K);
  const int64_t c = l.by_taps.quotient(k), tap = k - c * (s.window.kernel_h * s.window.kernel_w);
  const int64_t kh = l.by_kernel_w.quotient(tap), kw = tap - kh * s.window.kernel_w;
  const int64_t oh = l.by_width.quotient(p);
  int64_t ow = p - oh * s.OW;
  const int64_t stride = s.window.stride, w0 = kw * s.window.dilation - s.window.padding;
  int64_t h = oh * stride - s.window.padding + kh * s.window.dilation;
  const T* const plane = x + (n * s.C + c) * s.H * s.W;
  T values[kVectorSize];
#pragma unroll
  for (int e = 0; e < kVectorSize; ++e) {
    const int64_t w = ow * stride + w0;
    values[e] = h >= 0 && h < s.H && w >= 0 && w < s.W ? plane[h * s.W + w] : T{};
    if (++ow == s.OW) {
      ow = 0;
      h += stride;
    }
  }
  store(cols + n * l.sample_stride + k * l.row_stride + p, values);
}

// dx of the slab's samples. A thread sums all columns that its pixel was copied to.
template <class T>
static __global__ void __launch_bounds__(kPlaneBlock)
    col2im_kernel(T* dx, const Compute<T>* cols, const __grid_constant__ Columns l,
                  const __grid_constant__ Planes pixels) {
  using A = Compute<T>;
  const int64_t i = global_thread_index();
  if (i >= pixels.count) return;
  const ConvShape& s = l.shape;
  const Planes::Place at = pixels.place(i);
  const int64_t taps = s.window.kernel_h * s.window.kernel_w;
  const A* const plane = cols + at.plane * taps * s.outputs;  // a plane is a pair (n, c)
  A sum = 0;
  for (int64_t kh = 0; kh < s.window.kernel_h; ++kh) {
    const int64_t oh = output_of_tap(at.h, kh, s.OH, s.window);
    if (oh < 0) continue;
    for (int64_t kw = 0; kw < s.window.kernel_w; ++kw) {
      const int64_t ow = output_of_tap(at.w, kw, s.OW, s.window);
      if (ow >= 0) sum += plane[(kh * s.window.kernel_w + kw) * s.outputs + oh * s.OW + ow];
    }
  }
  dx[i] = to<T>(sum);
}

// --- launchers ---

template <class T>
void im2col(T* cols, const T* x, const Columns& layout) {
  constexpr int kVectorSize = 16 / static_cast<int>(sizeof(T));
  const bool vectorized = layout.shape.outputs % kVectorSize == 0;
  launch(vectorized ? im2col_kernel<T, kVectorSize> : im2col_kernel<T, 1>,
         over(layout.count / (vectorized ? kVectorSize : 1), kPlaneBlock), cols, x, layout);
}

// Size of the columns of a slab, if a sample is not larger.
inline constexpr int64_t kSlabBytes = int64_t{256} << 20;

// Number of samples whose columns fill a slab; at least 1.
inline int64_t samples_per_slab(const ConvShape& s, size_t element) {
  const int64_t bytes = s.groups * s.K * s.outputs * static_cast<int64_t>(element);
  return std::clamp<int64_t>(kSlabBytes / std::max<int64_t>(bytes, 1), 1, std::max<int64_t>(s.N, 1));
}

// True if the window reads each pixel once and in order, so that the image is its own columns.
inline bool is_pointwise(const ConvShape& s) {
  const Window2d& w = s.window;
  return w.kernel_h == 1 && w.kernel_w == 1 && w.stride == 1 && w.padding == 0;
}

// Matrices [n, groups, rows, cols] with given strides.
inline View group_matrices(const void* data, DType t, const Shape& shape, const Strides& strides) {
  return {const_cast<void*>(data), t, shape, strides};
}
// Matrices [rows, outputs] for each sample and group, contiguous.
inline View group_planes(const void* data, DType t, const ConvShape& s, int64_t n, int64_t rows) {
  return contiguous_view(const_cast<void*>(data), t, {n, s.groups, rows, s.outputs});
}

template <class T>
void conv2d_columns(T* out, const T* x, const T* weight, const View& bias, const ConvShape& s) {
  constexpr DType kType = dtype_of<T>;
  const int64_t slab = samples_per_slab(s, sizeof(T)), pixels = s.C * s.H * s.W;
  const DeviceScratch<T> cols(is_pointwise(s) ? 0 : slab * s.groups * s.K * s.outputs);
  // The bias must be added before the product is rounded. cuBLASLt rounds 16-bit results before it adds to
  // them, so 16-bit products are kept in f32; other products are added to the bias in place.
  constexpr bool kBiasInF32 = kIs16Bit<T>;
  const View bias_rows{bias.data, bias.dtype, {s.N, s.M, s.outputs}, {0, bias.data ? bias.strides[0] : 0, 0}};
  const DeviceScratch<float> products(bias.data && kBiasInF32 ? slab * s.M * s.outputs : 0);
  if (bias.data && !kBiasInF32) copy(contiguous_view(out, kType, {s.N, s.M, s.outputs}), bias_rows);
  for (int64_t first = 0; first < s.N; first += slab) {
    const int64_t n = std::min(slab, s.N - first);
    const T* columns = x + first * pixels;
    if (!is_pointwise(s)) {
      const Columns layout(s, n, false);
      im2col(cols.data(), columns, layout);
      columns = cols.data();
    }
    const View w = group_matrices(weight, kType, {n, s.groups, s.group_m, s.K}, {0, s.group_m * s.K, s.K, 1});
    const View planes = group_planes(columns, kType, s, n, s.K);
    T* const slab_out = out + first * s.M * s.outputs;
    if (!bias.data || !kBiasInF32) {
      multiply(group_planes(slab_out, kType, s, n, s.group_m), w, planes, {}, bias.data != nullptr);
      continue;
    }
    multiply(group_planes(products.data(), DType::f32, s, n, s.group_m), w, planes);
    const Shape shape{n, s.M, s.outputs};
    View added = bias_rows;
    added.shape = shape;
    binary(BinaryFn::add, contiguous_view(slab_out, kType, shape),
           contiguous_view(products.data(), DType::f32, shape), added);
  }
}

template <class T>
void conv2d_grad_input_columns(T* dx, const T* dy, const T* weight, const ConvShape& s) {
  constexpr DType kType = dtype_of<T>;
  using A = Compute<T>;
  const int64_t slab = samples_per_slab(s, sizeof(A)), pixels = s.C * s.H * s.W;
  const DeviceScratch<A> cols(is_pointwise(s) ? 0 : slab * s.groups * s.K * s.outputs);
  for (int64_t first = 0; first < s.N; first += slab) {
    const int64_t n = std::min(slab, s.N - first);
    T* const image = dx + first * pixels;
    const View w = group_matrices(weight, kType, {n, s.groups, s.K, s.group_m}, {0, s.group_m * s.K, 1, s.K});
    const View grad = group_planes(dy + first * s.M * s.outputs, kType, s, n, s.group_m);
    if (is_pointwise(s)) {
      multiply(group_planes(image, kType, s, n, s.K), w, grad);
      continue;
    }
    multiply(group_planes(cols.data(), dtype_of<A>, s, n, s.K), w, grad);
    const Planes planes(n * s.C, s.H, s.W);
    launch(col2im_kernel<T>, over(planes.count, kPlaneBlock), image, cols.data(), Columns(s, n, false),
           planes);
  }
}

template <class T>
void conv2d_grad_weight_columns(Compute<T>* dw, const T* dy, const T* x, const ConvShape& s) {
  constexpr DType kType = dtype_of<T>;
  using A = Compute<T>;
  const int64_t slab = samples_per_slab(s, sizeof(T)), G = s.groups, Mg = s.group_m, P = s.outputs;
  const DeviceScratch<T> cols(slab * G * s.K * P), grads(slab * s.M * P);
  const View sum = contiguous_view(dw, dtype_of<A>, {G, Mg, s.K});
  if (s.N == 0) return fill(sum, 0.0);
  for (int64_t first = 0; first < s.N; first += slab) {
    const int64_t n = std::min(slab, s.N - first), width = n * P;
    const Columns layout(s, n, true);
    im2col(cols.data(), x + first * s.C * s.H * s.W, layout);
    const View by_channel = group_matrices(dy + first * s.M * P, kType, {s.M, n, P}, {P, s.M * P, 1});
    copy(contiguous_view(grads.data(), kType, {s.M, n, P}), by_channel);
    multiply(sum, contiguous_view(grads.data(), kType, {G, Mg, width}),
             group_matrices(cols.data(), kType, {G, width, s.K}, {s.K * width, 1, width}), {}, first > 0);
  }
}

// True if one product per sample, followed by a sum over samples, is used. It needs scratch memory of up to
// 512 MiB. 16-bit rows that cannot be read 16 bytes at a time are faster by the other algorithms.
inline bool multiplies_per_sample(const ConvShape& s, size_t element) {
  const int64_t products = s.N * s.M * s.K * static_cast<int64_t>(sizeof(double));
  return is_pointwise(s) && s.N > 0 && (element > 2 || s.outputs % 8 == 0) && products <= 2 * kSlabBytes;
}
template <class T>
void conv2d_grad_weight_pointwise(Compute<T>* dw, const T* dy, const T* x, const ConvShape& s) {
  constexpr DType kType = dtype_of<T>, kSum = dtype_of<Compute<T>>;
  const int64_t N = s.N, G = s.groups, Mg = s.group_m, P = s.outputs, count = s.M * s.K;
  const DeviceScratch<Compute<T>> products(N * count);
  multiply(contiguous_view(products.data(), kSum, {N, G, Mg, s.K}), group_planes(dy, kType, s, N, Mg),
           group_matrices(x, kType, {N, G, P, s.K}, {s.C * P, s.K * P, 1, P}));
  const bool over_samples[] = {true, false};
  reduce(ReduceFn::sum, contiguous_view(dw, kSum, {count}),
         contiguous_view(products.data(), kSum, {N, count}), over_samples);
}

void conv2d(const View& out, const View& x, const View& weight, const View& bias, const Window2d& window,
            int64_t groups) {
  if (out.numel() == 0) return;
  const ConvShape s(x, out, window, groups);
  dispatch_stored(x.dtype, [&]<class T>(T*) {
    const ContiguousInput<T> in(x), w(weight);
    ContiguousOutput<T> result(out);
    if (s.depthwise()) {
      const ContiguousInput<T> b(bias);
      launch(depthwise_kernel<T>, over(out.numel(), kPlaneBlock), result.data(), in.data(), w.data(),
             b.data(), s, Planes(s.N * s.M, s.OH, s.OW));
    } else {
      const ContiguousInput<T> b(bias);
      if (is_pointwise(s) || !implicit_conv2d<T>(result.data(), in.data(), w.data(), b.data(), s, false)) {
        conv2d_columns<T>(result.data(), in.data(), w.data(), bias, s);
      }
    }
    result.write_back();
  });
}

void conv2d_grad_input(const View& dx, const View& dy, const View& weight, const Window2d& window,
                       int64_t groups) {
  if (dx.numel() == 0) return;
  const ConvShape s(dx, dy, window, groups);
  dispatch_stored(dx.dtype, [&]<class T>(T*) {
    const ContiguousInput<T> grad(dy), w(weight);
    ContiguousOutput<T> result(dx);
    if (s.depthwise()) {
      launch(depthwise_grad_input_kernel<T>, over(dx.numel(), kPlaneBlock), result.data(), grad.data(),
             w.data(), s, Planes(s.N * s.C, s.H, s.W));
    } else if (is_pointwise(s) ||
               !implicit_conv2d<T>(result.data(), grad.data(), w.data(), nullptr, s, true)) {
      conv2d_grad_input_columns<T>(result.data(), grad.data(), w.data(), s);
    }
    result.write_back();
  });
}

void conv2d_grad_weight(const View& dw, const View& dy, const View& x, const Window2d& window,
                        int64_t groups) {
  if (dw.numel() == 0) return;
  const ConvShape s(x, dy, window, groups);
  dispatch_stored(dw.dtype, [&]<class T>(T*) {
    const ContiguousInput<T> grad(dy), in(x);
    if (s.depthwise()) {
      ContiguousOutput<T> result(dw);
      launch(depthwise_grad_weight_kernel<T>,
             {dim3(static_cast<unsigned>(s.M), static_cast<unsigned>(s.K)), dim3(kPlaneBlock)}, result.data(),
             grad.data(), in.data(), s, Planes(s.N, s.OH, s.OW));
      return result.write_back();
    }
    const bool per_sample = multiplies_per_sample(s, sizeof(T));
    if (!per_sample && implicit_conv2d_grad_weight<T>(dw, grad.data(), in.data(), s)) return;
    ContiguousOutput<Compute<T>> result(dw);  // sums over samples stay in the compute type
    (per_sample ? conv2d_grad_weight_pointwise<T> : conv2d_grad_weight_columns<T>)(result.data(), grad.data(),
                                                                                   in.data(), s);
    result.write_back();
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
