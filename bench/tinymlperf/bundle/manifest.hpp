// manifest.json of a bundle: who submits what, for which table, and the digest of every file.
//
//   {"schema": 1, "name": "mlp", "author": "Ada", "team": "", "division": "open", "tier": "T0",
//    "benchmark": ["dig"], "scenario": ["single_stream", "offline"], "hw_class": "cpu-mt",
//    "dtype": {"weights": "f32", "activations": "f32", "accum": "f32"},
//    "quantizer": {"method": "", "calib_ids": [], "text": ""}, "passes": [],
//    "files": [{"path": "model.json", "bytes": 120, "sha256": "..."}, ...],
//    "claims": [{"metric": "accuracy", "value": 0.97}], "deterministic": true, "seed_policy": "",
//    "notes": "one hidden layer", "licence": "CC0-1.0"}
// A stranger's file: unknown keys, wrong types and everything beyond a limit are refused.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <tinymlperf/bundle/archive.hpp>
#include <tinymlperf/bundle/digest.hpp>
#include <tinymlperf/json_fields.hpp>
#include <vector>

namespace tinymlperf::bundle {

constexpr const char* kManifestFile = "manifest.json";

struct FileRecord {
  std::string path;
  int64_t bytes = 0;
  std::string sha256;
};

struct Claim {
  std::string metric;
  double value = 0;
};

struct Manifest {
  std::string name, author, team;
  std::string division = "open";  // "closed", "open" or "kernel"
  std::string tier = "T0";        // "T0", "T1" or "T2"
  std::vector<std::string> benchmarks{"dig"}, scenarios{"single_stream", "offline"};
  std::string hardware = "cpu-mt";  // "cpu-1t", "cpu-mt" or "gpu(NAME)"
  std::string weights = "f32", activations = "f32", accumulation = "f32";
  std::string quantizer, quantizer_text;  // empty: not quantized
  std::vector<int64_t> calibration;       // indices of the samples that the quantizer saw
  std::vector<std::string> passes;        // over the graph, in their order
  std::vector<FileRecord> files;          // all but the manifest itself
  std::vector<Claim> claims;
  bool deterministic = true;
  std::string seed_policy, notes, licence;
};

namespace detail {

constexpr size_t kShort = 60, kLong = 2000, kMostFiles = 159, kMostNames = 16, kMostSamples = 10000;

using tinymlperf::detail::Fields;
using tinymlperf::detail::show;

// Without control characters; a long text may have lines.
inline std::string text(const Fields& f, const char* key, size_t longest, const char* fallback,
                        bool lines = false) {
  std::string value = f.text(key, longest, fallback);
  for (const char c : value)
    if ((c >= 0 && c < 32 && !(lines && (c == '\n' || c == '\t'))) || c == 127)
      f.refuse(key, lines ? "text" : "text in one line", show(Json(value)));
  return value;
}

inline std::vector<std::string> plain_names(const Fields& f, const char* key, size_t fewest) {
  std::vector<std::string> names = f.texts(key, fewest, kMostNames, kShort);
  for (size_t i = 0; i < names.size(); ++i) {
    if (!is_plain_name(names[i]))
      f.refuse(key, "names of letters, digits, '.', '_' and '-'", show(Json(names[i])));
    if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), names[i]) !=
        names.begin() + static_cast<std::ptrdiff_t>(i))
      f.refuse(key, "each name once", show(Json(names[i])));
  }
  return names;
}

inline std::string hardware(const Fields& f) {
  std::string value = text(f, "hw_class", kShort, nullptr);
  const bool gpu = value.size() > 5 && value.starts_with("gpu(") && value.ends_with(")");
  if (value != "cpu-1t" && value != "cpu-mt" && !gpu)
    f.refuse("hw_class", "cpu-1t, cpu-mt or gpu(NAME)", show(Json(value)));
  return value;
}

inline void read_numbers(const Fields& f, Manifest& m) {
  const Fields dtype = f.object("dtype", {"weights", "activations", "accum"});
  const std::vector<std::string> known{"f64", "f32", "f16", "bf16", "i32", "i8", "i4"};
  m.weights = dtype.one_of("weights", nullptr, known);
  m.activations = dtype.one_of("activations", nullptr, known);
  m.accumulation = dtype.one_of("accum", nullptr, known);
  const Fields quantizer = f.object("quantizer", {"method", "calib_ids", "text"});
  m.quantizer = text(quantizer, "method", kShort, nullptr);
  m.quantizer_text = text(quantizer, "text", kLong, "", true);
  for (const Json& id : quantizer.array("calib_ids", 0, kMostSamples))
    m.calibration.push_back(quantizer.check_integer(id, "calib_ids", 0, INT64_MAX));
}

