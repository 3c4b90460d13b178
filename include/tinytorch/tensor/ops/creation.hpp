// Creation of tensors (constants, ranges, random numbers) and in-place writes, which are not recorded.
//
// Random tensors use blocks of a counter-based generator. Element i uses word i % 4 of block i / 4 (f64 and
// integers: two words per element), so the numbers do not depend on the thread count or the device.
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <cmath>
#include <numbers>
#include <tinytorch/backend/cpu/elementwise.hpp>
#include <tinytorch/backend/cpu/loops/pack.hpp>
#include <tinytorch/backend/cpu/random.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/tensor/fill.hpp>
#include <tinytorch/tensor/kept_layout.hpp>
#include <tinytorch/tensor/ops/elementwise.hpp>

namespace tinytorch::inline TT_BUILD {

TT_API Tensor full(const Shape& shape, Scalar value, DType dtype, Device device, Loc loc) {
  require_holds([&] { return std::string(name_of(dtype)) + " " + shape.str(); }, dtype, value, loc);
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
TT_API Tensor full_like(const Tensor& x, Scalar value, Loc loc) {
  require_defined("full_like", loc, x);
  Tensor t = empty_like(x, x.dtype(), loc);
  fill_values(t, value);
  return t;
}
TT_API Tensor zeros_like(const Tensor& x, Loc loc) {
  require_defined("zeros_like", loc, x);
  return full_like(x, 0, loc);
}
TT_API Tensor ones_like(const Tensor& x, Loc loc) {
  require_defined("ones_like", loc, x);
  return full_like(x, 1, loc);
}

TT_API Tensor scalar_like(Scalar value, const Tensor& like, Loc loc) {
  require_defined("scalar_like", loc, like);
  require_holds(like, value, loc);
  Tensor scalar = empty({}, like.dtype(), like.device(), loc);
  if (!like.device().is_cpu()) {
    fill_values(scalar, value);
    return scalar;
  }
  dispatch(like.dtype(), [&]<class T>(T*) {
    *scalar.data<T>() = value.integral ? convert<T>(value.integer) : convert<T>(value.real);
  });
  return scalar;
}

// A tensor of value(0), ..., value(count - 1). V is double, or int64_t where values must be exact; they are
// converted to dtype in blocks.
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
      TT_SIMD  // 32-bit integers, for which every target has vector conversions
          for (int32_t i = 0; i < n; ++i) block[i] = value(from + static_cast<V>(i));
      backend::unpack(out, first, block, n);
    }
  });
  return t.to(device, loc);
}

// Number of elements of arange, exact for integers. Negative if there is no such number, or if it is more
// than a tensor can have.
inline int64_t arange_count(Scalar start, Scalar stop, Scalar step) {
  constexpr int64_t kNone = -1;
  if (step.real == 0) return kNone;
  if (start.integral && stop.integral && step.integral) {
    const __int128 span = static_cast<__int128>(stop.integer) - start.integer, by = step.integer;
    const __int128 count = span / by + (span % by != 0 ? 1 : 0);
    return (span > 0) != (by > 0) || span == 0 ? 0
           : count > kMaxElements              ? kNone
                                               : static_cast<int64_t>(count);
  }
  const double count = std::ceil((stop.real - start.real) / step.real);
  return count < 0x1p53 ? static_cast<int64_t>(std::max(count, 0.0)) : kNone;
}

TT_API Tensor arange(Scalar start, Scalar stop, Scalar step, std::optional<DType> asked, Device device,
                     Loc loc) {
  const bool integers = start.integral && step.integral;
  const DType dtype = asked.value_or(integers && stop.integral ? DType::i64 : DType::f32);
  const int64_t n = arange_count(start, stop, step);
  if (n < 0) {
    fail("TT-SHAPE-07",
         "arange: step must not be 0, and start and stop must be finite, with fewer steps between them than "
         "a tensor can have elements",
         loc);
  }
  const __int128 last =
      integers ? start.integer + static_cast<__int128>(std::max<int64_t>(n - 1, 0)) * step.integer : 0;
  const bool fits =
      last >= std::numeric_limits<int64_t>::min() && last <= std::numeric_limits<int64_t>::max();
  if (!integers || !fits)  // a stop that is not an integer may be outside i64
    return tabulate<double>(n, dtype, device, loc, [&](double i) { return start.real + i * step.real; });
  for (const int64_t end : {start.integer, static_cast<int64_t>(last)}) {
    if (n > 0) require_holds([&] { return std::string(name_of(dtype)) + " in arange"; }, dtype, end, loc);
  }
  return tabulate<int64_t>(
      n, dtype, device, loc,
      [&](int64_t i) {  // in 128 bits, because the product may overflow where the sum does not
        return static_cast<int64_t>(start.integer + static_cast<__int128>(i) * step.integer);
      });
}

