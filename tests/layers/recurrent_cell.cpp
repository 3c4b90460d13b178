#include <tinytorch/layers/recurrent_cell.hpp>

#include <doctest/doctest.h>

#include <support/errors.hpp>
#include <support/values.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

// Values and gradients of the cells are compared with PyTorch's in recurrent.cpp.

TEST_CASE("a loop over cells gives what the layer with its weights gives") {
  tt::manual_seed(10);
  tt::LSTM layer(3, 4);
  tt::LSTMCell cell(3, 4);
  {
    const tt::NoGrad no_grad;
    for (size_t i = 0; i < 4; ++i) cell.parameters()[i].copy_(layer.parameters()[i]);
  }
  CHECK(cell.named_parameters()[0].name == "weight_ih");
  const tt::Tensor x = tt::randn({5, 2, 3});
  const auto [y, last] = layer(x);
  tt::RecurrentState state;
  for (const tt::Tensor& step : tt::unbind(x, 0)) state = cell(step, state);
  check_values(state.hidden.to_vector<double>(), last.hidden.to_vector<double>(), 1e-6);
  check_values(state.cell.to_vector<double>(), last.cell.to_vector<double>(), 1e-6);
  CHECK(cell.forward(x.select(0, 0)).to_vector() == cell(x.select(0, 0)).hidden.to_vector());
}

TEST_CASE("cells refuse inputs and states that do not fit") {
  using errors::thrown_by;
  tt::GRUCell cell(3, 4);
  CHECK(thrown_by([&] { cell(tt::zeros({2, 2, 3})); }).code == "TT-SHAPE-02");
  CHECK(thrown_by([&] { cell(tt::zeros({2, 4})); }).code == "TT-SHAPE-02");
  CHECK(thrown_by([&] { cell(tt::zeros({2, 3}), tt::zeros({4})); }).code == "TT-SHAPE-02");
  CHECK(thrown_by([&] { tt::RNNCell(3, 0); }).code == "TT-RANGE-08");
}
