// Convolution of images on the CPU, forward and both gradients, with groups and dilation.
//
// The frame of a course header: it has the given parts, and includes the functions of tasks 3.5 and 3.6.
#pragma once

#include <tinytorch/backend/cpu/conv/image_epilogue.hpp>
#include <tinytorch/backend/view.hpp>
#include <tinytorch/backend/window.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// out [N, M, OH, OW], x [N, C, H, W], weight [M, C / groups, KH, KW], bias [M] or without data. Floating
// dtypes. An epilogue is called on the blocks of out.
TT_API void conv2d(const View& out, const View& x, const View& weight, const View& bias,
                   const Window2d& window, int64_t groups, const ImageEpilogue& epilogue = {});
// True if conv2d of these operands computes on channels-last images; it converts x and out to that layout if
// they have another one, and from it otherwise. Only the dtypes and layouts of the views are used.
TT_API bool computes_channels_last(const View& out, const View& x, const Window2d& window, int64_t groups);
// dx [N, C, H, W] from dy [N, M, OH, OW].
TT_API void conv2d_grad_input(const View& dx, const View& dy, const View& weight, const Window2d& window,
                              int64_t groups);
// dw [M, C / groups, KH, KW] from dy and x.
TT_API void conv2d_grad_weight(const View& dw, const View& dy, const View& x, const Window2d& window,
                               int64_t groups);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(PRODUCTS) || defined(TINYTORCH_TASK)
#include <tinytorch/backend/cpu/gemm.hpp>
#include <tinytorch/backend/cpu/loops/contiguous.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// All arrays are dense: x[n, c, h, w] is x[((n C + c) H + h) W + w]. Sizes are in s (backend/window.hpp): N,
// C, H, W, M, OH, OW, groups, group_c = C', group_m = M', K, outputs = OH OW, and s.window with kernel_h,
// kernel_w, stride, padding, dilation.

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#include <tasks/backend/cpu/conv.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// --- Given: products of columns
// --------------------------------------------------------------------------------

inline constexpr int64_t kFewOutputs = 4;  // per group, below which copying patches does not pay

template <class T>
View matrix(const T* data, int64_t rows, int64_t cols) {
  return {const_cast<T*>(data), dtype_of<T>, {rows, cols}, {cols, 1}};
}
// Calls f(n, g) for every sample and group.
template <class F>
void for_each_group(const ConvShape& s, F&& f) {
  for (int64_t n = 0; n < s.N; ++n) {
    for (int64_t g = 0; g < s.groups; ++g) f(n, g);
  }
}
// Group g of sample n in x, in out, and of the weights.
template <class T>
T* images_of(T* x, const ConvShape& s, int64_t n, int64_t g) {
  return x + (n * s.C + g * s.group_c) * s.H * s.W;
}
template <class T>
View outputs_of(const T* out, const ConvShape& s, int64_t n, int64_t g) {
  return matrix(out + (n * s.M + g * s.group_m) * s.outputs, s.group_m, s.outputs);
}
template <class T>
View weights_of(const T* weight, const ConvShape& s, int64_t g) {
  return matrix(weight + g * s.group_m * s.K, s.group_m, s.K);
}

template <class T>
void convolve_by_columns(T* out, const T* x, const T* weight, const T* bias, const ConvShape& s) {
  Scratch<T> cols(s.K * s.outputs);
  for_each_group(s, [&](int64_t n, int64_t g) {
    im2col(cols.data(), images_of(x, s, n, g), s);
    gemm(outputs_of(out, s, n, g), weights_of(weight, s, g), matrix(cols.data(), s.K, s.outputs));
  });
  for (int64_t i = 0; bias && i < s.N * s.M * s.outputs; ++i) out[i] += bias[i / s.outputs % s.M];
}

TT_API bool computes_channels_last(const View&, const View&, const Window2d&, int64_t) { return false; }

TT_API void conv2d(const View& out, const View& x, const View& weight, const View& bias,
                   const Window2d& window, int64_t groups, const ImageEpilogue& epilogue) {
  if (out.numel() == 0) return;
  const ConvShape s(x, out, window, groups);
  dispatch_floating(x.dtype, [&]<class T>(T*) {
    const ContiguousInput<T> in(x), w(weight), b(bias);
    ContiguousOutput<T> to(out);
    if (s.group_m < kFewOutputs) {
      convolve_by_loops(to.data(), in.data(), w.data(), b.data(), s);
    } else {
      convolve_by_columns(to.data(), in.data(), w.data(), b.data(), s);
    }
    to.write_back();
  });
  for (int64_t n = 0; n < s.N; ++n) epilogue({n, 0, s.M, 0, s.OH});
}

// cols = W^T dy, and each column's values go back to where im2col would have taken them from.
TT_API void conv2d_grad_input(const View& dx, const View& dy, const View& weight, const Window2d& window,
                              int64_t groups) {
  if (dx.numel() == 0) return;
  const ConvShape s(dx, dy, window, groups);
  dispatch_floating(dx.dtype, [&]<class T>(T*) {
    const ContiguousInput<T> grad(dy), w(weight);
    ContiguousOutput<T> to(dx);
    std::fill_n(to.data(), dx.numel(), T(0));
    Scratch<T> cols(s.K * s.outputs);
    for_each_group(s, [&](int64_t n, int64_t g) {
      gemm(matrix(cols.data(), s.K, s.outputs), transposed(weights_of(w.data(), s, g)),
           outputs_of(grad.data(), s, n, g));
      col2im(images_of(to.data(), s, n, g), cols.data(), s);
    });
    to.write_back();
  });
}

// dW = dy cols^T, summed over samples.
TT_API void conv2d_grad_weight(const View& dw, const View& dy, const View& x, const Window2d& window,
                               int64_t groups) {
  if (dw.numel() == 0) return;
  const ConvShape s(x, dy, window, groups);
  dispatch_floating(dw.dtype, [&]<class T>(T*) {
    const ContiguousInput<T> grad(dy), in(x);
    ContiguousOutput<T> to(dw);
    std::fill_n(to.data(), dw.numel(), T(0));
    Scratch<T> cols(s.K * s.outputs);
    for_each_group(s, [&](int64_t n, int64_t g) {
      im2col(cols.data(), images_of(in.data(), s, n, g), s);
      gemm(weights_of(to.data(), s, g), outputs_of(grad.data(), s, n, g),
           transposed(matrix(cols.data(), s.K, s.outputs)), true);
    });
    to.write_back();
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
