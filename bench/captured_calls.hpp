// Calls on a GPU as one CUDA graph, so that the time has no work of the host in it.
#pragma once

#include <functional>
#include <tinytorch/backend/cuda/runtime/graph.hpp>
#include <tinytorch/tensor/tensor.hpp>
#include <utility>
#include <vector>

namespace bench {

// One call per set of operands. seconds(): of a call.
class Captured {
 public:
  explicit Captured(std::vector<std::function<tinytorch::Tensor()>> calls) : calls_(std::move(calls)) {
    results_.resize(calls_.size());
    run();
    tinytorch::backend::cuda::synchronize_device(0);
    graph_.capture([&] { run(); });
  }
  double seconds() {
    tinytorch::backend::cuda::Event start(true, 0), end(true, 0);
    start.record();
    graph_.replay();
    end.record();
    return end.milliseconds_since(start) * 1e-3 / static_cast<double>(calls_.size());
  }

 private:
  void run() {
    for (size_t i = 0; i < calls_.size(); ++i) results_[i] = calls_[i]();
  }
  std::vector<std::function<tinytorch::Tensor()>> calls_;
  std::vector<tinytorch::Tensor> results_;
  tinytorch::backend::cuda::Graph graph_{0};
};

}  // namespace bench
