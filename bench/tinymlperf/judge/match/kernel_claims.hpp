// Audit A8 for kernels: the author promised no more than was measured.
#pragma once

#include <fmt/format.h>

#include <string>
#include <tinymlperf/judge/results/kernel_run.hpp>
#include <utility>
#include <vector>

namespace tinymlperf::judge::kernels {

// A claim names "ops_right", a count, or "times_the_baseline", which may be a tenth better than the
// measurement, since machines differ. Other claims are not audited.
inline AuditResult claims_audit(const KernelRun& d, const KernelContenderRecord& c,
                                const std::vector<std::pair<std::string, double>>& claims) {
  AuditResult out{"A8", "claims", true, "nothing was promised of this"};
  const auto score = score_of(c, d.contenders.front());
  for (const auto& [metric, promised] : claims) {
    double measured = 0, room = 1;
    if (metric == "ops_right")
      measured = static_cast<double>(ops_right(c));
    else if (metric == "times_the_baseline" && score)
      measured = score->estimate, room = 1.1;
    else
      continue;
    out.passed = promised <= room * measured;
    out.detail = fmt::format("{}: {:g} was promised, {:.4g} was measured", metric, promised, measured);
    if (!out.passed) return out;
  }
  return out;
}

}  // namespace tinymlperf::judge::kernels
