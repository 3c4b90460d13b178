// The three checks of every OpCase: values, gradients, reported cost.
#pragma once

#include <doctest/doctest.h>

#include <support/few.hpp>
#include <support/op_case.hpp>
#include <tinytorch/autograd/gradcheck.hpp>
#include <tinytorch/tensor/apply.hpp>

namespace cases {

// Memory layouts in which the same values are tested.
enum class Layout { contiguous, transposed, stepped, expanded };
inline const std::vector<Layout> kLayouts = {Layout::contiguous, Layout::transposed, Layout::stepped,
                                             Layout::expanded};

inline Tensor laid_out(const Tensor& t, Layout layout) {
  const int rank = t.rank();
  if (rank == 0 || layout == Layout::contiguous) return t;
  if (layout == Layout::transposed) {
    Dims reversed;
    for (int d = rank - 1; d >= 0; --d) reversed.push_back(d);
    return t.permute(reversed).contiguous().permute(reversed);
  }
  if (layout == Layout::expanded) {  // the values change: every row becomes the first row
    return t.shape()[0] < 1 ? t : t.slice(0, 0, 1).expand(t.shape());
  }
  Shape wide = t.shape();
  for (int64_t& s : wide) s = 2 * s + 1;
  Tensor gaps = tt::full(wide, 1, t.dtype());
  for (int d = 0; d < rank; ++d) gaps = gaps.slice(d, 1, tt::kEnd, 2);
  gaps.copy_(t);
  return gaps;
}

// An integer of a reference as the dtype stores it: two's complement, modulo 2^bits.
inline double wrapped(double v, DType t) {
  if (!tt::is_integral(t) || t == tt::i64) return v;
  const double range = std::ldexp(1.0, 8 * static_cast<int>(tt::size_of(t)));
  const double low = t == tt::u8 ? 0 : -range / 2;
  return v - range * std::floor((v - low) / range);
}

inline bool close(double got, double want, double allowed) {
  if (std::isnan(want)) return std::isnan(got);
  if (std::isinf(want) || std::isinf(got)) return got == want;
  return std::abs(got - want) <= allowed;
}

// Tolerance: the rounding to the result's dtype, plus `ulps` epsilons of the compute type (f32 for 16-bit
// floats) of the terms' magnitude.
inline void check_close(const Tensor& got, const Array& want, double ulps, const std::string& what,
                        double roundings = 1) {
  INFO(what);
  REQUIRE(got.shape() == want.shape);
  const std::vector<double> values = got.to_vector<double>();
  const double eps = tt::epsilon_of(got.dtype());
  const double compute_eps = std::min(eps, tt::epsilon_of(tt::f32));
  const double tiny = got.dtype() == tt::f16 ? 0x1p-24 : (got.dtype() == tt::f64 ? 1e-300 : 0x1p-126);
  size_t wrong = values.size();
  for (size_t i = 0; i < values.size() && wrong == values.size(); ++i) {
    const double size = want.magnitude.empty() ? std::abs(want.values[i]) : want.magnitude[i];
    const double allowed = tt::is_floating(got.dtype()) ? 0.51 * roundings * eps * std::abs(want.values[i]) +
                                                              ulps * compute_eps * size + tiny
                                                        : 0;
    if (!close(values[i], wrapped(want.values[i], got.dtype()), allowed)) wrong = i;
  }
  if (wrong < values.size()) {
    FAIL_CHECK("element ", wrong, " of ", values.size(), " is ", values[wrong], ", should be ",
               want.values[wrong]);
  } else {
    CHECK(true);
  }
}

inline std::string label(const OpCase& c, DType t, int64_t n, Layout layout = Layout::contiguous) {
  return c.name + " " + tt::name_of(t) + " n=" + std::to_string(n) + " layout " +
         std::to_string(static_cast<int>(layout));
}

inline void check_values(const OpCase& c) {
  for (const DType t : test::some_on_emulator(c.dtypes, 2)) {
    for (const int64_t n : test::some_on_emulator(c.sizes, 2)) {
      if (TINYTORCH_CUDA_SIM && n > 40 && t != c.dtypes[0]) continue;  // the emulator is slow
      for (const Layout layout : test::some_on_emulator(kLayouts, 2)) {
        if (layout != Layout::contiguous && n > 100 && t != c.dtypes[0]) continue;
        INFO(label(c, t, n, layout));
        Tensors inputs = make_inputs(c, n, t, 17 + static_cast<uint64_t>(n));
        std::vector<Array> arrays;
        for (Tensor& x : inputs) {
          x = laid_out(x, layout);
          arrays.push_back(to_array(x));
        }
        const Tensor got = c.forward(inputs);
        CHECK(got.dtype() == result_dtype(c, t));
        check_close(got, c.oracle(arrays), c.ulps, label(c, t, n, layout), c.roundings);
        for (size_t k = 0; k < inputs.size(); ++k) {
          CHECK(to_array(inputs[k]).values == arrays[k].values);  // operands are unchanged
        }
      }
    }
  }
}

inline void check_gradients(const OpCase& c) {
  if (!c.differentiable) return;
  const std::vector<Layout> layouts{Layout::contiguous, Layout::stepped, Layout::transposed};
  for (const int64_t n : test::some_on_emulator(c.gradient_sizes, 2)) {
    for (const Layout layout : test::some_on_emulator(layouts, 1)) {
      Tensors inputs = make_inputs(c, n, tt::f64, 5 + static_cast<uint64_t>(n), true);
      for (Tensor& x : inputs) {
        x = laid_out(x, layout);
        if (x.dtype() == tt::f64) x.requires_grad_();
      }
      const tt::GradcheckResult result = tt::gradcheck(c.forward, inputs);
      INFO(label(c, tt::f64, n, layout), ": ", result.message);
      CHECK(result.passed);
    }
  }
}

// Adds up the costs that apply() reports.
struct CostMeter final : tt::OpObserver {
  double flops = 0, bytes = 0;
  std::vector<std::string> names;
  tt::Observing observing{*this};
  void after(const tt::PrimitiveBase& op, const Tensors&, const Tensors&, tt::Cost cost) override {
    flops += cost.flops;
    bytes += cost.bytes;
    names.emplace_back(op.name());
  }
};

inline void check_cost(const OpCase& c) {
  if (!c.flops) return;
  const int64_t n = 7;
  const DType t = c.dtypes[0];
  const Tensors inputs = make_inputs(c, n, t);
  std::vector<Array> arrays;
  double bytes = 0;
  for (const Tensor& x : inputs) {
    arrays.push_back(to_array(x));
    bytes += static_cast<double>(x.bytes());
  }
  tt::Cost cost;
  Tensor out;
  {
    CostMeter meter;
    out = c.forward(inputs);
    cost = {meter.flops, meter.bytes};
  }
  INFO(label(c, t, n));
  CHECK(cost.flops == doctest::Approx(c.flops(arrays, to_array(out))));
  CHECK(cost.bytes == (c.view ? 0 : bytes + static_cast<double>(out.bytes())));
}

inline void check_case(const OpCase& c) {
  check_values(c);
  check_gradients(c);
  check_cost(c);
}

}  // namespace cases
