// The cell of an LSTM and its derivative in double precision.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace test {

using Doubles = std::vector<double>;

// 1, 0, 1, 0, ...: every other row is at rest.
inline Doubles every_other(int64_t rows) {
  Doubles inside(static_cast<size_t>(rows));
  for (size_t b = 0; b < inside.size(); b += 2) inside[b] = 1;
  return inside;
}

struct LstmCellReference {
  Doubles hidden, cell, activated, output;
};
// gates [B, 4 H], cell and before [B, H]; inside [B], or empty if no row is at rest.
inline LstmCellReference lstm_cell_reference(const Doubles& gates, const Doubles& cell, const Doubles& inside,
                                             const Doubles& before, size_t H) {
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  LstmCellReference r{cell, cell, Doubles(gates.size()), Doubles(cell.size())};
  for (size_t k = 0; k < cell.size(); ++k) {
    const size_t b = k / H, first = 4 * b * H + k % H;
    if (!inside.empty() && inside[b] == 0) {
      r.hidden[k] = before[k];
      continue;
    }
    const double i = sigmoid(gates[first]), f = sigmoid(gates[first + H]),
                 g = std::tanh(gates[first + 2 * H]), o = sigmoid(gates[first + 3 * H]);
    r.activated[first] = i, r.activated[first + H] = f;
    r.activated[first + 2 * H] = g, r.activated[first + 3 * H] = o;
    r.cell[k] = f * cell[k] + i * g;
    r.hidden[k] = r.output[k] = o * std::tanh(r.cell[k]);
  }
  return r;
}

struct LstmCellGradReference {
  Doubles gates, cell, hidden;
};
inline LstmCellGradReference lstm_cell_grad_reference(const Doubles& dhidden, const Doubles& dcell,
                                                      const Doubles& doutput, const Doubles& activated,
                                                      const Doubles& cell, const Doubles& next,
                                                      const Doubles& inside, size_t H) {
  LstmCellGradReference r{Doubles(activated.size()), Doubles(cell.size()), Doubles(cell.size())};
  const auto at = [](const Doubles& v, size_t k) { return v.empty() ? 0 : v[k]; };
  for (size_t k = 0; k < cell.size(); ++k) {
    const size_t b = k / H, first = 4 * b * H + k % H;
    if (!inside.empty() && inside[b] == 0) {
      r.hidden[k] = at(dhidden, k), r.cell[k] = at(dcell, k);
      continue;
    }
    const double i = activated[first], f = activated[first + H], g = activated[first + 2 * H],
                 o = activated[first + 3 * H], t = std::tanh(next[k]), dh = at(dhidden, k) + at(doutput, k),
                 dc = at(dcell, k) + dh * o * (1 - t * t);
    r.gates[first] = dc * g * i * (1 - i), r.gates[first + H] = dc * cell[k] * f * (1 - f);
    r.gates[first + 2 * H] = dc * i * (1 - g * g), r.gates[first + 3 * H] = dh * t * o * (1 - o);
    r.cell[k] = dc * f;
  }
  return r;
}

}  // namespace test
