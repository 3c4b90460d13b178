// The files of a submitted measurement: result.json, from whose samples all numbers can be recomputed, and
// manifest.json, which names the author and lists every file with its digest.
//
//   {"schema": "tinytorch-result-1", "machine": "2 cores", "seed": 5, "quantity": "p90_latency",
//    "contenders": [{"name": "lenet", "turns": [TURN, ...], "value": 0.0081,
//                    "times_the_baseline": {"estimate": 1.2, "low": 1.1, "high": 1.3}}, ...]}
//   TURN: {"seconds": 0.1, "samples": 12, "latencies": [0.008, ...], "rate": 0, "tokens": [], "to_first": []}
//
// The first contender is the baseline. Turns are as in turns.hpp, two per block. "value" is null without
// turns, "times_the_baseline" with too few. Both follow from the turns; a reader recomputes them and throws
// if they differ.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <string>
#include <string_view>
#include <tinytorch/benchmarking/turns.hpp>
#include <tinytorch/io/json.hpp>
#include <utility>
#include <vector>

namespace tinytorch::inline TT_BUILD::benchmarking {

inline constexpr const char *kResultFile = "result.json", *kResultSchema = "tinytorch-result-1",
                            *kManifestFile = "manifest.json";
inline constexpr const char* kQuantities[] = {"p90_latency", "p99_latency", "throughput", "rate",
                                              "time_per_token"};
static_assert(std::size(kQuantities) == static_cast<size_t>(Quantity::time_per_token) + 1);

struct Contender {
  std::string name;
  std::vector<Turn> turns;
};

struct Result {
  std::string machine;
  int64_t seed = 0;
  Quantity quantity = Quantity::p90_latency;
  std::vector<Contender> contenders;  // the first is the baseline
};

struct BundleFile {
  std::string path, content;
};

struct FileRecord {
  std::string path;
  int64_t bytes = 0;
  std::string sha256;
};

struct ClaimedMetric {
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
  std::vector<int64_t> calibration;       // indices of the samples used for calibration
  std::vector<std::string> passes;        // graph passes, in order
  std::vector<FileRecord> files;          // all files except the manifest
  std::vector<ClaimedMetric> claims;
  bool deterministic = true;
  std::string seed_policy, notes, licence;
};

namespace detail {

inline std::string shown(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", x);
  return text;
}

// Access to the members of an object in a file. `where` is its path in the file, such as "contenders[0]". All
// errors are TT-IO-03.
class Members {
 public:
  Members(const Json& object, std::string where, const io::Source& source)
      : object_(object), where_(std::move(where)), source_(source) {}

  // Requires an object with exactly these names. An unknown name is rejected, because it is probably a typing
  // error.
  void require(std::initializer_list<std::string_view> names) const {
    if (!object_.object()) reject("", "an object", object_.kind());
    for (const std::string_view name : names)
      if (!object_.find(name)) reject(name, "a value", "no such name");
    for (const auto& [name, value] : *object_.object())
      if (std::find(names.begin(), names.end(), name) == names.end())
        reject(name, "only names of the schema", "another one");
  }

  // Call these functions after require().
  const Json& at(std::string_view name) const { return *object_.find(name); }
  const std::string& text(std::string_view name) const {
    if (!at(name).string()) reject(name, "a string", at(name).kind());
    return *at(name).string();
  }
  const Json::Array& array(std::string_view name) const {
    if (!at(name).array()) reject(name, "an array", at(name).kind());
    return *at(name).array();
  }
  double number(std::string_view name, double least) const { return number(at(name), name, least); }
  int64_t integer(std::string_view name, int64_t least) const { return integer(at(name), name, least); }
  // An element of the array of that name. Values above kLargest could make sums and quotients infinite.
  double number(const Json& value, std::string_view name, double least) const {
    constexpr double kLargest = 1e18;
    if (!value.number() || value.number()->real < least || value.number()->real > kLargest)
      reject(name, "a number from " + shown(least) + " to " + shown(kLargest),
             value.number() ? shown(value.number()->real) : value.kind());
    return value.number()->real;
  }
  int64_t integer(const Json& value, std::string_view name, int64_t least) const {
    if (!value.integer() || *value.integer() < least)
      reject(name, "an integer of at least " + std::to_string(least),
             value.number() ? shown(value.number()->real) : value.kind());
    return *value.integer();
  }
  [[noreturn]] void reject(std::string_view name, const std::string& expected,
                           const std::string& found) const {
    const std::string dot = where_.empty() || name.empty() ? "" : ".";
    source_.reject(where_ + dot + std::string(name) + ": " + expected, found);
  }

