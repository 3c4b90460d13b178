// One case that bench_cuda times. Its fields:
//
//   name, op, dtype, shape, options   the work
//   row, operands   the call of tests/support/cases that the work is, if it is one, and its operands' shapes
//   group           the row of the table that the case belongs to
//   bytes, flops    least traffic and work of one call: each operand is read once, each result written once
//   tensor_bytes    size of the largest operand
//   tokens          tokens per training step of a language model; 0 for other work
//   sets, calls     a sample makes `calls` calls, alternating between `sets` sets of operands; together they
//                   exceed the L2 cache, so every call misses it
//   peers           variants of the peer to compare with
//   rivals          other cases of this list to compare with, each under the name of its column
#pragma once

#include <map>
#include <string>
#include <tinytorch/tinytorch.hpp>
#include <vector>

namespace bench {

namespace tt = tinytorch;
using tt::Tensor;
using tt::Tensors;

struct CudaCase {
  std::string name, group, op;
  tt::DType dtype = tt::f32;
  std::vector<int64_t> shape = {};
  std::vector<std::string> peers = {};
  double bytes = 0, flops = 0, tensor_bytes = 0, tokens = 0;
  bool graph = true;  // captured and replayed as a CUDA graph, so that the host's work is not timed
  std::map<std::string, int64_t> options = {};
  std::string row = {};
  std::vector<std::vector<int64_t>> operands = {};
  int64_t sets = 1, calls = 1;
  std::map<std::string, std::string> rivals = {};
};

}  // namespace bench
