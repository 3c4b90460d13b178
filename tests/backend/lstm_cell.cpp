#include <tinytorch/backend/lstm_cell.hpp>

#include <doctest/doctest.h>

#include <cmath>

namespace backend = tinytorch::backend;

TEST_CASE("an element of the cell forgets, adds and squashes") {
  const auto closed = backend::LstmElement<double>::of_gates(-100, 100, 2, -100);  // keeps its cell, gives 0
  CHECK(closed.next_cell(3) == doctest::Approx(3));
  CHECK(closed.hidden(3) == doctest::Approx(0));
  const auto open =
      backend::LstmElement<double>::of_gates(100, -100, 0.5, 100);  // forgets, gives the new value
  CHECK(open.next_cell(3) == doctest::Approx(std::tanh(0.5)));
  CHECK(open.hidden(0.25) == doctest::Approx(std::tanh(0.25)));
  CHECK(std::isnan(backend::LstmElement<float>::of_gates(NAN, 0, 0, 0).next_cell(1)));
  CHECK(backend::LstmElement<float>::of_gates(-200, 200, 0, 0).next_cell(1) == 1);
}

TEST_CASE("the derivative of an element equals differences") {
  const double gates[] = {0.3, -0.7, 0.9, 0.2}, cell = 0.8, dh = 1.3, dc = -0.4, step = 1e-6;
  const auto loss = [&](const double* x, double c) {
    const auto v = backend::LstmElement<double>::of_gates(x[0], x[1], x[2], x[3]);
    return dh * v.hidden(v.next_cell(c)) + dc * v.next_cell(c);
  };
  const auto v = backend::LstmElement<double>::of_gates(gates[0], gates[1], gates[2], gates[3]);
  const auto d = backend::LstmElementGrad<double>::of(v, cell, v.next_cell(cell), dh, dc);
  const double got[] = {d.input, d.forget, d.fresh, d.output};
  for (size_t k = 0; k < 4; ++k) {
    double more[4], less[4];
    for (size_t j = 0; j < 4; ++j) more[j] = less[j] = gates[j];
    more[k] += step, less[k] -= step;
    CHECK(got[k] == doctest::Approx((loss(more, cell) - loss(less, cell)) / (2 * step)).epsilon(1e-6));
  }
  CHECK(d.cell ==
        doctest::Approx((loss(gates, cell + step) - loss(gates, cell - step)) / (2 * step)).epsilon(1e-6));
}
