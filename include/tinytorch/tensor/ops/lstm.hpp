// The step of an LSTM as one operation, and a whole pass over a sequence as one operation.
//
//   i, f, o = sigmoid, g = tanh of the gates;  c' = f c + i g,  h' = o tanh(c')
//
// A pass computes the product of all steps with W at once, and then one product with U and one fused cell per
// step. Its derivative walks the steps back, and computes the gradients of the weights with one product over
// all steps. Equations and the order of the gates, i, f, g, o, are PyTorch's.
#pragma once

#include <tinytorch/tensor/operators.hpp>

namespace tinytorch::inline TT_BUILD {

struct LstmStep {
  Tensor hidden, cell;  // [B, H]
};
// The cell of one step: gates [B, 4 H] before their functions, cell [B, H], both of one floating dtype -> the
// next state. Throws TT-SHAPE-02 if the sizes do not fit.
TT_API LstmStep lstm_cell(const Tensor& gates, const Tensor& cell, TT_LOC);

// Weights of a pass: input [4 H, I], hidden [4 H, H], and both biases [4 H] or none.
struct LstmWeights {
  Tensor input, hidden, input_bias{}, hidden_bias{};
};
struct LstmSequence {
  Tensor output;        // [T, B, H]
  Tensor hidden, cell;  // [B, H], the last state
};
// One direction of one layer over x [T, B, I], T >= 1, from the state hidden, cell [B, H]. reverse: from the
// last step to the first. inside, bool [T, B] or undefined: a sample at rest, where it is false, keeps its
// state, and its output is 0. All operands but `inside` have one floating dtype.
// Throws TT-SHAPE-02 if the sizes do not fit.
TT_API LstmSequence lstm_pass(const Tensor& x, const LstmWeights& weights, const LstmStep& start,
                              bool reverse = false, const Tensor& inside = {}, TT_LOC);

}  // namespace tinytorch::inline TT_BUILD

#if TT_BODIES(TENSOR)
#include <tinytorch/backend/cpu/elementwise.hpp>
#include <tinytorch/backend/cpu/lstm_cell.hpp>
#include <tinytorch/backend/cpu/matmul.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tensor/ops/unbind.hpp>
#include <tinytorch/tensor/rules.hpp>
#include <tinytorch/tensor/vjp/lstm.hpp>

