// Recurrent layers: RNN, LSTM, GRU, and one step of each as RNNCell, LSTMCell, GRUCell.
//
//   RNN   h' = tanh(W x + b + U h + c), or relu
//   LSTM  i, f, o = sigmoid(...), g = tanh(...);  cell' = f cell + i g,  h' = o tanh(cell')
//   GRU   r, z = sigmoid(...), n = tanh(W x + b + r (U h + c));  h' = (1 - z) n + z h
//
//   tt::LSTM lstm(10, 20, {.num_layers = 2});
//   auto [y, state] = lstm(x);          // x [T, B, 10] -> y [T, B, 20]; state.hidden, state.cell [2, B, 20]
//   auto [more, next] = lstm(x2, state);
//
// Sequences of different lengths are padded, with `lengths` as the third operand, or a PackedSequence.
//
// Names, gates and equations are PyTorch's, so its weights load by name ("weight_ih_l0"). The product of all
// steps with W is computed at once; only the product with U waits for the step before it. One direction of an
// LSTM is one operation (tensor/ops/lstm.hpp).
// Sources: Hochreiter and Schmidhuber, 1997; Gers et al., 2000; Cho et al., 2014.
#pragma once

#include <cmath>
#include <string>
#include <tinytorch/layers/init.hpp>
#include <tinytorch/layers/module.hpp>
#include <tinytorch/layers/packed_sequence.hpp>
#include <tinytorch/tensor/ops.hpp>
#include <tinytorch/tensor/ops/lstm.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD {

enum class RecurrentUnit : uint8_t { rnn_tanh, rnn_relu, lstm, gru };
enum class Nonlinearity : uint8_t { tanh, relu };

// The state between two steps. Undefined tensors mean zeros; `cell` is the LSTM's only.
struct RecurrentState {
  Tensor hidden{}, cell{};
};
struct RecurrentOptions {
  int64_t num_layers = 1;
  bool bias = true;
  bool batch_first = false;    // x and y are [B, T, ...]; states are not affected
  double dropout = 0;          // of the output of each layer but the last, in training
  bool bidirectional = false;  // a second pass from the last step to the first; y has both, [T, B, 2 H]
  Nonlinearity nonlinearity = Nonlinearity::tanh;  // of RNN
};

// Weights of one direction of one layer; I inputs, H values of the state, G gates.
struct RecurrentWeights {
  Tensor input, hidden;            // [G H, I], [G H, H]
  Tensor input_bias, hidden_bias;  // [G H]; undefined without a bias
};

inline int64_t gates_of(RecurrentUnit unit) {
  return unit == RecurrentUnit::lstm ? 4 : (unit == RecurrentUnit::gru ? 3 : 1);
}

// One step: from_input [B, G H] or [G H] = x W^T + b, hidden and cell [B, H] or [H] -> the next state.
inline RecurrentState recurrent_step(RecurrentUnit unit, const Tensor& from_input,
                                     const RecurrentState& state, const RecurrentWeights& w) {
  const Tensor& h = state.hidden;
  const auto gates = [&](const Tensor& all) {
    Shape shape = h.shape();
    shape.push_back(shape[shape.size() - 1]);
    shape[shape.size() - 2] = gates_of(unit);
    return unbind(reshape(all, shape), -2);
  };
  if (unit == RecurrentUnit::gru) {
    const Tensors x = gates(from_input), u = gates(linear(h, w.hidden, w.hidden_bias));
    const Tensor reset = sigmoid(x[0] + u[0]), keep = sigmoid(x[1] + u[1]);
    const Tensor fresh = tanh(x[2] + reset * u[2]);
    return {fresh + keep * (h - fresh)};
  }
  const Tensor sum = linear_residual(h, w.hidden, w.hidden_bias, from_input);
  if (unit == RecurrentUnit::rnn_tanh) return {tanh(sum)};
  if (unit == RecurrentUnit::rnn_relu) return {relu(sum)};
  if (h.rank() == 2) {
    const LstmStep next = lstm_cell(sum, state.cell);
    return {next.hidden, next.cell};
  }
  const LstmStep next = lstm_cell(unsqueeze(sum, 0), unsqueeze(state.cell, 0));  // one sample, without B
  return {squeeze(next.hidden, 0), squeeze(next.cell, 0)};
}

