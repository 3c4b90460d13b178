// The cell of an LSTM: one step behind the matrix products, and its derivative, for both backends.
//
//   i, f, o = sigmoid, g = tanh of the gates;  c' = f c + i g,  h = o tanh(c')
//
// Sources: Hochreiter and Schmidhuber, 1997; Gers et al., 2000.
#pragma once

#include <tinytorch/backend/activation.hpp>
#include <tinytorch/backend/view.hpp>

namespace tinytorch::inline TT_BUILD::backend {

// The results of a step; those without data are not stored. activated [B, 4 H]: i, f, g, o, which the
// derivative needs. output [B, H]: the hidden state, with 0 in rows that are at rest.
struct LstmCellResults {
  View hidden, cell, activated{}, output{};
};
// inside, bool [B]: false for rows at rest, which keep the hidden state `hidden` [B, H] and their cell.
// Without data, no row is at rest.
struct LstmRows {
  View inside{}, hidden{};
};
// Gradients of a step's results; those without data are 0. `output` does not count in rows at rest.
struct LstmCellUpstream {
  View hidden{}, cell{}, output{};
};
// Gradients of a step's operands. hidden [B, H] is the part of rows at rest, 0 in other rows; it is stored
// only if it has data.
struct LstmCellGrads {
  View gates, cell, hidden{};
};

// The values of one element.
template <class T>
struct LstmElement {
  T input, forget, fresh, output;  // i, f, g, o

  TT_HOST_DEVICE static LstmElement of_gates(T i, T f, T g, T o) {
    return {sigmoid_value(i), sigmoid_value(f), math::tanh(g), sigmoid_value(o)};
  }
  TT_HOST_DEVICE T next_cell(T cell) const { return forget * cell + input * fresh; }
  TT_HOST_DEVICE T hidden(T next) const { return output * math::tanh(next); }
};
// The derivative of one element, from the gradients of the hidden state and of the next cell.
template <class T>
struct LstmElementGrad {
  T input, forget, fresh, output, cell;  // with respect to the gates before their functions, and the cell

  TT_HOST_DEVICE static LstmElementGrad of(const LstmElement<T>& v, T cell, T next, T dhidden, T dnext) {
    const T squashed = math::tanh(next);
    const T total = dnext + dhidden * v.output * (T(1) - squashed * squashed);
    return {total * v.fresh * v.input * (T(1) - v.input), total * cell * v.forget * (T(1) - v.forget),
            total * v.input * (T(1) - v.fresh * v.fresh), dhidden * squashed * v.output * (T(1) - v.output),
            total * v.forget};
  }
};

}  // namespace tinytorch::inline TT_BUILD::backend
