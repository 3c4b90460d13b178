// The anomaly score of a clip by a network that restores windows of sound: the mean squared error of the
// restored windows. The network has learned to restore healthy machines and little else (Koizumi et al.,
// 2019).
#pragma once

#include <tinytorch/data/machine_sounds.hpp>
#include <tinytorch/tensor/ops.hpp>
#include <vector>

namespace tinymlperf {

namespace tt = tinytorch;

// restore: [M, 640] -> [M, 640]; windows [N * 12, 640], clip after clip -> f64 [N]. It works on a limited
// number of clips at a time, so that a large set needs no more memory than a small one.
template <class Restore>
tt::Tensor restoration_errors(Restore&& restore, const tt::Tensor& windows) {
  namespace ms = tt::machine_sounds;
  constexpr int64_t kTogether = 256 * ms::kWindows;
  std::vector<tt::Tensor> parts;
  for (int64_t start = 0; start < windows.size(0); start += kTogether) {
    const tt::Tensor x = windows.slice(0, start, std::min(start + kTogether, windows.size(0)));
    const tt::Tensor error = restore(x) - x;
    parts.push_back(ms::clip_scores(tt::mean(error * error, {1})));
  }
  return tt::cat(parts, 0);
}

}  // namespace tinymlperf
