// Tensors from nothing: constants, ranges, random numbers. And writes in place, which create no graph.
//
// Random tensors take blocks from a counter-based generator: element i uses word i % 4 of block i / 4 (f64:
// two words an element), so the numbers do not depend on thread count or device.
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <cmath>
#include <numbers>
#include <tinytorch/backend/cpu/elementwise.hpp>
#include <tinytorch/backend/cpu/pack.hpp>
#include <tinytorch/backend/cpu/random.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/tensor/kept_layout.hpp>
#include <tinytorch/tensor/ops/elementwise.hpp>

namespace tinytorch::inline TT_BUILD {

inline void fill_values(Tensor& t, Scalar value) {
  if (value.integral) {
    TT_KERNEL(t, fill(t.view_of(), value.integer));
  } else {
    TT_KERNEL(t, fill(t.view_of(), value.real));
  }
}

TT_API Tensor full(const Shape& shape, Scalar value, DType dtype, Device device, Loc loc) {
  Tensor t = empty(shape, dtype, device, loc);
  fill_values(t, value);
  return t;
}
TT_API Tensor zeros(const Shape& shape, DType dtype, Device device, Loc loc) {
  return full(shape, 0, dtype, device, loc);
}
TT_API Tensor ones(const Shape& shape, DType dtype, Device device, Loc loc) {
  return full(shape, 1, dtype, device, loc);
}
inline Tensor full_like(const Tensor& x, Scalar value, Loc loc) {
  Tensor t = empty_like(x, x.dtype(), loc);
  fill_values(t, value);
  return t;
}
TT_API Tensor zeros_like(const Tensor& x, Loc loc) { return full_like(x, 0, loc); }
TT_API Tensor ones_like(const Tensor& x, Loc loc) { return full_like(x, 1, loc); }

TT_API Tensor scalar_like(Scalar value, const Tensor& like, Loc loc) {
  if (!value.integral && !is_floating(like.dtype()) && std::floor(value.real) != value.real) {
    fail("TT-DTYPE-07",
         "the number " + std::to_string(value.real) + " does not fit " + like.describe() +
             "\n  hint: convert the tensor first with .to(f32)",
         loc);
  }
  Tensor scalar = empty({}, like.dtype(), like.device(), loc);
  if (!like.device().is_cpu()) {
    fill_values(scalar, value);
    return scalar;
  }
  dispatch(like.dtype(), [&]<class T>(T*) {
    *scalar.data<T>() = value.integral ? backend::convert<T>(value.integer) : backend::convert<T>(value.real);
  });
  return scalar;
}

// value(i) for each i, a V: double or, exactly, int64_t; converted block by block.
template <class V, class F>
Tensor tabulate(int64_t count, DType dtype, Device device, Loc loc, F&& value) {
  constexpr int64_t kGrain = 1 << 14;
  constexpr int32_t kBlock = 512;
  Tensor t = empty({count}, dtype, cpu, loc);
  parallel_for(count, kGrain, [&, out = t.view_of()](int64_t begin, int64_t end) {
    V block[kBlock];
    for (int64_t first = begin; first < end; first += kBlock) {
      const auto n = static_cast<int32_t>(std::min<int64_t>(kBlock, end - first));
      const V from = static_cast<V>(first);
      TT_SIMD  // numbers of 32 bits have vector conversions everywhere
          for (int32_t i = 0; i < n; ++i) block[i] = value(from + static_cast<V>(i));
      backend::unpack(out, first, block, n);
    }
  });
  return t.to(device, loc);
}

TT_API Tensor arange(Scalar start, Scalar stop, Scalar step, DType dtype, Device device, Loc loc) {
  const double count = std::ceil((stop.real - start.real) / step.real);
  if (step.real == 0 || !(count < 0x1p53)) {
    fail("TT-SHAPE-07", "arange: step must not be 0, and start and stop must be finite", loc);
  }
  const auto n = static_cast<int64_t>(std::max(count, 0.0));
  if (start.integral && step.integral) {
    return tabulate<int64_t>(n, dtype, device, loc,
                             [&](int64_t i) { return start.integer + i * step.integer; });
  }
  return tabulate<double>(n, dtype, device, loc, [&](double i) { return start.real + i * step.real; });
}

TT_API Tensor linspace(double start, double stop, int64_t count, DType dtype, Device device, Loc loc) {
  const double step = count > 1 ? (stop - start) / static_cast<double>(count - 1) : 0.0;
  // The second half is measured from the end, so that both ends are exact and the points symmetric.
  const double half = static_cast<double>(count > 1 ? count / 2 : 1), last = static_cast<double>(count - 1);
  return tabulate<double>(count, dtype, device, loc,
                          [=](double i) { return i < half ? start + step * i : stop - step * (last - i); });
}

TT_API Tensor eye(int64_t n, DType dtype, Device device, Loc loc) {
  Tensor t = zeros({n, n}, dtype, device, loc);
  Tensor diagonal = alias(t, {n}, {n + 1}, 0);
  fill_values(diagonal, 1);
  return t;
}

// Numbers of a distribution in f32 or f64; other dtypes are converted from f32.
inline Tensor draw(backend::Distribution kind, double a, double b, const Shape& shape, DType dtype,
                   Device device, Generator& generator, Loc loc) {
  const bool exact = dtype == DType::f64 || kind == backend::Distribution::integer;
  const DType computed =
      kind == backend::Distribution::integer ? DType::i64 : (exact ? DType::f64 : DType::f32);
  Tensor t = empty(shape, computed, device, loc);
  const auto per_block = static_cast<uint64_t>(exact ? 2 : 4);
  const uint64_t blocks = (static_cast<uint64_t>(t.numel()) + per_block - 1) / per_block;
  const uint64_t seed = generator.state().seed;
  const uint64_t first_block = generator.reserve(blocks);
  TT_KERNEL(t, random(kind, t.view_of(), seed, first_block, a, b));
  return t.to(dtype, loc);
}

inline void require_floating_dtype(const char* op, DType dtype, Loc loc) {
  if (!is_floating(dtype)) {
    fail("TT-DTYPE-02", std::string(op) + ": needs a floating dtype, got " + name_of(dtype), loc);
  }
}

TT_API Tensor rand(const Shape& shape, DType dtype, Device device, Generator& generator, Loc loc) {
  require_floating_dtype("rand", dtype, loc);
  return draw(backend::Distribution::uniform, 0, 1, shape, dtype, device, generator, loc);
}
TT_API Tensor randn(const Shape& shape, DType dtype, Device device, Generator& generator, Loc loc) {
  require_floating_dtype("randn", dtype, loc);
  return draw(backend::Distribution::normal, 0, 1, shape, dtype, device, generator, loc);
}
TT_API Tensor randint(int64_t low, int64_t high, const Shape& shape, DType dtype, Device device,
                      Generator& generator, Loc loc) {
  if (low >= high) {
    fail("TT-RANGE-01",
         "randint: low must be below high, got [" + std::to_string(low) + ", " + std::to_string(high) + ")",
         loc);
  }
  return draw(backend::Distribution::integer, static_cast<double>(low), static_cast<double>(high), shape,
              dtype, device, generator, loc);
}
TT_API Tensor bernoulli(double p, const Shape& shape, DType dtype, Device device, Generator& generator,
                        Loc loc) {
  if (!(p >= 0 && p <= 1))
    fail("TT-RANGE-02", "bernoulli: p must be in [0, 1], got " + std::to_string(p), loc);
  return draw(backend::Distribution::bernoulli, p, 0, shape, dtype, device, generator, loc);
}

// --- in place ---

// A write must not happen behind autograd's back, nor hit one element through several.
inline void require_writable(const char* op, const Tensor& t, const Tensor& source, Loc loc) {
  for (int d = 0; d < t.rank(); ++d) {
    if (t.strides()[d] != 0 || t.shape()[d] < 2) continue;
    fail("TT-SHAPE-14",
         std::string(op) + ": " + t.describe() +
             " is expanded, so several of its elements are one in memory\n  hint: write to a clone()",
         loc);
  }
  if (!grad_enabled()) return;
  if (tracks_grad(t)) {
    fail("TT-GRAD-04",
         std::string(op) + ": in-place write to " + t.describe() +
             ", which autograd tracks\n  hint: use "
             "the out-of-place op, or wrap the write in a NoGrad scope",
         loc);
  }
  if (tracks_grad(source)) {
    fail("TT-GRAD-04",
         std::string(op) + ": the source " + source.describe() +
             " requires grad, an in-place write would "
             "lose its gradient\n  hint: use the out-of-place op, or source.detach()",
         loc);
  }
}

inline void require_expandable(const char* op, const Tensor& t, const Tensor& source, Loc loc) {
  const auto shape = broadcast_shapes(t.shape(), source.shape());
  if (!shape || !(*shape == t.shape())) {
    fail("TT-SHAPE-02", std::string(op) + ": " + source.describe() + " does not broadcast to " + t.describe(),
         loc);
  }
}

// Another view of the written memory is read completely before any write; the same view may be read on the
// way.
inline Tensor apart_from(const Tensor& t, const Tensor& source, Loc loc) {
  const bool same =
      source.offset() == t.offset() && source.strides() == t.strides() && source.shape() == t.shape();
  return source.storage() != t.storage() || same ? source.detach() : source.detach().clone(loc);
}

TT_API Tensor& Tensor::fill_(Scalar value, Loc loc) {
  require_writable("fill_", *this, {}, loc);
  fill_values(*this, value);
  storage()->bump_version();
  return *this;
}
TT_API Tensor& Tensor::copy_(const Tensor& source, Loc loc) {
  require_writable("copy_", *this, source, loc);
  require_expandable("copy_", *this, source, loc);
  const Tensor near = apart_from(*this, source.detach().to(device(), loc), loc);
  TT_KERNEL(*this, copy(view_of(), near.view_of()));
  storage()->bump_version();
  return *this;
}
TT_API Tensor& Tensor::add_(const Tensor& other, Scalar alpha, Loc loc) {
  require_writable("add_", *this, other, loc);
  require_same_dtype("add_", {*this, other}, loc);
  require_expandable("add_", *this, other, loc);
  const bool plain = alpha.real == 1;
  const Tensor scaled =
      plain ? apart_from(*this, other, loc) : mul(other.detach(), scalar_like(alpha, other, loc), loc);
  TT_KERNEL(*this, binary(backend::BinaryFn::add, view_of(), view_of(), scaled.view_of()));
  storage()->bump_version();
  return *this;
}
TT_API Tensor& Tensor::mul_(Scalar factor, Loc loc) {
  require_writable("mul_", *this, {}, loc);
  const Tensor f = scalar_like(factor, *this, loc);
  TT_KERNEL(*this, binary(backend::BinaryFn::mul, view_of(), view_of(), f.view_of()));
  storage()->bump_version();
  return *this;
}

}  // namespace tinytorch::inline TT_BUILD
#endif