 private:
  const Json& object_;
  std::string where_;
  const io::Source& source_;
};

// Formats x so that it is read as the same double, and -0 as 0. Throws TT-STAT-01 for a NaN or an infinity,
// which JSON does not have.
inline std::string json_number(double x) {
  if (!std::isfinite(x))
    fail("TT-STAT-01", "JSON cannot represent the number " + std::to_string(x) +
                           "\n  hint: find the computation that produced it");
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", x + 0.0);
  return text;
}

// [f(a), f(b), ...]
template <class T, class F>
std::string json_array(const std::vector<T>& all, F&& f) {
  std::string out;
  for (const T& each : all) out += (out.empty() ? "" : ", ") + f(each);
  return '[' + out + ']';
}
inline std::string json_integer(int64_t x) { return std::to_string(x); }

inline std::string turn_json(const Turn& t) {
  return R"({"seconds": )" + json_number(t.seconds) + R"(, "samples": )" + json_integer(t.samples) +
         R"(, "latencies": )" + json_array(t.latencies, json_number) + R"(, "rate": )" + json_number(t.rate) +
         R"(, "tokens": )" + json_array(t.tokens, json_integer) + R"(, "to_first": )" +
         json_array(t.to_first, json_number) + '}';
}

// Reads the output of turn_json. A turn takes at least 1e-9 s; other numbers are at least 0, samples and
// tokens at least 1. tokens and to_first have as many elements as latencies, or none.
inline Turn read_turn(const Json& json, const std::string& where, const io::Source& source) {
  const Members m(json, where, source);
  m.require({"seconds", "samples", "latencies", "rate", "tokens", "to_first"});
  Turn t{m.number("seconds", 1e-9), m.integer("samples", 1), {}, m.number("rate", 0)};
  for (const Json& each : m.array("latencies")) t.latencies.push_back(m.number(each, "latencies", 0));
  for (const Json& each : m.array("tokens")) t.tokens.push_back(m.integer(each, "tokens", 1));
  for (const Json& each : m.array("to_first")) t.to_first.push_back(m.number(each, "to_first", 0));
  for (const auto& [name, count] :
       {std::pair("tokens", t.tokens.size()), std::pair("to_first", t.to_first.size())})
    if (count != 0 && count != t.latencies.size())
      m.reject(name, "none, or one of each of the latencies", std::to_string(count));
  return t;
}

// {"value": ..., "times_the_baseline": ...} without the braces; null where there is nothing.
inline std::string claim_json(const Claim& c) {
  const auto interval = [](const statistics::Interval& i) {
    return R"({"estimate": )" + json_number(i.estimate) + R"(, "low": )" + json_number(i.low) +
           R"(, "high": )" + json_number(i.high) + '}';
  };
  return R"("value": )" + (c.value ? json_number(*c.value) : "null") + R"(, "times_the_baseline": )" +
         (c.times_the_baseline ? interval(*c.times_the_baseline) : "null");
}

// Reads the output of claim_json. Numbers are at least 0.
inline Claim read_claim(const Members& contender, const std::string& where, const io::Source& source) {
  Claim c;
  if (!contender.at("value").is_null()) c.value = contender.number("value", 0);
  if (contender.at("times_the_baseline").is_null()) return c;
  const Members m(contender.at("times_the_baseline"), where + ".times_the_baseline", source);
  m.require({"estimate", "low", "high"});
  c.times_the_baseline = {m.number("estimate", 0), m.number("low", 0), m.number("high", 0)};
  return c;
}

}  // namespace detail

// The text of result.json. The value and ratio of each contender are computed here (claim_of), relative to
// the first contender.
inline std::string result_json(const Result& r) {
  const auto contender = [&](const Contender& c) {
    return R"({"name": )" + to_json_string(c.name) +
           ",\n  \"turns\": " + detail::json_array(c.turns, detail::turn_json) + ",\n  " +
           detail::claim_json(claim_of(r.quantity, c.turns, r.contenders.front().turns)) + '}';
  };
  return R"({"schema": )" + to_json_string(kResultSchema) + ",\n \"machine\": " + to_json_string(r.machine) +
         ",\n \"seed\": " + std::to_string(r.seed) +
         ",\n \"quantity\": " + to_json_string(kQuantities[static_cast<int>(r.quantity)]) +
         ",\n \"contenders\": " + detail::json_array(r.contenders, contender) + "}\n";
}

// Reads the output of result_json(), which would write the same text again. The schema is checked first:
// another schema is TT-IO-04. Throws TT-IO-03 for violations of the schema, such as a seed below 0, a
// quantity that is not in kQuantities, or no contenders. Throws TT-STAT-08 for a number that does not follow
// from the turns, with the contender's name and the text of difference().
inline Result read_result(const std::string& text, const std::string& name = kResultFile, TT_LOC) {
  const io::Source source{name, "result", loc};
  const Json json = parse_json(as_bytes(text), source);
  const Json* const schema = json.find("schema");
  if (schema && schema->string() && *schema->string() != kResultSchema)
    source.reject(std::string("the schema ") + kResultSchema, *schema->string(), "TT-IO-04");
  const detail::Members root(json, "", source);
  root.require({"schema", "machine", "seed", "quantity", "contenders"});
  (void)root.text("schema");  // throws if it is not a string
  Result r{root.text("machine"), root.integer("seed", 0), {}, {}};
  const auto known = std::find(std::begin(kQuantities), std::end(kQuantities), root.text("quantity"));
  if (known == std::end(kQuantities)) root.reject("quantity", "one of kQuantities", root.text("quantity"));
  r.quantity = static_cast<Quantity>(known - std::begin(kQuantities));
  std::vector<Claim> claims;
  for (const Json& each : root.array("contenders")) {
    const std::string where = "contenders[" + std::to_string(claims.size()) + "]";
    const detail::Members m(each, where, source);
    m.require({"name", "turns", "value", "times_the_baseline"});
    Contender c{m.text("name"), {}};
    for (const Json& turn : m.array("turns"))
      c.turns.push_back(
          detail::read_turn(turn, where + ".turns[" + std::to_string(c.turns.size()) + "]", source));
    claims.push_back(detail::read_claim(m, where, source));
    r.contenders.push_back(std::move(c));
  }
  if (r.contenders.empty()) root.reject("contenders", "at least the baseline", "none");
  for (size_t i = 0; i < claims.size(); ++i) {
    const Contender& c = r.contenders[i];
    const std::string wrong = difference(claims[i], claim_of(r.quantity, c.turns, r.contenders[0].turns));
    if (!wrong.empty())
      fail("TT-STAT-08",
           name + ": " + c.name + ": " + wrong +
               "\n  hint: compute it from the samples, as result_json() does",
           loc);
  }
  return r;
}

// Path, size and digest of each file, sorted by path (bytewise), so that the same content always has the same
// manifest. manifest.json is excluded, because it cannot contain its own digest.
inline std::vector<FileRecord> records_of(const std::vector<BundleFile>& files,
                                          const std::function<std::string(std::string_view)>& sha256) {
  std::vector<FileRecord> out;
  for (const BundleFile& file : files)
    if (file.path != kManifestFile)
      out.push_back({file.path, static_cast<int64_t>(file.content.size()), sha256(file.content)});
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return out;
}

// The text of manifest.json, with these members in this order:
//
//   {"schema": 1, "name": "mlp", "author": "Ada", "team": "", "division": "open", "tier": "T0",
//    "benchmark": ["dig"], "scenario": ["single_stream", "offline"], "hw_class": "cpu-mt",
//    "dtype": {"weights": "f32", "activations": "f32", "accum": "f32"},
//    "quantizer": {"method": "", "calib_ids": [], "text": ""}, "passes": [],
//    "files": [{"path": "model.json", "bytes": 120, "sha256": "..."}, ...],
//    "claims": [{"metric": "accuracy", "value": 0.97}], "deterministic": true, "seed_policy": "",
//    "notes": "one hidden layer", "licence": "CC0-1.0"}
inline std::string manifest_json(const Manifest& m) {
  const auto text = [](const std::string& s) { return to_json_string(s); };
  const auto file = [&](const FileRecord& f) {
    return "\n  {\"path\": " + text(f.path) + ", \"bytes\": " + std::to_string(f.bytes) +
           ", \"sha256\": " + text(f.sha256) + '}';
  };
  const auto claim = [&](const ClaimedMetric& c) {
    return R"({"metric": )" + text(c.metric) + R"(, "value": )" + detail::json_number(c.value) + '}';
  };
  using detail::json_array;
  return R"({"schema": 1, "name": )" + text(m.name) + ", \"author\": " + text(m.author) +
         ", \"team\": " + text(m.team) + ",\n \"division\": " + text(m.division) +
         ", \"tier\": " + text(m.tier) + ",\n \"benchmark\": " + json_array(m.benchmarks, text) +
         ", \"scenario\": " + json_array(m.scenarios, text) + ", \"hw_class\": " + text(m.hardware) +
         ",\n \"dtype\": {\"weights\": " + text(m.weights) + ", \"activations\": " + text(m.activations) +
         ", \"accum\": " + text(m.accumulation) + "},\n \"quantizer\": {\"method\": " + text(m.quantizer) +
         ", \"calib_ids\": " + json_array(m.calibration, detail::json_integer) +
         ", \"text\": " + text(m.quantizer_text) + "}, \"passes\": " + json_array(m.passes, text) +
         ",\n \"files\": " + json_array(m.files, file) + ",\n \"claims\": " + json_array(m.claims, claim) +
         ", \"deterministic\": " + (m.deterministic ? "true" : "false") +
         ", \"seed_policy\": " + text(m.seed_policy) + ",\n \"notes\": " + text(m.notes) +
         ", \"licence\": " + text(m.licence) + "}\n";
}

}  // namespace tinytorch::inline TT_BUILD::benchmarking
