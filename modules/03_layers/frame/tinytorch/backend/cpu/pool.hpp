// Pooling of images on the CPU: maximum with saved positions, average, adaptive average, and their gradients.
//
// The frame of a course header: it has the given parts, and includes the functions of task 3.7.
#pragma once

#include <tinytorch/backend/window.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// x [N, C, H, W] -> out [N, C, OH, OW]; index (i32, contiguous) = h * W + w of each maximum within its plane.
// Padding never wins; NaN does.
TT_API void max_pool2d(const View& out, const View& index, const View& x, const Window2d& window);
// dx = dy added at the saved positions.
TT_API void max_pool2d_grad(const View& dx, const View& dy, const View& index, const Window2d& window);
// Sum of the window, padding counted as zeros, over KH * KW.
TT_API void avg_pool2d(const View& out, const View& x, const Window2d& window);
TT_API void avg_pool2d_grad(const View& dx, const View& dy, const Window2d& window);
// Output (i, j) is the mean of rows floor(i H / OH) to ceil((i + 1) H / OH) and the like columns.
TT_API void adaptive_avg_pool2d(const View& out, const View& x);
TT_API void adaptive_avg_pool2d_grad(const View& dx, const View& dy);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(BACKEND) || defined(TINYTORCH_TASK)
#include <cmath>
#include <tinytorch/backend/cpu/loops/contiguous.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// A plane of the input [H, W], one of the output [OH, OW], and the window between them.
struct PlaneShape {
  int64_t H, W, OH, OW;
  Window2d window;
  int64_t inputs() const { return H * W; }
  int64_t outputs() const { return OH * OW; }
};
// The part of output (oh, ow)'s window that lies in the image: rows [h0, h1), columns [w0, w1).
struct Box {
  int64_t h0, h1, w0, w1;
};
inline Box window_at(const PlaneShape& s, int64_t oh, int64_t ow) {
  const int64_t h = oh * s.window.stride - s.window.padding, w = ow * s.window.stride - s.window.padding;
  return {std::max<int64_t>(h, 0), std::min(h + s.window.kernel_h, s.H), std::max<int64_t>(w, 0),
          std::min(w + s.window.kernel_w, s.W)};
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#include <tasks/backend/cpu/pool.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// --- Given
// -----------------------------------------------------------------------------------------------------

// Windows that differ in size so that any H x W becomes OH x OW.
inline Box adaptive_box(const PlaneShape& s, int64_t oh, int64_t ow) {
  return {oh * s.H / s.OH, ceil_div((oh + 1) * s.H, s.OH), ow * s.W / s.OW, ceil_div((ow + 1) * s.W, s.OW)};
}
template <class T>
void adaptive_plane(T* out, const T* x, const PlaneShape& s) {
  for (int64_t i = 0; i < s.outputs(); ++i) {
    const Box box = adaptive_box(s, i / s.OW, i % s.OW);
    double sum = 0;
    for (int64_t h = box.h0; h < box.h1; ++h) {
      for (int64_t w = box.w0; w < box.w1; ++w) sum += static_cast<double>(x[h * s.W + w]);
    }
    out[i] = static_cast<T>(sum / static_cast<double>((box.h1 - box.h0) * (box.w1 - box.w0)));
  }
}
template <class T>
void adaptive_plane_grad(T* dx, const T* dy, const PlaneShape& s) {
  for (int64_t i = 0; i < s.outputs(); ++i) {
    const Box box = adaptive_box(s, i / s.OW, i % s.OW);
    const T share = dy[i] / static_cast<T>((box.h1 - box.h0) * (box.w1 - box.w0));
    for (int64_t h = box.h0; h < box.h1; ++h) {
      for (int64_t w = box.w0; w < box.w1; ++w) dx[h * s.W + w] += share;
    }
  }
}

inline PlaneShape plane_shape(const View& x, const View& y, const Window2d& window) {
  return {x.shape[2], x.shape[3], y.shape[2], y.shape[3], window};
}
// f(plane of out, plane of in, number of the plane); out starts at zero.
template <class T, class F>
void for_each_plane(const View& out, const View& in, F&& f) {
  const ContiguousInput<T> from(in);
  ContiguousOutput<T> to(out);
  std::fill_n(to.data(), out.numel(), T(0));
  const int64_t planes = out.shape[0] * out.shape[1];
  for (int64_t p = 0; p < planes; ++p) {
    f(to.data() + p * (out.numel() / planes), from.data() + p * (in.numel() / planes), p);
  }
  to.write_back();
}

TT_API void max_pool2d(const View& out, const View& index, const View& x, const Window2d& window) {
  if (out.numel() == 0) return;
  const PlaneShape s = plane_shape(x, out, window);
  dispatch_floating(x.dtype, [&]<class T>(T*) {
    for_each_plane<T>(out, x, [&](T* to, const T* in, int64_t plane) {
      max_pool_plane(to, index.as<int32_t>() + plane * s.outputs(), in, s);
    });
  });
}
TT_API void max_pool2d_grad(const View& dx, const View& dy, const View& index, const Window2d& window) {
  if (dx.numel() == 0) return;
  const PlaneShape s = plane_shape(dx, dy, window);
  dispatch_floating(dx.dtype, [&]<class T>(T*) {
    for_each_plane<T>(dx, dy, [&](T* to, const T* grad, int64_t plane) {
      max_pool_plane_grad(to, grad, index.as<const int32_t>() + plane * s.outputs(), s);
    });
  });
}
TT_API void avg_pool2d(const View& out, const View& x, const Window2d& window) {
  if (out.numel() == 0) return;
  const PlaneShape s = plane_shape(x, out, window);
  dispatch_floating(x.dtype, [&]<class T>(T*) {
    for_each_plane<T>(out, x, [&](T* to, const T* in, int64_t) { avg_pool_plane(to, in, s); });
  });
}
TT_API void avg_pool2d_grad(const View& dx, const View& dy, const Window2d& window) {
  if (dx.numel() == 0) return;
  const PlaneShape s = plane_shape(dx, dy, window);
  dispatch_floating(dx.dtype, [&]<class T>(T*) {
    for_each_plane<T>(dx, dy, [&](T* to, const T* grad, int64_t) { avg_pool_plane_grad(to, grad, s); });
  });
}
TT_API void adaptive_avg_pool2d(const View& out, const View& x) {
  if (out.numel() == 0) return;
  const PlaneShape s = plane_shape(x, out, {});
  dispatch_floating(x.dtype, [&]<class T>(T*) {
    for_each_plane<T>(out, x, [&](T* to, const T* in, int64_t) { adaptive_plane(to, in, s); });
  });
}
TT_API void adaptive_avg_pool2d_grad(const View& dx, const View& dy) {
  if (dx.numel() == 0) return;
  const PlaneShape s = plane_shape(dx, dy, {});
  dispatch_floating(dx.dtype, [&]<class T>(T*) {
    for_each_plane<T>(dx, dy, [&](T* to, const T* grad, int64_t) { adaptive_plane_grad(to, grad, s); });
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
