// A case of bench_ops: work of the library, and the same work in PyTorch.
// "+grad" is forward and backward, with a given gradient of the result.
#pragma once

#include <common/op_calls.hpp>
#include <common/op_inputs.hpp>
#include <functional>
#include <string>
#include <vector>

namespace bench {

using Work = std::function<void()>;
struct Case {
  std::string name;
  std::function<Work(const Inputs&)> prepare;
  int64_t n = 0;  // the only size of the case; 0: any size
  // The work in PyTorch: a call over x, y, z, u and v, and an expression over the inputs for each of them. A
  // call without operands is an expression that gives a function without arguments.
  std::string torch = {};
  std::vector<std::string> operands = {};
  bool backward = false;
};
using Operands = std::function<tt::Tensors(const Inputs&)>;
inline Work forward_work(const Call& call, const tt::Tensors& given) {
  Five t;
  std::ranges::copy(given, t.begin());
  return [t, run = call.run] { run(t); };
}
inline Work backward_work(const Call& call, const tt::Tensors& given) {
  Five leaves;
  for (size_t i = 0; i < given.size(); ++i) {
    leaves[i] = given[i].detach();
    if (tt::is_floating(given[i].dtype())) leaves[i].requires_grad_();
  }
  Tensor g = call.call(leaves).list[0].detach();
  g.fill_(1);  // ones with the memory layout of the result
  return [leaves, g, f = call.call]() mutable {
    f(leaves).list[0].backward(g);
    for (Tensor& t : leaves) {
      if (t.defined()) t.zero_grad();
    }
  };
}

// One call on operands made of the inputs. in_torch: the same operands as expressions in Python.
inline Case timed(const std::string& name, const Call& call, Operands operands,
                  std::vector<std::string> in_torch, bool backward = false) {
  return {.name = name + (backward ? "+grad" : ""),
          .prepare =
              [=](const Inputs& in) {
                return backward ? backward_work(call, operands(in)) : forward_work(call, operands(in));
              },
          .torch = call.torch,
          .operands = std::move(in_torch),
          .backward = backward};
}

// The first elements of a vector as a tensor of this shape.
inline Tensor shaped(const Tensor& vector, const tt::Shape& shape) {
  return vector.slice(0, 0, shape.numel()).reshape(shape);
}

}  // namespace bench
