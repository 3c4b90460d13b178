// The calls of tests/support/cases, as the benchmarks make them: a row of OP is found by its text.
#pragma once

#include <array>
#include <functional>
#include <stdexcept>
#include <string>
#include <support/cases/all.hpp>
#include <vector>

namespace bench {

namespace tt = tinytorch;
using tt::Tensor;

using Five = std::array<Tensor, 5>;  // x, y, z, u, v
struct Call {
  std::string torch;
  std::function<void(const Five&)> run;  // destroys the result at once, as the temporary of an expression
  std::function<cases::Outputs(const Five&)> call;
};

inline Call call_of(const cases::OpCase& op) {
  return {op.torch, [run = op.run](const Five& t) { run(t[0], t[1], t[2], t[3], t[4]); },
          [call = op.call](const Five& t) { return call(t[0], t[1], t[2], t[3], t[4]); }};
}
// The row of OP with this text.
inline Call call_of(const std::string& text) {
  static const std::vector<cases::OpCase> kAll = cases::all_calls();
  for (const cases::OpCase& op : kAll) {
    if (op.text == text) return call_of(op);
  }
  throw std::invalid_argument("no row of OP in tests/support/cases has the call " + text);
}

}  // namespace bench
