// Derivatives of the step of an LSTM and of a whole pass.
//
// The pass walks the steps back: the derivative of the cell gives the gradients of the gates, and their
// product with U the gradient of the hidden state before the step. The gradients of x, of the weights and of
// the biases then follow from those of all gates, in one product each.
// Source: Werbos, "Backpropagation through time", 1990.
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <algorithm>
#include <tinytorch/backend/cpu/elementwise.hpp>
#include <tinytorch/backend/cpu/lstm_cell.hpp>
#include <tinytorch/backend/cpu/matmul.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tensor/vjp/matmul.hpp>

namespace tinytorch::inline TT_BUILD {

inline constexpr double kLstmCellFlops = 30;  // of one element: four gates, a tanh, products and sums

// Step t of v [T, ...] as a kernel sees it.
inline backend::View step_of(const Tensor& v, int64_t t) {
  backend::View all = v.view_of();
  backend::View step{all.as<char>() + t * all.strides[0] * static_cast<int64_t>(size_of(all.dtype)),
                     all.dtype, Shape(all.shape.begin() + 1, all.shape.end()),
                     Strides(all.strides.begin() + 1, all.strides.end())};
  return step;
}
// Contiguous v [T, B, N] as [T B, N].
inline backend::View rows_of_steps(const Tensor& v) {
  const Shape& s = v.shape();
  return {v.view_of().data, v.dtype(), {s[0] * s[1], s[2]}, {s[2], 1}};
}

// Samples do not depend on each other. On the CPU, a thread takes kSampleGroup of them through all steps, so
// that no step waits for other threads, and a product of so few rows reads U without packing it. The groups
// do not depend on the number of threads. 16-bit products pack their operands in any case.
inline constexpr int64_t kSampleGroup = 8;
inline bool in_sample_groups(const Tensor& t) { return t.device().is_cpu() && !is_16_bit(t.dtype()); }
// Calls f(first, count) for the groups of B samples; `of` has the device and the dtype.
template <class F>
void for_sample_groups(const Tensor& of, int64_t B, F&& f) {
  if (!in_sample_groups(of)) return f(int64_t{0}, B);
  const int64_t groups = ceil_div(B, kSampleGroup);
  // If only few threads would have a group, the products of each group use all threads instead.
  maybe_parallel(2 * groups >= thread_count(), groups, 1, [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; ++g) f(g * kSampleGroup, std::min(kSampleGroup, B - g * kSampleGroup));
  });
}

// dhidden and dcell, one of which may be undefined, the gates after their functions, cell, next cell ->
// dgates, dcell
struct LstmCellGrad final : Primitive<LstmCellGrad> {
  static constexpr const char* kName = "lstm_cell_grad";
  Specs infer(const Tensors& in, Loc) const override {
    return {{in[2].shape(), in[2].dtype()}, {in[3].shape(), in[3].dtype()}};
  }
  double flops(const Tensors& in, const Tensors&) const override {
    return kLstmCellFlops * static_cast<double>(in[3].numel());
  }
  void run(const Tensors& in, Tensors& out) const override {
    TT_KERNEL(out[0], lstm_cell_grad({out[0].view_of(), out[1].view_of(), {}},
                                     {view_or_none(in[0]), view_or_none(in[1]), {}}, in[2].view_of(),
                                     in[3].view_of(), in[4].view_of()));
  }
  bool differentiable() const override { return false; }
};

// doutput, dhidden, dcell (each may be undefined), U, cell before the first step, gates, cells, inside (may
// be undefined) -> dgates [T, B, 4 H], and the gradients of the first state
struct LstmPassGrad final : Primitive<LstmPassGrad> {
  static constexpr const char* kName = "lstm_pass_grad";
  bool reverse;
  explicit LstmPassGrad(bool r) : reverse(r) {}
  Specs infer(const Tensors& in, Loc) const override {
    const Spec state{in[4].shape(), in[4].dtype()};
    return {{in[5].shape(), in[5].dtype()}, state, state};
  }
  double flops(const Tensors& in, const Tensors&) const override {
    const auto H = static_cast<double>(in[3].shape()[1]);
    return static_cast<double>(in[6].numel()) * (8 * H + kLstmCellFlops);
  }
  void run(const Tensors& in, Tensors& out) const override {
    for_sample_groups(out[0], in[4].shape()[0],
                      [&](int64_t first, int64_t count) { run_samples(in, out, first, count); });
  }
  bool differentiable() const override { return false; }

