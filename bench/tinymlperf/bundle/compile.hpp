// C2: source is compiled before anybody waits for a match of it, in the sandbox and within the time and memory that the
// match's own compilation has (judge/stage.hpp).
//
//   who asks                  `tinymlperf check` and `submit`, on the author's machine: at once
//   the board's worker        between two matches, for all that wait: whoever uploaded by a page is told by then
// Not the thread that takes an upload: compilers would disturb the match that is timed on the same machine, as many at
// once as there are uploads.
#pragma once

#include <string>
#include <tinymlperf/bundle/bundle.hpp>
#include <tinymlperf/judge/stage.hpp>

namespace tinymlperf::bundle {

// Throws Refusal with the compiler's message, and sandbox::Unavailable where this machine cannot hold a compiler, or
// has no GPU to compile for.
inline void check_compiles(const Bundle& bundle, const sandbox::Offers& offers) {
  if (bundle.manifest.tier == "T0") return;
  const TemporaryFolder folder;
  unpack(bundle, folder.path() / "entry");
  try {
    const judge::Stage stage(folder.path() / "entry", offers,
                             std::ranges::all_of(bundle.manifest.benchmarks, is_training));
  } catch (const std::invalid_argument& e) {
    throw Refusal("C2", "compile", "source that compiles", e.what());
  }
}

}  // namespace tinymlperf::bundle