namespace tinytorch::inline TT_BUILD {

// The step by operations that can be differentiated any number of times.
inline LstmStep composed_lstm_cell(const Tensor& gates, const Tensor& cell) {
  const int64_t H = cell.shape()[1];
  const auto gate = [&](int64_t k) { return slice(gates, 1, k * H, (k + 1) * H); };
  const Tensor next = sigmoid(gate(1)) * cell + sigmoid(gate(0)) * tanh(gate(2));
  return {sigmoid(gate(3)) * tanh(next), next};
}

// The pass by such operations, step by step, from the operands of LstmPass.
inline Tensors composed_lstm_pass(const Tensors& in, bool reverse) {
  const Tensors steps = unbind(linear(in[0], in[1], in[2]), 0);
  Tensors outputs(steps.size());
  LstmStep s{in[5], in[6]};
  for (size_t k = 0; k < steps.size(); ++k) {
    const size_t t = reverse ? steps.size() - 1 - k : k;
    const LstmStep next = composed_lstm_cell(linear_residual(s.hidden, in[3], in[4], steps[t]), s.cell);
    if (!in[7].defined()) {
      outputs[t] = next.hidden, s = next;
      continue;
    }
    const Tensor inside = unsqueeze(select(in[7], 0, static_cast<int64_t>(t)), 1);
    outputs[t] = where(inside, next.hidden, zeros_like(next.hidden));
    s = {where(inside, next.hidden, s.hidden), where(inside, next.cell, s.cell)};
  }
  return {stack(outputs, 0), s.hidden, s.cell};
}

// gates, cell -> hidden, cell, and, if `keeps`, the gates after their functions
struct LstmCellOp final : Primitive<LstmCellOp> {
  static constexpr const char* kName = "lstm_cell";
  bool keeps;
  explicit LstmCellOp(bool k) : keeps(k) {}
  Specs infer(const Tensors& in, Loc loc) const override {
    require_same_dtype(kName, in, loc);
    require_floating(kName, in[0], loc);
    require_rank(kName, in[1], 2, "a cell [B, H]", loc);
    const Shape& cell = in[1].shape();
    if (!(in[0].shape() == Shape{cell[0], 4 * cell[1]})) {
      fail("TT-SHAPE-02",
           "lstm_cell: sizes differ: " + describe_operands(in) + "\n  rule: gates [B, 4 H], cell [B, H]",
           loc);
    }
    const Spec state{cell, in[1].dtype()};
    return keeps ? Specs{state, state, {in[0].shape(), in[0].dtype()}} : Specs{state, state};
  }
  double flops(const Tensors& in, const Tensors&) const override {
    return kLstmCellFlops * static_cast<double>(in[1].numel());
  }
  void run(const Tensors& in, Tensors& out) const override {
    const backend::View activated = keeps ? out[2].view_of() : backend::View{};
    TT_KERNEL(out[0], lstm_cell({out[0].view_of(), out[1].view_of(), activated, {}}, in[0].view_of(),
                                in[1].view_of()));
  }
  Save saves() const override { return Save::inputs_and_extras; }
  size_t differentiable_outputs() const override { return 2; }
  Tensors vjp(const Saved& s, const Tensors& g) const override { return vjp::lstm_cell(g, s); }
  Tensors composed(const Tensors& in) const override {
    const LstmStep next = composed_lstm_cell(in[0], in[1]);
    return {next.hidden, next.cell};
  }
};

// x, W, b, U, b of U, hidden, cell, inside -> output, hidden, cell, and, if `keeps`, the gates after their
// functions [T, B, 4 H] and the cells [T, B, H]; also the hidden states [T, B, H] if samples can rest
struct LstmPass final : Primitive<LstmPass> {
  static constexpr const char* kName = "lstm_pass";
  bool reverse, keeps;
  LstmPass(bool r, bool k) : reverse(r), keeps(k) {}
  Specs infer(const Tensors& in, Loc loc) const override {
    require_same_dtype(kName, {in[0], in[1], in[2], in[3], in[4], in[5], in[6]}, loc);
    require_floating(kName, in[0], loc);
    require_rank(kName, in[0], 3, "x [T, B, I]", loc);
    require_rank(kName, in[3], 2, "a weight [4 H, H]", loc);
    const int64_t T = in[0].shape()[0], B = in[0].shape()[1], I = in[0].shape()[2], H = in[3].shape()[1];
    const auto fits = [&](size_t i, const Shape& shape) {
      return !in[i].defined() || in[i].shape() == shape;
    };
    const bool inside = fits(7, {T, B}) && (!in[7].defined() || in[7].dtype() == DType::boolean);
    if (T < 1 || in[2].defined() != in[4].defined() || !fits(1, {4 * H, I}) || !fits(2, {4 * H}) ||
        !fits(3, {4 * H, H}) || !fits(4, {4 * H}) || !fits(5, {B, H}) || !fits(6, {B, H}) || !inside) {
      fail("TT-SHAPE-02",
           "lstm_pass: sizes differ: " + describe_operands(in) +
               "\n  rule: x [T, B, I], T >= 1, weights [4 H, I] and [4 H, H], both biases [4 H] or none, "
               "states [B, H], inside bool [T, B]",
           loc);
    }
    const DType t = in[0].dtype();
    const Spec all{{T, B, H}, t}, state{{B, H}, t}, gates{{T, B, 4 * H}, t};
    if (!keeps) return {all, state, state};
    return in[7].defined() ? Specs{all, state, state, gates, all, all} : Specs{all, state, state, gates, all};
  }
  double flops(const Tensors& in, const Tensors& out) const override {
    const auto inputs = static_cast<double>(in[0].shape()[2]), H = static_cast<double>(in[3].shape()[1]);
    return static_cast<double>(out[0].numel()) * (8 * (inputs + H) + kLstmCellFlops);
  }
  void run(const Tensors& in, Tensors& out) const override {
    const int64_t T = in[0].shape()[0], B = in[0].shape()[1], H = in[3].shape()[1];
    const Tensor gates = keeps ? out[3] : empty({T, B, 4 * H}, in[0].dtype(), in[0].device());
    project(gates, in);
    Tensor copied;
    backend::View columns = backend::transposed(in[3].view_of());
    if (in_sample_groups(gates) && B > 1 && T > 1) {  // each step reads U, in rows of its transpose
      copied = empty({H, 4 * H}, in[3].dtype(), in[3].device());
      TT_KERNEL(copied, copy(copied.view_of(), columns));
      columns = copied.view_of();
    }
    for_sample_groups(
        gates, B, [&](int64_t first, int64_t count) { run_samples(in, out, gates, columns, first, count); });
  }
  Save saves() const override { return Save::both; }
  bool saves_output(size_t i) const override { return i == 0 || i > 2; }
  size_t differentiable_outputs() const override { return 3; }
  Tensors vjp(const Saved& s, const Tensors& g) const override { return vjp::lstm_pass(g, s, reverse); }
  Tensors composed(const Tensors& in) const override { return composed_lstm_pass(in, reverse); }