 private:
  // The steps of samples first to first + count - 1.
  void run_samples(const Tensors& in, const Tensors& out, int64_t first, int64_t count) const {
    const bool rests = in[7].defined();
    const auto step = [&](const Tensor& v, int64_t t) { return rows_of(step_of(v, t), first, count); };
    const auto state = [&](const Tensor& v) {
      return v.defined() ? rows_of(v.view_of(), first, count) : backend::View{};
    };
    const int64_t T = in[5].shape()[0];
    const backend::View dhidden = state(out[1]), dcell = state(out[2]);
    backend::LstmCellUpstream upstream{state(in[1]), state(in[2]), {}};
    for (int64_t k = 0; k < T; ++k) {
      const int64_t t = reverse ? k : T - 1 - k, before = reverse ? t + 1 : t - 1;
      const backend::View dgates = step(out[0], t);
      const backend::View cell = k + 1 == T ? state(in[4]) : step(in[6], before);
      if (in[0].defined()) upstream.output = step(in[0], t);
      TT_KERNEL(out[0],
                lstm_cell_grad({dgates, dcell, rests ? dhidden : backend::View{}}, upstream, step(in[5], t),
                               cell, step(in[6], t), rests ? step(in[7], t) : backend::View{}));
      TT_KERNEL(out[0], matmul(dhidden, dgates, in[3].view_of(), rests));
      upstream.hidden = dhidden, upstream.cell = dcell;
    }
  }
};

namespace vjp {

// Inputs gates, cell; outputs hidden, cell, the gates after their functions. The next cell is computed again
// from what was saved.
inline Tensors lstm_cell(const Tensors& g, const Saved& s) {
  return apply_all(LstmCellGrad(), {g[0], g[1], s.outputs[2], s.inputs[1], s.outputs[1]});
}

// The hidden states before each step [T, B, H], of an unfolded pass.
inline Tensor hidden_before(const Saved& s, bool reverse) {
  const Tensor& states = s.inputs[7].defined() ? s.outputs[5] : s.outputs[0];
  const int64_t T = states.shape()[0];
  const Tensor first = tinytorch::unsqueeze(s.inputs[5], 0);
  if (T == 1) return first;
  return reverse ? tinytorch::cat({tinytorch::slice(states, 0, 1, T), first}, 0)
                 : tinytorch::cat({first, tinytorch::slice(states, 0, 0, T - 1)}, 0);
}

// Inputs x, W, b, U, b of U, hidden, cell, inside; outputs output, hidden, cell, gates, cells and, with
// inside, the hidden states.
inline Tensors lstm_pass(const Tensors& g, const Saved& s, bool reverse) {
  const std::vector<bool>& needs = s.needs_grad;
  const Tensors of_pass = apply_all(LstmPassGrad(reverse), {g[0], g[1], g[2], s.inputs[3], s.inputs[6],
                                                            s.outputs[3], s.outputs[4], s.inputs[7]});
  const auto rows = [](const Tensor& v) {
    const Shape& shape = v.shape();
    return tinytorch::reshape(v, {shape[0] * shape[1], shape[2]});
  };
  const Tensor dgates = rows(of_pass[0]);
  const bool bias = needs[2] || needs[4];
  const Tensors of_input = linear(dgates, rows(s.inputs[0]), s.inputs[1], {needs[0], needs[1], bias});
  const Tensor of_hidden =
      needs[3] ? tinytorch::matmul(dgates.t(), rows(hidden_before(s, reverse))) : Tensor();
  return {needs[0] ? tinytorch::reshape(of_input[0], s.input_shapes[0]) : Tensor(),
          of_input[1],
          needs[2] ? of_input[2] : Tensor(),
          of_hidden,
          needs[4] ? of_input[2] : Tensor(),
          of_pass[1],
          of_pass[2],
          Tensor()};
}

}  // namespace vjp
}  // namespace tinytorch::inline TT_BUILD
#endif
