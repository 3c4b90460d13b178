// Elementwise kernels: unary, binary, where, casts, copies and fills, for every dtype and layout.
//
// One thread per element of the output. It finds its element in each operand by the operand's own strides
// (walk.cuh), computes, and stores. The kernel chooses the function and the operands' types at run time; the
// choice is the same for all threads, so one kernel per compute type is enough. Memory-bound: each element
// moves once.
//
// Task 1.8: map_kernel, unary. Task 1.9: zip_kernel, binary. The given parts of this header are in
// modules/01_tensor/frame/tinytorch/backend/cuda/kernels/elementwise.cuh, which includes this file.
#pragma once

namespace tinytorch::inline TT_BUILD::backend::cuda {

// out = fn(x): operand 0 of o is out, operand 1 is x, and o.count is the number of elements. A thread
// computes the element of its own number if there is one: the last block may have more threads than elements
// are left. Compute the number in 64 bits: blockIdx.x and blockDim.x have 32 bits, and so does their product,
// which wraps around in a tensor of more than 2^32 elements.
//   element<C>(o, 1, i)      element i of x, in the compute type
//   apply(fn, x, p0, p1)     fn of it
//   put_element(o, i, y)     stores y as element i of out
template <class C>
static __global__ void __launch_bounds__(kBlock)
    map_kernel(const __grid_constant__ Operands<2> o, UnaryFn fn, C p0, C p1) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= o.count) return;
  put_element(o, i, apply(fn, element<C>(o, 1, i), p0, p1));
}

// out = fn(x), x broadcast to out's shape; p0, p1: bounds of clamp, slope of leaky_relu. An empty out needs
// no launch. Otherwise
//   Plan<2>({out, x}, 1).operands            is the kernel's argument o,
//   dispatch_compute(x.dtype, f)             calls f with a null pointer of the compute type C,
//   launch(kernel, over(n, block), ...)      starts at least n threads, in blocks of `block`,
//   convert<C>(p0)                           is p0 as a C.
// Functions beyond kLastIntegerUnary do not exist for integers: fail("TT-DTYPE-02", ...).
void unary(UnaryFn fn, const View& out, const View& x, double p0, double p1) {
  if (out.numel() == 0) return;
  const Plan<2> plan({out, x}, 1);
  dispatch_compute(x.dtype, [&]<class C>(C*) {
    if (std::is_integral_v<C> && static_cast<int>(fn) > kLastIntegerUnary) {
      fail("TT-DTYPE-02", "unary: this function needs a floating dtype");
    }
    launch(map_kernel<C>, over(plan.operands.count, kBlock), plan.operands, fn, convert<C>(p0),
           convert<C>(p1));
  });
}

// out = fn(a, b): operand 0 of o is out, operands 1 and 2 are a and b. element() finds each of them by its
// own strides, which are 0 where it is broadcast. Compute the thread's number in 64 bits, the same as in
// map_kernel.
template <class C>
static __global__ void __launch_bounds__(kBlock)
    zip_kernel(const __grid_constant__ Operands<3> o, BinaryFn fn, C p0) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= o.count) return;
  put_element(o, i, apply(fn, element<C>(o, 1, i), element<C>(o, 2, i), p0));
}

// out = fn(a, b), a and b each broadcast to out's shape. a and b have the same dtype, which decides the
// compute type; out has that dtype or bool. Throws TT-DTYPE-02 for integers and a function beyond
// kLastIntegerBinary, which does not exist for them.
void binary(BinaryFn fn, const View& out, const View& a, const View& b, double p0) {
  if (out.numel() == 0) return;
  const Plan<3> plan({out, a, b}, 1);
  dispatch_compute(a.dtype, [&]<class C>(C*) {
    if (std::is_integral_v<C> && static_cast<int>(fn) > kLastIntegerBinary) {
      fail("TT-DTYPE-02", "binary: this function needs a floating dtype");
    }
    launch(zip_kernel<C>, over(plan.operands.count, kBlock), plan.operands, fn, convert<C>(p0));
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
