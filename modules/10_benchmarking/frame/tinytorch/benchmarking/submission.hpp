// The files of a submitted measurement: result.json, from whose samples all numbers can be recomputed, and
// manifest.json, which names the author and lists every file with its digest.
//
// The frame of a course header: it has the given parts, and includes the functions of task 10.12. It is cut
// from the library's header by modules/frames.py.
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

  void require(std::initializer_list<std::string_view> names) const;  // task 10.12

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

inline std::string json_number(double x);  // task 10.12

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

inline Turn read_turn(const Json& json, const std::string& where, const io::Source& source);  // task 10.12

// {"value": ..., "times_the_baseline": ...} without the braces; null where there is nothing.
inline std::string claim_json(const Claim& c) {
  const auto interval = [](const statistics::Interval& i) {
    return R"({"estimate": )" + json_number(i.estimate) + R"(, "low": )" + json_number(i.low) +
           R"(, "high": )" + json_number(i.high) + '}';
  };
  return R"("value": )" + (c.value ? json_number(*c.value) : "null") + R"(, "times_the_baseline": )" +
         (c.times_the_baseline ? interval(*c.times_the_baseline) : "null");
}

// Task 10.12.
inline Claim read_claim(const Members& contender, const std::string& where, const io::Source& source);

}  // namespace detail

inline std::string result_json(const Result& r);  // task 10.12
// Task 10.12.
inline Result read_result(const std::string& text, const std::string& name = kResultFile, TT_LOC);
// Task 10.12.
inline std::vector<FileRecord> records_of(const std::vector<BundleFile>& files,
                                          const std::function<std::string(std::string_view)>& sha256);
inline std::string manifest_json(const Manifest& m);  // task 10.12

}  // namespace tinytorch::inline TT_BUILD::benchmarking

#include <tasks/benchmarking/submission.hpp>
