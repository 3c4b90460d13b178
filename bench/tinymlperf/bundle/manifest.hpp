// Reads manifest.json of a bundle, which names the author, the entry, its table of the leaderboard, and the
// digest of each file. The library writes it (benchmarking/submission.hpp shows an example). It is read as
// untrusted input: unknown keys, wrong types and values beyond a limit are refused.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <tinymlperf/bundle/archive.hpp>
#include <tinymlperf/bundle/digest.hpp>
#include <tinymlperf/support/foreign_text.hpp>
#include <tinymlperf/support/json_fields.hpp>
#include <tinytorch/benchmarking/submission.hpp>
#include <vector>

namespace tinymlperf::bundle {

using tinytorch::benchmarking::FileRecord;
using tinytorch::benchmarking::kManifestFile;
using tinytorch::benchmarking::Manifest;
using Claim = tinytorch::benchmarking::ClaimedMetric;

namespace detail {

constexpr size_t kShort = 60, kLong = 2000, kMostFiles = 159, kMostNames = 16, kMostSamples = 10000;

using tinymlperf::detail::Fields;
using tinymlperf::detail::show;

// Reads a string without control characters. With `lines`, line ends and tabs are allowed.
inline std::string text(const Fields& f, const char* key, size_t longest, const char* fallback,
                        bool lines = false) {
  std::string value = f.text(key, longest, fallback);
  for (const char c : value)
    if ((c >= 0 && c < 32 && !(lines && (c == '\n' || c == '\t'))) || c == 127)
      f.refuse(key, lines ? "text" : "text in one line", show(Json(value)));
  return value;
}

// A person or a team: one line in one script, so that nobody looks like somebody else.
inline std::string person(const Fields& f, const char* key, const char* fallback) {
  std::string value = text(f, key, kShort, fallback);
  if (const std::string why = name_complaint(value); !why.empty())
    f.refuse(key, "a name in one script, in the form NFC", show(Json(value)) + ": " + why);
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

// Reads the text that tinytorch::benchmarking::manifest_json() writes. Throws Refusal.
inline Manifest parse_manifest(const std::string& source) {
  using namespace detail;
  const Json document = tinymlperf::detail::parse_json(source, kManifestFile);
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
  m.author = person(f, "author", nullptr);
  if (m.author.empty()) f.refuse("author", "a name", "an empty string");
  m.team = person(f, "team", "");
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

}  // namespace tinymlperf::bundle
