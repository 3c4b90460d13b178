// RNNCell, LSTMCell, GRUCell: one step of the layers in recurrent.hpp, for loops that a program writes
// itself.
//
//   tt::GRUCell cell(10, 20);
//   tt::Tensor h = tt::zeros({B, 20});
//   for (const tt::Tensor& x : tt::unbind(sequence, 0)) h = cell(x, h);   // x [B, 10] or [10]
//
// Names and equations are PyTorch's.
#pragma once

#include <tinytorch/layers/recurrent.hpp>

namespace tinytorch::inline TT_BUILD {

// forward(x) is the step from a state of zeros.
class RecurrentCell : public RecurrentBase {
 public:
  Tensor forward(const Tensor& x) override { return step(x, {}, {}).hidden; }

  RecurrentWeights weights;

 protected:
  RecurrentCell(RecurrentUnit kind, int64_t input_size, int64_t hidden_size, bool bias, Generator& generator,
                Loc loc)
      : RecurrentBase(kind, input_size, hidden_size, loc),
        weights(add_weights("", input_size, bias, generator)) {}
  RecurrentState step(const Tensor& x, const RecurrentState& given, Loc loc) {
    const Scope scope = forward_scope(loc);
    require_sizes((x.rank() == 1 || x.rank() == 2) && x.size(-1) == inputs, "x [B, I] or [I]", x, loc);
    Shape shape = x.shape();
    shape[shape.size() - 1] = features;
    const RecurrentState state = complete(given, shape, x, loc);
    return recurrent_step(unit, linear(x, weights.input, weights.input_bias), state, weights);
  }
};

class RNNCell : public RecurrentCell {
 public:
  RNNCell(int64_t input_size, int64_t hidden_size, bool bias = true, Nonlinearity f = Nonlinearity::tanh,
          Generator& generator = default_generator(), TT_LOC)
      : RecurrentCell(f == Nonlinearity::relu ? RecurrentUnit::rnn_relu : RecurrentUnit::rnn_tanh, input_size,
                      hidden_size, bias, generator, loc) {}
  Tensor operator()(const Tensor& x, const Tensor& hidden = {}, TT_LOC) {
    return step(x, {hidden}, loc).hidden;
  }
};

class GRUCell : public RecurrentCell {
 public:
  GRUCell(int64_t input_size, int64_t hidden_size, bool bias = true,
          Generator& generator = default_generator(), TT_LOC)
      : RecurrentCell(RecurrentUnit::gru, input_size, hidden_size, bias, generator, loc) {}
  Tensor operator()(const Tensor& x, const Tensor& hidden = {}, TT_LOC) {
    return step(x, {hidden}, loc).hidden;
  }
};

class LSTMCell : public RecurrentCell {
 public:
  LSTMCell(int64_t input_size, int64_t hidden_size, bool bias = true,
           Generator& generator = default_generator(), TT_LOC)
      : RecurrentCell(RecurrentUnit::lstm, input_size, hidden_size, bias, generator, loc) {}
  // auto [h, c] = cell(x, {h0, c0});
  RecurrentState operator()(const Tensor& x, const RecurrentState& state = {}, TT_LOC) {
    return step(x, state, loc);
  }
};

}  // namespace tinytorch::inline TT_BUILD
