// Pooling of images on CUDA: maximum with saved positions, average, adaptive average, and their gradients
// (contract: backend/cpu/pool.hpp).
//
// One thread per result, forward and backward. A gradient is gathered in order from the windows that contain
// its position, so there are no atomics and results are deterministic. Overlapping windows are read from the
// caches. Limit: memory bandwidth.
#pragma once

#include <limits>
#include <tinytorch/backend/cuda/device/collective.cuh>
#include <tinytorch/backend/cuda/device/planes.cuh>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// The part of a window inside the image, along one dimension.
__device__ __forceinline__ TapRange window_inside(int64_t output, int64_t kernel, int64_t input,
                                                  const Window2d& w) {
  const int64_t first = output * w.stride - w.padding, last = first + kernel;
  return {first < 0 ? 0 : first, last < input ? last : input};
}

template <class T>
static __global__ void __launch_bounds__(kPlaneBlock)
    max_pool2d_kernel(T* out, int32_t* index, const T* x, const __grid_constant__ Planes outputs, int64_t H,
                      int64_t W, const __grid_constant__ Window2d window) {
  using C = Compute<T>;
  const int64_t i = global_thread_index();
  if (i >= outputs.count) return;
  const Planes::Place at = outputs.place(i);
  const TapRange rows = window_inside(at.h, window.kernel_h, H, window);
  const TapRange cols = window_inside(at.w, window.kernel_w, W, window);
  const T* in = x + at.plane * H * W;
  C best = -std::numeric_limits<C>::infinity();
  // If all values are -inf, the position is the window's first element.
  int64_t position = rows.first * W + cols.first;
  for (int64_t h = rows.first; h < rows.last; ++h) {
    for (int64_t w = cols.first; w < cols.last; ++w) {
      const C v = to<C>(in[h * W + w]);
      if (v > best || v != v) {
        best = v;
        position = h * W + w;
      }
    }
  }
  out[i] = to<T>(best);
  index[i] = static_cast<int32_t>(position);
}

template <class T>
static __global__ void __launch_bounds__(kPlaneBlock)
    max_pool2d_grad_kernel(T* dx, const T* dy, const int32_t* index, const __grid_constant__ Planes inputs,
                           int64_t OH, int64_t OW, const __grid_constant__ Window2d window) {
  using C = Compute<T>;
  const int64_t i = global_thread_index();
  if (i >= inputs.count) return;
  const Planes::Place at = inputs.place(i);
  const TapRange rows = windows_over(at.h, window.kernel_h, OH, window);
  const TapRange cols = windows_over(at.w, window.kernel_w, OW, window);
  const auto position = static_cast<int32_t>(at.h * inputs.w + at.w);
  C sum = 0;
  for (int64_t oh = rows.first; oh < rows.last; ++oh) {
    for (int64_t ow = cols.first; ow < cols.last; ++ow) {
      const int64_t o = (at.plane * OH + oh) * OW + ow;
      if (index[o] == position) sum += to<C>(dy[o]);
    }
  }
  dx[i] = to<T>(sum);
}

template <class T>
static __global__ void __launch_bounds__(kPlaneBlock)
    avg_pool2d_kernel(T* out, const T* x, const __grid_constant__ Planes outputs, int64_t H, int64_t W,
                      const __grid_constant__ Window2d window) {
  using C = Compute<T>;
  const int64_t i = global_thread_index();
  if (i >= outputs.count) return;
  const Planes::Place at = outputs.place(i);
  const TapRange rows = window_inside(at.h, window.kernel_h, H, window);
  const TapRange cols = window_inside(at.w, window.kernel_w, W, window);
  const T* in = x + at.plane * H * W;
  C sum = 0;
  for (int64_t h = rows.first; h < rows.last; ++h) {
    for (int64_t w = cols.first; w < cols.last; ++w) sum += to<C>(in[h * W + w]);
  }
  out[i] = to<T>(sum / static_cast<C>(window.kernel_h * window.kernel_w));
}

template <class T>
static __global__ void __launch_bounds__(kPlaneBlock)
    avg_pool2d_grad_kernel(T* dx, const T* dy, const __grid_constant__ Planes inputs, int64_t OH, int64_t OW,
                           const __grid_constant__ Window2d window) {
  using C = Compute<T>;
  const int64_t i = global_thread_index();
  if (i >= inputs.count) return;
  const Planes::Place at = inputs.place(i);
  const TapRange rows = windows_over(at.h, window.kernel_h, OH, window);
  const TapRange cols = windows_over(at.w, window.kernel_w, OW, window);
  C sum = 0;
  for (int64_t oh = rows.first; oh < rows.last; ++oh) {
    for (int64_t ow = cols.first; ow < cols.last; ++ow) sum += to<C>(dy[(at.plane * OH + oh) * OW + ow]);
  }
  dx[i] = to<T>(sum / static_cast<C>(window.kernel_h * window.kernel_w));
}

// adaptive_window: input rows (or columns) [first, last) of output i. adaptive_windows_over: outputs whose
// window contains input i.
__device__ __forceinline__ TapRange adaptive_window(int64_t i, int64_t input, int64_t outputs) {
  return {i * input / outputs, ceil_div((i + 1) * input, outputs)};
}
__device__ __forceinline__ TapRange adaptive_windows_over(int64_t i, int64_t input, int64_t outputs) {
  return {i * outputs / input, ceil_div((i + 1) * outputs, input)};
}

