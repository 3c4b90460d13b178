// C2: source is compiled before anybody waits for a match of it, in the sandbox and within the time and
// memory that the match's own compilation has (judge/match/stage.hpp).
//
//   who asks                  `tinymlperf check` and `submit`, on the author's machine: at once
//   the board's worker        between two matches, for all that wait: whoever uploaded by a page is told by
//   then
// Not the thread that takes an upload: compilers would disturb the match that is timed on the same machine,
// as many at once as there are uploads.
#pragma once

#include <algorithm>
#include <string>
#include <tinymlperf/bundle/rules.hpp>
#include <tinymlperf/judge/match/stage.hpp>
#include <vector>

namespace tinymlperf::bundle {

// Returns reasons to look that its text does not show and the preprocessor does. Throws Refusal with the
// compiler's message, sandbox::Unavailable where this machine cannot hold a compiler, and judge::WithoutGpu,
// with such reasons, where it has no GPU to compile for.
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
