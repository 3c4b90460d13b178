// Check C2: a submission's source compiles. It is compiled before its match, in the sandbox, with the limits
// of time and memory of the match's own compilation (judge/match/stage.hpp).
//
//   `tinymlperf check` and `submit`   compile at once, on the author's machine
//   the board's worker                compiles all waiting submissions between two matches, so that an
//                                     author who uploaded with a browser learns of errors early
// The thread that receives an upload does not compile: many uploads would start many compilers, which would
// disturb the match that is timed on the same machine.
#pragma once

#include <algorithm>
#include <string>
#include <tinymlperf/bundle/rules.hpp>
#include <tinymlperf/judge/match/stage.hpp>
#include <vector>

namespace tinymlperf::bundle {

// Returns the reasons for a review (static_rules.hpp) that appear only after preprocessing. Throws Refusal
// with the compiler's message, sandbox::Unavailable if this machine cannot run a sandboxed compiler, and
// judge::WithoutGpu, which holds the same reasons, if this machine has no GPU to compile for.
inline std::vector<std::string> check_compiles(const Bundle& bundle, const sandbox::Offers& offers) {
  if (bundle.manifest.tier == "T0") return {};
  const TemporaryFolder folder;
  unpack(bundle, folder.path() / "entry");
  const auto not_shown = [&, shown = reasons_to_look(bundle)](std::vector<std::string> reasons) {
    std::erase_if(reasons, [&](const auto& r) { return std::ranges::find(shown, r) != shown.end(); });
    return reasons;
  };
  try {
    const bool learns = std::ranges::all_of(bundle.manifest.benchmarks, is_training);
    return not_shown(judge::Stage(folder.path() / "entry", offers, learns).reasons());
  } catch (judge::WithoutGpu& without) {
    without.reasons = not_shown(std::move(without.reasons));
    throw;
  } catch (const std::invalid_argument& e) {
    throw Refusal("C2", "compile", "source that compiles", e.what());
  }
}

}  // namespace tinymlperf::bundle
