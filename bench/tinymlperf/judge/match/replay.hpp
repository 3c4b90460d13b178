// Audit A12, replay: the packed weights of an entry are the ones that the judge gets.
//
//   closed   quantizer.json, applied to the baseline's weights, gives the same bytes: no training, no data of
//            the hidden set and no message can be in them
//   open     the entry's weights, read and written again, give the same bytes: the file holds nothing besides
//            them, so that its size is the model's
//
// Both are computed by the judge's own program in the sandbox (workers/pack_worker.hpp). Calibration runs a
// model, whose last bits depend on the build: an entry is packed by the build that judges it (`tinymlperf
// quantize`).
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <tinymlperf/judge/match/stage.hpp>
#include <tinymlperf/judge/results/run_document.hpp>

namespace tinymlperf::judge {

// Where two files differ, or "".
inline std::string difference(std::string_view shipped, std::string_view packed) {
  if (shipped == packed) return "";
  const size_t both = std::min(shipped.size(), packed.size());
  size_t differ = 0, first = both;
  for (size_t i = both; i-- > 0;)
    if (shipped[i] != packed[i]) ++differ, first = i;
  return fmt::format("{} has {} bytes, the judge's {}; {} of them differ, and the first is byte {}",
                     kPackedFile, shipped.size(), packed.size(), differ, first);
}

// `baseline` is the folder of the float weights, in the closed division, else empty. For entries with packed
// weights only. A refusal is an audit that is not passed; the detail is its reason.
inline AuditResult replay_audit(const Stage& stage, const std::filesystem::path& entry,
                                const std::filesystem::path& baseline) {
  AuditResult out{"A12", "replay", false, ""};
  try {
    const std::string packed = stage.pack_again(baseline);
    out.detail =
        difference(tinymlperf::detail::read_limited(entry / kPackedFile, limits::kWeightBytes), packed);
    out.passed = out.detail.empty();
    if (out.passed)
      out.detail =
          fmt::format("{} bytes are those of {}", packed.size(),
                      baseline.empty() ? "the weights alone" : "the baseline's weights by its quantizer");
  } catch (const std::invalid_argument& e) {
    out.detail = e.what();
    while (out.detail.ends_with('\n')) out.detail.pop_back();
  }
  return out;
}

}  // namespace tinymlperf::judge