 private:
  // The steps of samples first to first + count - 1; columns is U^T [H, 4 H].
  void run_samples(const Tensors& in, const Tensors& out, const Tensor& gates, const backend::View& columns,
                   int64_t first, int64_t count) const {
    const bool rests = in[7].defined();
    const auto step = [&](const Tensor& v, int64_t t) { return rows_of(step_of(v, t), first, count); };
    const auto state = [&](const Tensor& v) { return rows_of(v.view_of(), first, count); };
    backend::View hidden = state(in[5]), cell = state(in[6]);
    const int64_t T = in[0].shape()[0];
    for (int64_t k = 0; k < T; ++k) {
      const int64_t t = reverse ? T - 1 - k : k;
      const backend::View output = step(out[0], t), sums = step(gates, t);
      const backend::View next_cell = keeps ? step(out[4], t) : state(out[2]);
      const backend::View next = !rests ? output : keeps ? step(out[5], t) : state(out[1]);
      TT_KERNEL(gates, matmul(sums, hidden, columns, true));
      TT_KERNEL(gates,
                lstm_cell({next, next_cell, keeps ? sums : backend::View{}, rests ? output : backend::View{}},
                          sums, cell, {rests ? step(in[7], t) : backend::View{}, hidden}));
      hidden = next, cell = next_cell;
    }
    if (keeps || !rests) TT_KERNEL(gates, copy(state(out[1]), hidden));
    if (keeps) TT_KERNEL(gates, copy(state(out[2]), cell));
  }
  // gates [T, B, 4 H] = x W^T + both biases, in one product.
  static void project(const Tensor& gates, const Tensors& in) {
    Tensor bias;
    if (in[2].defined()) {
      bias = empty(in[2].shape(), in[2].dtype(), in[2].device());
      TT_KERNEL(bias, binary(backend::BinaryFn::add, bias.view_of(), in[2].view_of(), in[4].view_of()));
    }
    TT_KERNEL(gates, linear(rows_of_steps(gates), rows_of_steps(in[0]), in[1].view_of(), view_or_none(bias)));
  }
};

TT_API LstmStep lstm_cell(const Tensor& gates, const Tensor& cell, Loc loc) {
  const Tensors operands{gates, cell};
  require_defined("lstm_cell", operands, loc);
  const Tensors out = apply_all(LstmCellOp(records_grad(operands)), operands, loc);
  return {out[0], out[1]};
}
TT_API LstmSequence lstm_pass(const Tensor& x, const LstmWeights& weights, const LstmStep& start,
                              bool reverse, const Tensor& inside, Loc loc) {
  require_defined("lstm_pass", loc, x, weights.input, weights.hidden, start.hidden, start.cell);
  const Tensors operands{x.contiguous(),      weights.input, weights.input_bias, weights.hidden,
                         weights.hidden_bias, start.hidden,  start.cell,         inside};
  const Tensors out = apply_all(LstmPass(reverse, records_grad(operands)), operands, loc);
  return {out[0], out[1], out[2]};
}

}  // namespace tinytorch::inline TT_BUILD
#endif
