#include "ladder_work.hpp"

std::vector<course::Work> course::works() {
  const auto gemm = [](const View& out, const View& a, const View& b) {
    backend::cuda::gemm_pipelined(out, a, b);
  };
  if (kTimed) return {ladder_work(bf16, 4096, 4096, 4096, gemm)};
  return {ladder_work(bf16, 64, 128, 128, gemm)};
}