TT_API Tensor linspace(double start, double stop, int64_t count, DType dtype, Device device, Loc loc) {
  const double step = count > 1 ? (stop - start) / static_cast<double>(count - 1) : 0.0;
  // The second half is computed from `stop`, so that both ends are exact and the points are symmetric.
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

// Blocks that one random tensor reserves; per_block is the number of elements per block of four words.
struct RandomBlocks {
  uint64_t seed, first;
  RandomBlocks(Generator& generator, int64_t count, uint64_t per_block)
      : seed(generator.state().seed),
        first(generator.reserve(ceil_div(static_cast<uint64_t>(count), per_block))) {}
};

// A tensor of a distribution, drawn in f32 or f64; other dtypes are converted from f32.
inline Tensor random_tensor(backend::Distribution kind, double a, double b, const Shape& shape, DType dtype,
                            Device device, Generator& generator, Loc loc) {
  const bool exact = dtype == DType::f64;
  Tensor t = empty(shape, exact ? DType::f64 : DType::f32, device, loc);
  const RandomBlocks blocks(generator, t.numel(), exact ? 2 : 4);
  TT_KERNEL(t, random(kind, t.view_of(), blocks.seed, blocks.first, a, b));
  return t.to(dtype, loc);
}

// The number of a dtype nearest to `bound`, with up: among those >= bound, else among those < bound.
inline double nearest_within(DType dtype, double bound, bool up) {
  return dispatch(dtype, [&]<class T>(T*) {
    double near = convert<double>(convert<T>(bound));
    const double towards =
        up ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
    // The next number of T differs by at most 2^-7 of the bound or, near 0, by at most 2^-24, the smallest
    // positive f16.
    for (double step = std::max(std::abs(bound) * 0x1p-54, 0x1p-1074); up ? near < bound : near >= bound;
         step *= 2) {
      near = convert<double>(convert<T>(std::isfinite(step) ? bound + (up ? step : -step) : towards));
    }
    return near;
  });
}

inline void require_floating_dtype(const char* op, DType dtype, Loc loc) {
  if (!is_floating(dtype)) {
    fail("TT-DTYPE-02", std::string(op) + ": needs a floating dtype, got " + name_of(dtype), loc);
  }
}

TT_API Tensor uniform(double low, double high, const Shape& shape, DType dtype, Device device,
                      Generator& generator, Loc loc) {
  require_floating_dtype("uniform", dtype, loc);
  const bool ordered = low < high && std::isfinite(high - low);
  const double first = ordered ? nearest_within(dtype, low, true) : 1,
               last = ordered ? nearest_within(dtype, high, false) : 0;
  if (first > last) {
    fail("TT-RANGE-01",
         "uniform: low must be below high, both finite, and a number of " + std::string(name_of(dtype)) +
             " between them, got [" + Scalar(low).str() + ", " + Scalar(high).str() + ")",
         loc);
  }
  Tensor t = random_tensor(backend::Distribution::uniform, low, high, shape,
                           dtype == DType::f64 ? dtype : DType::f32, device, generator, loc);
  TT_KERNEL(t, unary(backend::UnaryFn::clamp, t.view_of(), t.view_of(), first, last));
  return t.to(dtype, loc);
}
TT_API Tensor rand(const Shape& shape, DType dtype, Device device, Generator& generator, Loc loc) {
  require_floating_dtype("rand", dtype, loc);
  if (is_16_bit(dtype)) return uniform(0, 1, shape, dtype, device, generator, loc);
  return random_tensor(backend::Distribution::uniform, 0, 1, shape, dtype, device, generator,
                       loc);  // never rounds to 1
}
TT_API Tensor randn(const Shape& shape, DType dtype, Device device, Generator& generator, Loc loc) {
  require_floating_dtype("randn", dtype, loc);
  return random_tensor(backend::Distribution::normal, 0, 1, shape, dtype, device, generator, loc);
}
TT_API Tensor randint(int64_t low, int64_t high, const Shape& shape, DType dtype, Device device,
                      Generator& generator, Loc loc) {
  if (low >= high) {
    fail("TT-RANGE-01",
         "randint: low must be below high, got [" + std::to_string(low) + ", " + std::to_string(high) + ")",
         loc);
  }
  // A floating dtype represents every integer up to 2^kDigits.
  constexpr int kDigits[] = {24, 53, 8, 11};
  const int64_t most = is_floating(dtype) ? int64_t{1} << kDigits[static_cast<int>(dtype)] : 0;
  for (const int64_t end : {low, high - 1}) {
    const bool holds = most == 0 ? can_hold(dtype, end) : -most <= end && end <= most;
    if (holds) continue;
    fail("TT-DTYPE-07",
         "randint: " + std::string(name_of(dtype)) + " does not hold every integer of [" +
             std::to_string(low) + ", " + std::to_string(high) +
             ")\n  hint: draw i64, and convert the result",
         loc);
  }
  Tensor t = empty(shape, DType::i64, device, loc);
  const RandomBlocks blocks(generator, t.numel(), 2);
  TT_KERNEL(t, random_integers(t.view_of(), blocks.seed, blocks.first, low,
                               static_cast<uint64_t>(high) - static_cast<uint64_t>(low)));
  return t.to(dtype, loc);
}
TT_API Tensor bernoulli(double p, const Shape& shape, DType dtype, Device device, Generator& generator,
                        Loc loc) {
  if (!(p >= 0 && p <= 1))
    fail("TT-RANGE-02", "bernoulli: p must be in [0, 1], got " + std::to_string(p), loc);
  return random_tensor(backend::Distribution::bernoulli, p, 0, shape, dtype, device, generator, loc);
}

// --- in place ---

// Throws if an in-place write would write to one element several times.
inline void require_not_expanded(const char* op, const Tensor& t, Loc loc) {
  for (int d = 0; d < t.rank(); ++d) {
    if (t.strides()[d] != 0 || t.shape()[d] < 2) continue;
    fail("TT-SHAPE-14",
         std::string(op) + ": " + t.describe() +
             " is expanded, so several of its elements share one memory location\n  hint: write to a clone()",
         loc);
  }
}

// Throws if an in-place write would make the backward pass wrong, or write to one element several times.
inline void require_writable(const char* op, const Tensor& t, const Tensor& source, Loc loc) {
  require_not_expanded(op, t, loc);
  if (!grad_enabled()) return;
  if (tracks_grad(t)) {
    fail("TT-GRAD-04",
         std::string(op) + ": in-place write to " + t.describe() +
             ", which is part of an autograd graph\n  hint: use "
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

// A source that overlaps the destination is copied first, unless it is the same view, for which an
// elementwise write in place is safe.
inline Tensor without_overlap(const Tensor& t, const Tensor& source, Loc loc) {
  const bool same =
      source.offset() == t.offset() && source.strides() == t.strides() && source.shape() == t.shape();
  return source.storage() != t.storage() || same ? source.detach() : source.detach().clone(loc);
}

// One number in all elements.
struct Fill final : Primitive<Fill> {
  static constexpr const char* kName = "fill";
  Shape shape;
  DType dtype;
  Scalar value;
  Fill(Shape s, DType d, Scalar v) : shape(std::move(s)), dtype(d), value(v) {}
  Specs infer(const Tensors&, Loc) const override { return {{shape, dtype}}; }
  void run(const Tensors&, Tensors& out) const override { fill_values(out[0], value); }
  bool differentiable() const override { return false; }
};

TT_API Tensor from_numbers(const std::vector<double>& values, const Shape& shape, DType dtype, Device device,
                           Loc loc) {
  return from_data(values, shape, tinytorch::cpu, loc).to(dtype, loc).to(device, loc);
}
TT_API Tensor from_numbers(const std::vector<int64_t>& values, const Shape& shape, DType dtype, Device device,
                           Loc loc) {
  return from_data(values, shape, tinytorch::cpu, loc).to(dtype, loc).to(device, loc);
}
TT_API Tensor& Tensor::fill_(Scalar value, Loc loc) {
  require_defined("fill_", loc, *this);
  require_writable("fill_", *this, {}, loc);
  require_holds(*this, value, loc);
  announce_write(Fill(shape(), dtype(), value), *this, {});
  fill_values(*this, value);
  count_write(*this, loc);
  return *this;
}
TT_API Tensor& Tensor::copy_(const Tensor& source, Loc loc) {
  require_defined("copy_", loc, *this, source);
  require_writable("copy_", *this, source, loc);
  require_expandable("copy_", *this, source, loc);
  const bool crosses = source.device() != device() && !op_observer() && source.dtype() == dtype() &&
                       source.shape() == shape() && source.is_contiguous() && is_contiguous();
  if (crosses) {  // straight to its place
    backend::cuda::copy_bytes(view_of().data, device(), source.view_of().data, source.device(),
                              static_cast<size_t>(bytes()), loc);
    count_write(*this, loc);
    return *this;
  }
  const Tensor near = without_overlap(*this, source.detach().to(device(), loc), loc);
  announce_write(Cast(near.dtype(), dtype()), *this, {near});
  TT_KERNEL(*this, copy(view_of(), near.view_of()));
  count_write(*this, loc);
  return *this;
}
TT_API Tensor& Tensor::add_(const Tensor& other, Scalar alpha, Loc loc) {
  require_defined("add_", loc, *this, other);
  require_writable("add_", *this, other, loc);
  require_same_dtype("add_", {*this, other}, loc);
  require_expandable("add_", *this, other, loc);
  const bool plain = alpha.real == 1;
  const Tensor scaled = plain ? without_overlap(*this, other, loc)
                              : tinytorch::mul(other.detach(), scalar_like(alpha, other, loc), loc);
  announce_write(Binary(backend::BinaryFn::add), *this, {*this, scaled});
  TT_KERNEL(*this, binary(backend::BinaryFn::add, view_of(), view_of(), scaled.view_of()));
  count_write(*this, loc);
  return *this;
}
TT_API Tensor& Tensor::mul_(Scalar factor, Loc loc) {
  require_defined("mul_", loc, *this);
  require_writable("mul_", *this, {}, loc);
  const Tensor f = scalar_like(factor, *this, loc);
  announce_write(Binary(backend::BinaryFn::mul), *this, {*this, f});
  TT_KERNEL(*this, binary(backend::BinaryFn::mul, view_of(), view_of(), f.view_of()));
  count_write(*this, loc);
  return *this;
}

}  // namespace tinytorch::inline TT_BUILD
#endif