// kLanes threads share a window: 1 for small windows, a warp for windows as large as planes.
template <class T, int kLanes>
static __global__ void __launch_bounds__(kPlaneBlock)
    adaptive_avg_pool2d_kernel(T* out, const T* x, const __grid_constant__ Planes outputs, int64_t H,
                               int64_t W) {
  using C = Compute<T>;
  const int64_t thread = global_thread_index(), i = thread / kLanes, lane = thread % kLanes;
  const bool inside = i < outputs.count;
  const Planes::Place at = outputs.place(inside ? i : 0);
  const TapRange rows = adaptive_window(at.h, H, outputs.h), cols = adaptive_window(at.w, W, outputs.w);
  const int64_t width = cols.last - cols.first, size = (rows.last - rows.first) * width;
  const T* in = x + at.plane * H * W + rows.first * W + cols.first;
  C sum = 0;
  for (int64_t e = lane; e < size; e += kLanes) {
    const int64_t row =
        width == W ? 0 : static_cast<int64_t>(static_cast<uint32_t>(e) / static_cast<uint32_t>(width));
    sum += to<C>(in[row * W + e - row * width]);
  }
  if constexpr (kLanes > 1) sum = warp_reduce<kLanes>(sum, Sum());
  if (inside && lane == 0) out[i] = to<T>(sum / static_cast<C>(size));
}

template <class T>
static __global__ void __launch_bounds__(kPlaneBlock)
    adaptive_avg_pool2d_grad_kernel(T* dx, const T* dy, const __grid_constant__ Planes inputs, int64_t OH,
                                    int64_t OW) {
  using C = Compute<T>;
  const int64_t i = global_thread_index();
  if (i >= inputs.count) return;
  const Planes::Place at = inputs.place(i);
  const TapRange rows = adaptive_windows_over(at.h, inputs.h, OH);
  const TapRange cols = adaptive_windows_over(at.w, inputs.w, OW);
  C sum = 0;
  for (int64_t oh = rows.first; oh < rows.last; ++oh) {
    const TapRange under = adaptive_window(oh, inputs.h, OH);
    for (int64_t ow = cols.first; ow < cols.last; ++ow) {
      const TapRange across = adaptive_window(ow, inputs.w, OW);
      sum += to<C>(dy[(at.plane * OH + oh) * OW + ow]) /
             static_cast<C>((under.last - under.first) * (across.last - across.first));
    }
  }
  dx[i] = to<T>(sum);
}

// --- launchers ---

// The planes of images [N, C, H, W].
inline Planes planes_of(const View& v) { return {v.shape[0] * v.shape[1], v.shape[2], v.shape[3]}; }

// Runs kernel(out, in, planes of out, height and width of in, arguments...) with one thread per element of
// `out`.
template <class T, class Kernel, class... Arguments>
void run_pool(Kernel kernel, const View& out, const View& in, const Arguments&... arguments) {
  const ContiguousInput<T> from(in);
  ContiguousOutput<T> result(out);
  const Planes planes = planes_of(out);
  launch(kernel, over(planes.count, kPlaneBlock), result.data(), from.data(), planes, in.shape[2],
         in.shape[3], arguments...);
  result.write_back();
}

void max_pool2d(const View& out, const View& index, const View& x, const Window2d& window) {
  if (out.numel() == 0) return;
  dispatch_stored(x.dtype, [&]<class T>(T*) {
    const ContiguousInput<T> in(x);
    ContiguousOutput<T> result(out);
    const Planes planes = planes_of(out);
    launch(max_pool2d_kernel<T>, over(planes.count, kPlaneBlock), result.data(), index.as<int32_t>(),
           in.data(), planes, x.shape[2], x.shape[3], window);
    result.write_back();
  });
}

void max_pool2d_grad(const View& dx, const View& dy, const View& index, const Window2d& window) {
  if (dx.numel() == 0) return;
  dispatch_stored(dx.dtype, [&]<class T>(T*) {
    const ContiguousInput<T> grad(dy);
    ContiguousOutput<T> result(dx);
    const Planes planes = planes_of(dx);
    launch(max_pool2d_grad_kernel<T>, over(planes.count, kPlaneBlock), result.data(), grad.data(),
           index.as<const int32_t>(), planes, dy.shape[2], dy.shape[3], window);
    result.write_back();
  });
}

void avg_pool2d(const View& out, const View& x, const Window2d& window) {
  if (out.numel() == 0) return;
  dispatch_stored(x.dtype, [&]<class T>(T*) { run_pool<T>(avg_pool2d_kernel<T>, out, x, window); });
}
void avg_pool2d_grad(const View& dx, const View& dy, const Window2d& window) {
  if (dx.numel() == 0) return;
  dispatch_stored(dx.dtype, [&]<class T>(T*) { run_pool<T>(avg_pool2d_grad_kernel<T>, dx, dy, window); });
}

void adaptive_avg_pool2d(const View& out, const View& x) {
  if (out.numel() == 0) return;
  const bool large = x.shape[2] * x.shape[3] >= 16 * out.shape[2] * out.shape[3];
  dispatch_stored(x.dtype, [&]<class T>(T*) {
    const ContiguousInput<T> in(x);
    ContiguousOutput<T> result(out);
    const Planes planes = planes_of(out);
    launch(large ? adaptive_avg_pool2d_kernel<T, kWarp> : adaptive_avg_pool2d_kernel<T, 1>,
           over(planes.count * (large ? kWarp : 1), kPlaneBlock), result.data(), in.data(), planes,
           x.shape[2], x.shape[3]);
    result.write_back();
  });
}
void adaptive_avg_pool2d_grad(const View& dx, const View& dy) {
  if (dx.numel() == 0) return;
  dispatch_stored(dx.dtype, [&]<class T>(T*) { run_pool<T>(adaptive_avg_pool2d_grad_kernel<T>, dx, dy); });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
