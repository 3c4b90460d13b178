// The multiply-add peak of this machine in GFLOP/s, by the library's measurement.
#pragma once

#include <tinytorch/benchmarking/peak.hpp>

namespace bench {

inline double measure_fma_peak() { return tinytorch::benchmarking::measure_fma_peak() * 1e-9; }

}  // namespace bench