// The base class of recurrent layers and cells. It has their weights, uniform on [-1/sqrt(H), 1/sqrt(H)], and
// their checks.
class RecurrentBase : public Module {
 public:
  RecurrentUnit unit;
  int64_t inputs, features;  // I, H

 protected:
  RecurrentBase(RecurrentUnit kind, int64_t input_size, int64_t hidden_size, Loc loc)
      : unit(kind), inputs(input_size), features(hidden_size) {
    if (inputs < 1 || features < 1) {
      fail("TT-RANGE-08",
           "a recurrent layer needs sizes of at least 1, got " + std::to_string(inputs) + " inputs and " +
               std::to_string(features) + " features of its state",
           loc);
    }
  }
  RecurrentWeights add_weights(const std::string& suffix, int64_t width, bool bias, Generator& generator) {
    const int64_t rows = gates_of(unit) * features;
    RecurrentWeights w;
    w.input = add_parameter("weight_ih" + suffix, empty({rows, width}));
    w.hidden = add_parameter("weight_hh" + suffix, empty({rows, features}));
    if (bias) {
      w.input_bias = add_parameter("bias_ih" + suffix, empty({rows}));
      w.hidden_bias = add_parameter("bias_hh" + suffix, empty({rows}));
    }
    const double bound = 1 / std::sqrt(static_cast<double>(features));
    for (const Tensor& t : {w.input, w.hidden, w.input_bias, w.hidden_bias}) {
      if (t.defined()) init::uniform(t, -bound, bound, generator);
    }
    return w;
  }
  void require_sizes(bool fit, const char* rule, const Tensor& got, Loc loc) const {
    if (fit) return;
    fail("TT-SHAPE-02",
         std::string("a recurrent layer with ") + std::to_string(inputs) + " inputs and " +
             std::to_string(features) + " features takes " + rule + ", got " + got.describe(),
         loc);
  }
  // The given state with zeros in the place of undefined tensors.
  RecurrentState complete(const RecurrentState& given, const Shape& shape, const Tensor& x, Loc loc) const {
    RecurrentState state = given;
    for (Tensor* t : {&state.hidden, &state.cell}) {
      if (!t->defined()) *t = zeros(shape, x.dtype(), x.device(), loc);
      require_sizes(t->shape() == shape, ("a state of shape " + shape.str()).c_str(), *t, loc);
    }
    return state;
  }
};

// Several layers over whole sequences; the base class of RNN, LSTM and GRU. forward(x), which Sequential
// calls, gives the outputs alone.
class Recurrent : public RecurrentBase {
 public:
  Tensor forward(const Tensor& x) override { return run(x, {}, {}, {}).first; }

  RecurrentOptions options;
  std::vector<RecurrentWeights> weights;  // [layer * directions + direction]; direction 1 is the reverse

 protected:
  Recurrent(RecurrentUnit kind, int64_t input_size, int64_t hidden_size, const RecurrentOptions& given,
            Generator& generator, Loc loc)
      : RecurrentBase(kind, input_size, hidden_size, loc), options(given) {
    if (options.num_layers < 1 || !(options.dropout >= 0 && options.dropout <= 1)) {
      fail("TT-RANGE-08", "a recurrent layer needs num_layers of at least 1 and dropout in [0, 1]", loc);
    }
    for (int64_t layer = 0; layer < options.num_layers; ++layer) {
      const int64_t width = layer == 0 ? inputs : directions() * features;
      for (int64_t d = 0; d < directions(); ++d) {
        const std::string suffix = "_l" + std::to_string(layer) + (d == 1 ? "_reverse" : "");
        weights.push_back(add_weights(suffix, width, options.bias, generator));
      }
    }
  }
  int64_t directions() const { return options.bidirectional ? 2 : 1; }

