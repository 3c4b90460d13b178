// The backward pass of an activation y = f(x) in one kernel: dx = dy f'(x), element by element.
//
// Composed of tensor operations, gelu's derivative reads and writes memory some ten times. Elementwise work
// is memory-bound, so the whole formula is one kernel: dy and v are read once, dx is written once, and
// intermediate values stay in a thread's registers. 3 n elements are moved, whatever f is.
//
// Task 2.8: times_slope, activation_grad_kernel, activation_grad. The given parts of this header are in
// modules/02_autograd/frame/tinytorch/backend/cuda/kernels/activation_grad.cuh, which includes this file.
#pragma once

namespace tinytorch::inline TT_BUILD::backend::cuda {

// g f'(x) of one element, A: float or double. v is what the forward pass saved: the output y for relu, tanh
// and sigmoid, the input x for leaky_relu, silu, gelu and gelu_tanh. slope: of leaky_relu, for negative
// values.
//
//   relu        y > 0 ? 1 : 0; where it is 0 the result is 0, also of an infinite g
//   leaky_relu  x > 0 ? 1 : slope
//   tanh        1 - y^2
//   sigmoid     y (1 - y)
//   silu        s (1 + x (1 - s))         s = sigmoid(x)
//   gelu        Phi(x) + x phi(x)         Phi = (1 + erf(x / sqrt 2)) / 2,  phi = exp(-x^2 / 2) / sqrt(2 pi)
//   gelu_tanh   (1 + t) / 2 + x (1 - t^2) u' / 2    t = tanh(u),  u = sqrt(2 / pi) (x + 0.044715 x^3)
//
// math::exp, math::erf, math::tanh and sigmoid_value serve both types; the constants are in
// backend/functors.hpp (kSqrtHalf, kInvSqrtTwoPi, kSqrtTwoOverPi, kGeluCubic), gelu_tanh_inner(x) is u.
template <class A>
static __device__ A times_slope(BinaryFn fn, A g, A v, A slope) {
  switch (fn) {
    case BinaryFn::relu_grad:
      return v > 0 ? g : A(0);
    case BinaryFn::leaky_relu_grad:
      return v < 0 ? g * slope : g;
    case BinaryFn::tanh_grad:
      return g * (1 - v * v);
    case BinaryFn::sigmoid_grad:
      return g * v * (1 - v);
    case BinaryFn::silu_grad: {
      const A s = sigmoid_value(v);
      return g * s * (1 + v * (1 - s));
    }
    case BinaryFn::gelu_grad: {
      const A below = A(0.5) * (1 + math::erf(v * A(kSqrtHalf)));
      return g * (below + v * A(kInvSqrtTwoPi) * math::exp(A(-0.5) * v * v));
    }
    default: {  // gelu_tanh_grad
      const A t = math::tanh(gelu_tanh_inner(v));
      const A inner_slope = A(kSqrtTwoOverPi) * (1 + 3 * A(kGeluCubic) * v * v);
      return g * A(0.5) * (1 + t + v * (1 - t * t) * inner_slope);
    }
  }
}

// One thread per element. Operand 0 is dx, 1 is dy, 2 is v; all store T. The o.count elements are numbered in
// row-major order, and o.offset(k, i) is the place of element i in operand k, relative to its `data`:
// operands may have gaps, be transposed, or repeat one element (the gradient of a sum is one number,
// broadcast). to<A>(x) converts an element to the compute type, which is float for 16-bit floats, and
// to<T>(r) rounds the result, once.
template <class T>
static __global__ void __launch_bounds__(kActivationThreads)
    activation_grad_kernel(const __grid_constant__ Operands<3> o, BinaryFn fn, Compute<T> slope) {
  using A = Compute<T>;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kActivationThreads + threadIdx.x;
  if (i >= o.count) return;
  const A g = to<A>(static_cast<const T*>(o.operand[1].data)[o.offset(1, i)]);
  const A v = to<A>(static_cast<const T*>(o.operand[2].data)[o.offset(2, i)]);
  static_cast<T*>(o.operand[0].data)[o.offset(0, i)] = to<T>(times_slope(fn, g, v, slope));
}

// dx = dy f'(...); see times_slope for what v is. dx, dy and v have the same floating dtype; dy and v
// broadcast to dx's shape, and dx may be the same memory as dy. An empty dx needs no launch. Use
// dispatch_stored(dtype, f), which calls f with a null pointer of the stored type; Plan<3>({out, in, in},
// 1).operands, which is the kernel's argument o; and over(n, threads), a grid with as many blocks as n
// elements need.
void activation_grad(BinaryFn fn, const View& dx, const View& dy, const View& v, double p0) {
  if (dx.numel() == 0) return;
  dispatch_stored(dx.dtype, [&]<class T>(T*) {
    const Plan<3> plan({dx, dy, v}, 1);
    launch(activation_grad_kernel<T>, over(plan.operands.count, kActivationThreads), plan.operands, fn,
           static_cast<Compute<T>>(p0));
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
