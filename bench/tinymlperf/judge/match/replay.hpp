// Audit A12, replay: the weights of an entry are the ones that the judge gets.
//
//   closed, packed   quantizer.json, applied to the baseline's weights, gives the same bytes: no training, no
//                    data of the hidden set and no message can be in them
//   closed, floats   the file is the baseline's, byte by byte
//   open, packed     the entry's weights, read and written again, give the same bytes: the file holds nothing
//                    besides them, so that its size is the model's
//   open, floats     any
//
// Packed weights are computed by the judge's own program in the sandbox (workers/pack_worker.hpp).
// Calibration runs a model, whose last bits depend on the build: an entry is packed by the build that judges
// it (`tinymlperf quantize`).
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <tinymlperf/judge/match/stage.hpp>
#include <tinymlperf/judge/results/run_document.hpp>

namespace tinymlperf::judge {

// Describes where the entry's file `name` differs from that of `whose`; "" if they are equal.
inline std::string difference(std::string_view name, std::string_view shipped, std::string_view whose,
                              std::string_view expected) {
  if (shipped == expected) return "";
  const size_t both = std::min(shipped.size(), expected.size());
  size_t differ = 0, first = both;
  for (size_t i = both; i-- > 0;)
    if (shipped[i] != expected[i]) ++differ, first = i;
  return fmt::format("{} has {} bytes, the {}'s {}; {} of them differ, and the first is byte {}", name,
                     shipped.size(), whose, expected.size(), differ, first);
}

// `baseline` is the folder of the float weights, in the closed division, else empty. For entries with packed
// weights only. A refusal is an audit that is not passed; the detail is its reason.
inline AuditResult replay_audit(const Stage& stage, const std::filesystem::path& entry,
                                const std::filesystem::path& baseline) {
  AuditResult out{"A12", "replay", false, ""};
  try {
    const std::string packed = stage.pack_again(baseline);
    out.detail =
        difference(kPackedFile, tinymlperf::detail::read_limited(entry / kPackedFile, limits::kWeightBytes),
                   "judge", packed);
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

// Compares float weights in the closed division, in which nobody trains, byte by byte: only equal bytes show
// that no weight was changed and that nothing is hidden in one. `baseline` is as above.
inline AuditResult same_floats_audit(const std::filesystem::path& entry,
                                     const std::filesystem::path& baseline) {
  AuditResult out{"A12", "replay", false, ""};
  if (!std::filesystem::exists(baseline / kWeightsFile)) {
    out.detail = "the baseline has no " + std::string(kWeightsFile) + ", which float weights must equal";
    return out;
  }
  const auto read = [](const std::filesystem::path& folder) {
    return tinymlperf::detail::read_limited(folder / kWeightsFile, limits::kWeightBytes);
  };
  try {
    const std::string ours = read(entry);
    out.detail = difference(kWeightsFile, ours, "baseline", read(baseline));
    out.passed = out.detail.empty();
    out.detail += out.passed ? fmt::format("{} bytes are the baseline's", ours.size())
                             : ": the closed division takes the baseline's floats, or packed ones";
  } catch (const std::invalid_argument& e) {
    out.detail = e.what();
  }
  return out;
}

// The audit of an entry of data; nothing if its division takes any weights of this kind.
inline std::optional<AuditResult> weights_audit(const Stage& stage, const std::filesystem::path& entry,
                                                const std::filesystem::path& baseline, bool closed) {
  if (std::filesystem::exists(entry / kPackedFile))
    return replay_audit(stage, entry, closed ? baseline : std::filesystem::path());
  if (closed && std::filesystem::exists(entry / kWeightsFile)) return same_floats_audit(entry, baseline);
  return std::nullopt;
}

}  // namespace tinymlperf::judge