  // The outputs [T, B, D H] of the last layer, and the last states [layers D, B, H]. lengths i64 [B]: sample
  // b has lengths[b] steps, and the rest of its x, which must be finite, has no effect; its outputs there
  // are 0. This is what PyTorch computes for packed sequences.
  std::pair<Tensor, RecurrentState> run(const Tensor& x, const RecurrentState& given, const Tensor& lengths,
                                        Loc loc) {
    const Scope scope = forward_scope(loc);
    const bool one = x.rank() == 2;  // a single sequence [T, I]
    require_sizes((one || x.rank() == 3) && x.size(-1) == inputs,
                  options.batch_first ? "x [B, T, I] or [T, I]" : "x [T, B, I] or [T, I]", x, loc);
    Tensor sequence = one ? unsqueeze(x, 1) : (options.batch_first ? transpose(x, 0, 1) : x);  // [T, B, I]
    const int64_t T = sequence.size(0), B = sequence.size(1);
    require_sizes(T > 0, "sequences of at least one step", x, loc);
    const int64_t count = options.num_layers * directions();
    const Shape shape = one ? Shape{count, features} : Shape{count, B, features};
    RecurrentState state = complete(given, shape, x, loc);
    if (one) state = {unsqueeze(state.hidden, 1), unsqueeze(state.cell, 1)};
    const Tensor inside = mask(lengths, T, B, loc);

    const Tensors hidden = unbind(state.hidden, 0), cell = unbind(state.cell, 0);
    Tensors last_hidden, last_cell;
    for (int64_t layer = 0; layer < options.num_layers; ++layer) {
      Tensors outputs;
      for (int64_t d = 0; d < directions(); ++d) {
        const auto at = static_cast<size_t>(layer * directions() + d);
        RecurrentState s{hidden[at], cell[at]};
        outputs.push_back(pass(sequence, s, weights[at], d == 1, inside));
        last_hidden.push_back(s.hidden), last_cell.push_back(s.cell);
      }
      sequence = outputs.size() == 1 ? outputs[0] : cat(outputs, 2);
      if (training() && options.dropout > 0 && layer + 1 < options.num_layers)
        sequence = tinytorch::dropout(sequence, options.dropout);
    }
    RecurrentState last{stack(last_hidden, 0)};
    if (unit == RecurrentUnit::lstm) last.cell = stack(last_cell, 0);
    if (!one) return {options.batch_first ? transpose(sequence, 0, 1) : sequence, last};
    return {squeeze(sequence, 1),
            {squeeze(last.hidden, 1), last.cell.defined() ? squeeze(last.cell, 1) : Tensor()}};
  }

  // Runs the layer on packed sequences; the outputs are packed as well. States have the order of the
  // sequences before packing.
  std::pair<PackedSequence, RecurrentState> run(const PackedSequence& packed, const RecurrentState& given,
                                                Loc loc) {
    const bool first = options.batch_first, sorted = !packed.sorted_indices.defined();
    const auto [x, lengths] = pad_packed_sequence(packed, {.batch_first = first}, loc);
    const auto [y, state] = run(x, given, lengths.to(x.device(), loc), loc);
    return {pack_padded_sequence(y, lengths, {.batch_first = first, .enforce_sorted = sorted}, loc), state};
  }

