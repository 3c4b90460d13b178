// `tinymlperf quantize ENTRY --format Q4_0 --out FOLDER` packs the float weights of an entry and writes a new
// entry: model.json, quantizer.json and packed.safetensors. The closed division takes it, because the judge
// gets the same bytes (judge/match/replay.hpp).
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <tinymlperf/commands/exit_status.hpp>
#include <tinymlperf/entries/packed_entry.hpp>
#include <tinymlperf/support/output_folder.hpp>
#include <vector>

namespace tinymlperf {

struct QuantizeCommand {
  std::filesystem::path entry, out;
  QuantizerSpec spec = {};
  std::vector<std::string> layers = {};  // "PATH=FORMAT"
  int64_t calibration = 0;
};

namespace detail {

// `count` numbers of samples, each once, in ascending order.
inline std::vector<int64_t> draw_calibration(int64_t count, int64_t samples, int64_t seed) {
  if (count < 0 || count > std::min<int64_t>(samples, limits::kCalibration))
    throw std::invalid_argument("--calibration " + std::to_string(count) + ": at most " +
                                std::to_string(std::min<int64_t>(samples, limits::kCalibration)) +
                                " samples");
  tt::Generator random(static_cast<uint64_t>(seed));
  std::set<int64_t> ids;
  while (std::ssize(ids) < count)
    ids.insert(static_cast<int64_t>(random.below(static_cast<uint64_t>(samples))));
  return {ids.begin(), ids.end()};
}

inline QuantizerSpec complete(const QuantizeCommand& o, const std::string& benchmark) {
  QuantizerSpec q = o.spec;
  for (const std::string& one : o.layers) {
    const size_t split = one.find('=');
    if (split == std::string::npos) throw std::invalid_argument("--layer " + one + ": expected PATH=FORMAT");
    q.layers[one.substr(0, split)] = one.substr(split + 1);
  }
  const int64_t samples = training_size(benchmark).training;
  q.calibration = draw_calibration(o.calibration, samples, q.seed);
  return parse_quantizer(to_json(q).dump(), samples);
}

}  // namespace detail

// Exit status: 0 the entry was written, 1 it is refused, 2 it could not be packed as asked.
inline int run_quantize(const QuantizeCommand& o) {
  try {
    const std::string text = detail::read_limited(o.entry / kModelFile, limits::kJsonBytes);
    EntrySpec spec = parse_entry(text, task_of(benchmark_of(text)));
    const QuantizerSpec q = detail::complete(o, spec.benchmark);
    const OutputFolder made(o.out, {kPackedFile, kQuantizerFile, kModelFile});
    const tt::QuantizationReport report = pack_weights(o.entry, spec, q, o.out / kPackedFile);
    const std::string description = to_json(q).dump() + "\n";
    const int64_t packed = detail::require_size(o.out / kPackedFile, limits::kWeightBytes);
    require_short_description(static_cast<int64_t>(description.size()), packed);
    spec.name = folder_name(o.out);
    tt::write_file((o.out / kQuantizerFile).string(), std::string_view(description));
    tt::write_file((o.out / kModelFile).string(), to_json(spec).dump(1) + "\n");
    fmt::print("{}\nwrote {}: {} bytes of packed weights\n", report.text(), o.out.string(), packed);
    return kPass;
  } catch (const Refusal& e) {
    fmt::print(stderr, "refused: {}\n", e.what());
    return kFailed;
  } catch (const std::exception& e) {
    return detail::complain(e.what());
  }
}

}  // namespace tinymlperf