inline void read_files(const Fields& f, Manifest& m) {
  for (const Json& j : f.array("files", 1, kMostFiles)) {
    const std::string where = "files[" + std::to_string(m.files.size()) + "]";
    const Fields file(j, where, {"path", "bytes", "sha256"}, kManifestFile);
    FileRecord r{file.text("path", kPathLength, nullptr), file.integer("bytes", 0, limits::kWeightBytes),
                 file.text("sha256", 64, nullptr)};
    if (!is_plain_path(r.path) || r.path == kManifestFile)
      file.refuse("path", "a plain relative path", show(Json(r.path)));
    if (!is_sha256(r.sha256)) file.refuse("sha256", "64 hexadecimal digits", show(Json(r.sha256)));
    m.files.push_back(std::move(r));
  }
}

inline void read_claims(const Fields& f, Manifest& m) {
  constexpr double kLargest = 1e18;
  for (const Json& j : f.array("claims", 0, kMostNames)) {
    const Fields claim(j, "claims[" + std::to_string(m.claims.size()) + "]", {"metric", "value"},
                       kManifestFile);
    if (!claim.has("value")) claim.refuse("value", "a number", "no such key");
    m.claims.push_back(
        {text(claim, "metric", kShort, nullptr), claim.number("value", -kLargest, kLargest, 0)});
  }
}

}  // namespace detail

// Reads the text of a manifest.json; throws Refusal.
inline Manifest parse_manifest(const std::string& source) {
  using namespace detail;
  Json document;
  try {
    document = Json::parse(source);
  } catch (const Json::exception& e) {
    throw Refusal(kManifestFile, "", "JSON", e.what());
  }
  const Fields f(
      document, "",
      {"schema", "name", "author", "team", "division", "tier", "benchmark", "scenario", "hw_class", "dtype",
       "quantizer", "passes", "files", "claims", "deterministic", "seed_policy", "notes", "licence"},
      kManifestFile);
  f.integer("schema", 1, 1);
  Manifest m;
  m.name = f.text("name", limits::kNameLength, nullptr);
  if (!is_plain_name(m.name))
    f.refuse("name", "letters, digits, '.', '_' or '-', starting with a letter, digit or '_'",
             show(Json(m.name)));
  m.author = text(f, "author", kShort, nullptr);
  if (m.author.empty()) f.refuse("author", "a name", "an empty text");
  m.team = text(f, "team", kShort, "");
  m.division = f.one_of("division", nullptr, {"closed", "open", "kernel"});
  m.tier = f.one_of("tier", nullptr, {"T0", "T1", "T2"});
  m.benchmarks = plain_names(f, "benchmark", 1);
  m.scenarios = plain_names(f, "scenario", 1);
  m.hardware = hardware(f);
  read_numbers(f, m);
  m.passes = plain_names(f, "passes", 0);
  read_files(f, m);
  read_claims(f, m);
  m.deterministic = f.boolean("deterministic", true);
  m.seed_policy = text(f, "seed_policy", kShort, "");
  m.notes = text(f, "notes", kLong, "", true);
  m.licence = text(f, "licence", kShort, nullptr);
  return m;
}

// parse_manifest(to_json(m).dump()) gives the same manifest.
inline Json to_json(const Manifest& m) {
  Json files = Json::array(), claims = Json::array();
  for (const FileRecord& file : m.files)
    files.push_back({{"path", file.path}, {"bytes", file.bytes}, {"sha256", file.sha256}});
  for (const Claim& c : m.claims) claims.push_back({{"metric", c.metric}, {"value", c.value}});
  return {{"schema", 1},
          {"name", m.name},
          {"author", m.author},
          {"team", m.team},
          {"division", m.division},
          {"tier", m.tier},
          {"benchmark", m.benchmarks},
          {"scenario", m.scenarios},
          {"hw_class", m.hardware},
          {"dtype", {{"weights", m.weights}, {"activations", m.activations}, {"accum", m.accumulation}}},
          {"quantizer", {{"method", m.quantizer}, {"calib_ids", m.calibration}, {"text", m.quantizer_text}}},
          {"passes", m.passes},
          {"files", files},
          {"claims", claims},
          {"deterministic", m.deterministic},
          {"seed_policy", m.seed_policy},
          {"notes", m.notes},
          {"licence", m.licence}};
}

}  // namespace tinymlperf::bundle