 private:
  // Returns a mask bool [T, B], true at the steps that the sequence of a sample has. It is undefined without
  // lengths.
  Tensor mask(const Tensor& lengths, int64_t T, int64_t B, Loc loc) const {
    if (!lengths.defined()) return {};
    require_sizes(lengths.dtype() == i64 && lengths.shape() == Shape{B}, "lengths i64 [B]", lengths, loc);
    return gt(lengths, unsqueeze(arange(0, T, 1, i64, lengths.device(), loc), 1));
  }
  // One direction of one layer: sequence [T, B, ...] -> outputs [T, B, H]. s becomes the last state.
  Tensor pass(const Tensor& sequence, RecurrentState& s, const RecurrentWeights& w, bool reverse,
              const Tensor& mask) const {
    if (unit == RecurrentUnit::lstm) {
      const LstmSequence whole = lstm_pass(sequence, {w.input, w.hidden, w.input_bias, w.hidden_bias},
                                           {s.hidden, s.cell}, reverse, mask);
      s = {whole.hidden, whole.cell};
      return whole.output;
    }
    const Tensors inside = mask.defined() ? unbind(unsqueeze(mask, 2), 0) : Tensors();
    const Tensors steps = unbind(linear(sequence, w.input, w.input_bias), 0);
    Tensors outputs(steps.size());
    for (size_t i = 0; i < steps.size(); ++i) {
      const size_t t = reverse ? steps.size() - 1 - i : i;
      const RecurrentState next = recurrent_step(unit, steps[t], s, w);
      if (inside.empty()) {
        outputs[t] = next.hidden, s = next;
        continue;
      }
      outputs[t] = where(inside[t], next.hidden, zeros_like(next.hidden));
      s.hidden = where(inside[t], next.hidden, s.hidden);
    }
    return stack(outputs, 0);
  }
};

struct RecurrentOutput {
  Tensor output, hidden;  // [T, B, D H] (D = 2 if bidirectional), [layers D, B, H]
};
struct LstmOutput {
  Tensor output;
  RecurrentState state;
};
struct PackedRecurrentOutput {
  PackedSequence output;
  Tensor hidden;
};
struct PackedLstmOutput {
  PackedSequence output;
  RecurrentState state;
};

class RNN : public Recurrent {
 public:
  RNN(int64_t input_size, int64_t hidden_size, const RecurrentOptions& given = {},
      Generator& generator = default_generator(), TT_LOC)
      : Recurrent(
            given.nonlinearity == Nonlinearity::relu ? RecurrentUnit::rnn_relu : RecurrentUnit::rnn_tanh,
            input_size, hidden_size, given, generator, loc) {}
  RecurrentOutput operator()(const Tensor& x, const Tensor& hidden = {}, const Tensor& lengths = {}, TT_LOC) {
    auto [y, state] = run(x, {hidden}, lengths, loc);
    return {y, state.hidden};
  }
  PackedRecurrentOutput operator()(const PackedSequence& x, const Tensor& hidden = {}, TT_LOC) {
    auto [y, state] = run(x, {hidden}, loc);
    return {y, state.hidden};
  }
};

class GRU : public Recurrent {
 public:
  GRU(int64_t input_size, int64_t hidden_size, const RecurrentOptions& given = {},
      Generator& generator = default_generator(), TT_LOC)
      : Recurrent(RecurrentUnit::gru, input_size, hidden_size, given, generator, loc) {}
  RecurrentOutput operator()(const Tensor& x, const Tensor& hidden = {}, const Tensor& lengths = {}, TT_LOC) {
    auto [y, state] = run(x, {hidden}, lengths, loc);
    return {y, state.hidden};
  }
  PackedRecurrentOutput operator()(const PackedSequence& x, const Tensor& hidden = {}, TT_LOC) {
    auto [y, state] = run(x, {hidden}, loc);
    return {y, state.hidden};
  }
};

class LSTM : public Recurrent {
 public:
  LSTM(int64_t input_size, int64_t hidden_size, const RecurrentOptions& given = {},
       Generator& generator = default_generator(), TT_LOC)
      : Recurrent(RecurrentUnit::lstm, input_size, hidden_size, given, generator, loc) {}
  LstmOutput operator()(const Tensor& x, const RecurrentState& state = {}, const Tensor& lengths = {},
                        TT_LOC) {
    auto [y, last] = run(x, state, lengths, loc);
    return {y, last};
  }
  PackedLstmOutput operator()(const PackedSequence& x, const RecurrentState& state = {}, TT_LOC) {
    auto [y, last] = run(x, state, loc);
    return {y, last};
  }
};

}  // namespace tinytorch::inline TT_BUILD
