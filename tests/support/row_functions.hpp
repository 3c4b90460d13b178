// Random functions of rows: elementwise operations and reductions of the last dimensions, in any order.
#pragma once

#include <doctest/doctest.h>

#include <tinytorch/acceleration/capture.hpp>
#include <tinytorch/acceleration/row_groups.hpp>
#include <tinytorch/tensor/ops.hpp>
#include <vector>

namespace tinytorch_tests {

inline tinytorch::Tensor random_unary(tinytorch::Generator& random, const tinytorch::Tensor& t) {
  namespace tt = tinytorch;
  switch (random.below(6)) {
    case 0:
      return tt::tanh(t);
    case 1:
      return tt::exp(tt::tanh(t));
    case 2:
      return tt::abs(t);
    case 3:
      return t * 0.75 + 0.5;
    case 4:
      return tt::relu(t);
    default:
      return -t;
  }
}
inline tinytorch::Tensor random_binary(tinytorch::Generator& random, const tinytorch::Tensor& a,
                                       const tinytorch::Tensor& b) {
  namespace tt = tinytorch;
  switch (random.below(5)) {
    case 0:
      return a + b;
    case 1:
      return a - b;
    case 2:
      return a * b;
    case 3:
      return a / (tt::abs(b) + 1);
    default:
      return tt::where(a > b, a, b);
  }
}
inline tinytorch::Tensor random_reduction(tinytorch::Generator& random, const tinytorch::Tensor& t) {
  namespace tt = tinytorch;
  switch (random.below(5)) {
    case 0:
      return tt::max(t, {-1}, true);
    case 1:
      return tt::mean(t, {-1}, true);
    case 2:
      return tt::unsqueeze(tt::mean(t, {-1}), -1);
    case 3:
      return tt::sum(tt::tanh(t), {-1}, true);
    default:
      return tt::min(t, {-1}, true);
  }
}

// Returns the same operations for the same seed. Arguments: x [.., n], y of the same shape, a line [n], a
// number for each row [.., 1]. Two results: one with all elements, and one number for each row.
struct RowFunction {
  uint64_t seed;
  int steps = 12;

  tinytorch::Tensors operator()(const tinytorch::Tensors& in) const {
    namespace tt = tinytorch;
    tt::Generator random(seed);
    std::vector<tt::Tensor> full{in[0], in[1]}, row{in[3]};
    const auto any = [&](const std::vector<tt::Tensor>& of) { return of[random.below(of.size())]; };
    for (int k = 0; k < steps; ++k) {
      const uint64_t kind = random.below(8);
      if (kind == 0) full.push_back(random_unary(random, any(full)));
      if (kind == 1) full.push_back(random_binary(random, any(full), any(full)));
      if (kind == 2) full.push_back(random_binary(random, any(full), any(row)));
      if (kind == 3) full.push_back(random_binary(random, any(full), in[2]));
      if (kind == 4) row.push_back(random_unary(random, random_binary(random, any(row), any(row))));
      if (kind >= 5) row.push_back(random_reduction(random, any(full)));
    }
    const tt::Tensor m = tt::mean(full.back(), {-1}, true);  // so that there is a reduction
    return {random_binary(random, full.back(), m) + row.back() * 0.25, row.back() + m};
  }
};

// The first row program of a function.
inline tinytorch::RowProgram rows_of_function(const tinytorch::TensorFunction& f,
                                              const tinytorch::Tensors& arguments) {
  namespace tt = tinytorch;
  const tt::NoGrad no_grad;
  tt::Captured c = tt::capture(f, arguments);
  tt::OpGraph graph =
      std::move(tt::fuse(std::move(c.graph), {.kernels = tt::RegionKernels::interpreted}).graph);
  tt::fuse_rows(graph, {.kernels = tt::RegionKernels::interpreted, .everywhere = true});
  for (const tt::GraphStep& s : graph.steps)
    if (const auto* const rows = dynamic_cast<const tt::FusedRows*>(s.op.get())) return *rows->program;
  FAIL("the function has no row program");
  return {};
}

inline tinytorch::Tensors row_arguments(const tinytorch::Shape& shape, tinytorch::DType dtype,
                                        tinytorch::Device device) {
  namespace tt = tinytorch;
  tt::Shape row = shape;
  row.back() = 1;
  tt::Tensors all;
  for (const tt::Shape& s : {shape, shape, tt::Shape{shape.back()}, row})
    all.push_back(tt::randn(s, tt::f32, tt::cpu).to(dtype).to(device));
  return all;
}

}  // namespace tinytorch_tests
