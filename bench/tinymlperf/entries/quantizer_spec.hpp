// quantizer.json: how the weights of an entry were packed. In the closed division it is all that an entry
// adds to the baseline's weights, because the judge packs them again and compares the bytes
// (match/replay.hpp).
//
//   {"schema": 1, "format": "Q4_0", "head": "Q8_0", "method": "gptq", "activations": "int8",
//    "layers": {"blocks.0.mlp.up": "Q8_0", "3": ""}, "calibration": [0, 7, 31], "seed": 5}
//
// Formats and methods are those of the library (quantization/methods.hpp). "layers" names those with another
// format, "" for floats. Calibration names samples of the published training data, at most 512 and each once:
// the hidden set has no numbers, so that no quantizer sees it. The file is untrusted.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tinymlperf/benchmarks/benchmarks.hpp>
#include <tinymlperf/entries/packed_model.hpp>
#include <tinytorch/quantization/methods.hpp>
#include <tinytorch/quantization/tensor.hpp>
#include <vector>

namespace tinymlperf {

constexpr const char* kQuantizerFile = "quantizer.json";

namespace limits {
constexpr size_t kCalibration = 512, kNamedLayers = 256;
// A description must not hold the answers: at most 64 KiB, and at most a 64th of the packed bytes. A kilobyte
// is always allowed.
constexpr int64_t kQuantizerBytes = int64_t{1} << 16, kQuantizerShare = 64, kQuantizerLeast = 1024;
}  // namespace limits

struct QuantizerSpec {
  std::string format = "Q8_0", head = {}, method = "nearest", activations = "int8";
  std::map<std::string, std::string> layers = {};
  std::vector<int64_t> calibration = {};
  int64_t seed = 0;
};

namespace detail {

// A known format; `floats`: or "" for none.
inline std::string format_field(const Fields& f, const char* key, const char* fallback, bool floats) {
  constexpr size_t kLongest = 32;
  std::string name = f.text(key, kLongest, fallback);
  if (!(floats && name.empty()) && !tinytorch::find_block_format(name) && !tinytorch::find_code_format(name))
    f.refuse(key, "a format of the library, for example Q4_0", show(Json(name)));
  return name;
}

inline std::vector<int64_t> calibration_field(const Fields& f, int64_t samples) {
  std::vector<int64_t> ids;
  std::set<int64_t> known;
  for (const Json& id : f.array("calibration", 0, limits::kCalibration)) {
    ids.push_back(f.check_integer(id, "calibration", 0, samples - 1));
    if (!known.insert(ids.back()).second)
      f.refuse("calibration", "each sample once", std::to_string(ids.back()) + " again");
  }
  return ids;
}

}  // namespace detail

// `samples`: how many the published training data have. Throws Refusal.
inline QuantizerSpec parse_quantizer(const std::string& text, int64_t samples) {
  using namespace detail;
  const Json document = parse_json(text, kQuantizerFile);
  const Fields f(document, "",
                 {"schema", "format", "head", "method", "activations", "layers", "calibration", "seed"},
                 kQuantizerFile);
  f.integer("schema", 1, 1);
  QuantizerSpec q;
  q.format = format_field(f, "format", nullptr, false);
  q.head = format_field(f, "head", "", true);
  q.method = f.text("method", limits::kNameLength, "nearest");
  try {
    (void)tinytorch::quantization::method_of(q.method);
  } catch (const tinytorch::Error& e) {
    f.refuse("method", "a method of the library", e.what());
  }
  q.activations = f.one_of("activations", "int8", {"int8", "floats"});
  if (document.contains("layers")) {
    const Json& layers = document.at("layers");
    if (!layers.is_object() || layers.size() > limits::kNamedLayers)
      f.refuse("layers", "an object of at most 256 layers", show(layers));
    for (const auto& [path, format] : layers.items()) {
      const Json one{{"format", format}};
      q.layers[path] =
          format_field(Fields(one, "layers." + path, {"format"}, kQuantizerFile), "format", nullptr, true);
    }
  }
  if (f.has("calibration")) q.calibration = calibration_field(f, samples);
  q.seed = f.integer("seed", 0, INT64_MAX, 0);
  return q;
}

inline Json to_json(const QuantizerSpec& q) {
  return {{"schema", 1},
          {"format", q.format},
          {"head", q.head},
          {"method", q.method},
          {"activations", q.activations},
          {"layers", q.layers},
          {"calibration", q.calibration},
          {"seed", q.seed}};
}

// The type of number that a manifest declares for such weights.
inline std::string declared_weights(const QuantizerSpec& q) {
  const bool four = q.format.starts_with("Q4_") || q.format.ends_with("FP4");
  return four ? "i4" : "i8";
}

// Throws Refusal for a description that is too long for what it describes.
inline void require_short_description(int64_t description, int64_t packed) {
  const int64_t most =
      std::min(limits::kQuantizerBytes, std::max(limits::kQuantizerLeast, packed / limits::kQuantizerShare));
  if (description > most)
    throw Refusal(
        kQuantizerFile, "",
        "at most " + std::to_string(most) + " bytes that describe " + std::to_string(packed) + " packed ones",
        std::to_string(description));
}

}  // namespace tinymlperf
