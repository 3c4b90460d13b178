// ServerMetrics: what a server counts, as text for Prometheus. The names are those of OpenTelemetry's
// conventions for generative AI (gen_ai.server.*), in the spelling of Prometheus.
//
//   metrics.ended({.operation = "chat", .first_token = 0.02, .seconds = 0.9, .prompt = 12, .written = 40});
//   metrics.text("gpt2", gauges)
//
// Times are seconds. time_per_output_token is the mean time of a token after the first one of a request.
// Source: OpenTelemetry, "Semantic conventions for generative AI metrics"; Prometheus, "Exposition formats".
#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tinytorch/core/error.hpp>
#include <utility>
#include <vector>

namespace tinytorch::inline TT_BUILD::serving {

// The number of values up to each bound, their number and their sum.
class Histogram {
 public:
  explicit Histogram(std::vector<double> bounds) : bounds_(std::move(bounds)), counts_(bounds_.size()) {}
  void add(double value) {
    for (size_t i = 0; i < bounds_.size(); ++i) counts_[i] += value <= bounds_[i];
    ++count_, sum_ += value;
  }
  int64_t count() const { return count_; }
  // Lines of Prometheus. labels: name="value" pairs, separated by commas.
  std::string text(const std::string& name, const std::string& labels) const;

 private:
  std::vector<double> bounds_;
  std::vector<int64_t> counts_;
  int64_t count_ = 0;
  double sum_ = 0;
};

struct RequestMeasure {
  std::string operation{};          // chat or text_completion
  std::string error{};              // what ended it early, such as "timeout"; empty: it ended by itself
  double first_token = -1;          // seconds until its first token; below 0: it wrote none
  double seconds = 0;               // until its end
  int64_t prompt = 0, written = 0;  // tokens
};

struct Gauge {
  std::string name, help;
  double value;
  std::string type = "gauge";
};

class ServerMetrics {
 public:
  void ended(const RequestMeasure& request);
  // A request that was answered by an error before it began.
  void refused(int status) {
    const std::lock_guard lock(mutex_);
    ++refused_[status];
  }
  std::string text(const std::string& model, const std::vector<Gauge>& gauges) const;

 private:
  struct Operation {
    Histogram first_token{{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1., 2.5, 5., 7.5, 10.}};
    Histogram per_token{{.001, .0025, .005, .01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1., 2.5}};
    std::map<std::string, Histogram> duration{};  // by error
    int64_t prompt = 0, written = 0;
  };
  mutable std::mutex mutex_;
  std::map<std::string, Operation> operations_;
  std::map<int, int64_t> refused_;
};

// ---------------------------------------------------------------------------------------------------------

namespace metrics {

inline std::string number(double x) {
  char buffer[32];
  return std::string(buffer, std::to_chars(buffer, buffer + sizeof buffer, x).ptr);
}
// The value of a label, in quotes.
inline std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text)
    out += c == '\n' ? "\\n" : c == '"' || c == '\\' ? std::string{'\\', c} : std::string{c};
  return out + "\"";
}
inline std::string head(const std::string& name, const char* type, const std::string& help) {
  return "# HELP " + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
}

}  // namespace metrics

inline std::string Histogram::text(const std::string& name, const std::string& labels) const {
  std::string out;
  const auto bucket = [&](const std::string& bound, int64_t count) {
    out += name + "_bucket{" + labels + ",le=\"" + bound + "\"} " + std::to_string(count) + "\n";
  };
  for (size_t i = 0; i < bounds_.size(); ++i) bucket(metrics::number(bounds_[i]), counts_[i]);
  bucket("+Inf", count_);
  return out + name + "_sum{" + labels + "} " + metrics::number(sum_) + "\n" + name + "_count{" + labels +
         "} " + std::to_string(count_) + "\n";
}

inline void ServerMetrics::ended(const RequestMeasure& r) {
  const std::lock_guard lock(mutex_);
  Operation& o = operations_[r.operation];
  if (r.first_token >= 0) o.first_token.add(r.first_token);
  if (r.first_token >= 0 && r.written > 1)
    o.per_token.add((r.seconds - r.first_token) / static_cast<double>(r.written - 1));
  const std::vector<double> bounds{.01,  .02,  .04,  .08,   .16,   .32,   .64,
                                   1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92};
  o.duration.try_emplace(r.error, bounds).first->second.add(r.seconds);
  o.prompt += r.prompt, o.written += r.written;
}

inline std::string ServerMetrics::text(const std::string& model, const std::vector<Gauge>& gauges) const {
  const std::lock_guard lock(mutex_);
  const auto labels = [&](const std::string& operation) {
    return "gen_ai_operation_name=" + metrics::quoted(operation) +
           ",gen_ai_request_model=" + metrics::quoted(model);
  };
  const std::string first = "gen_ai_server_time_to_first_token_seconds",
                    each = "gen_ai_server_time_per_output_token_seconds",
                    all = "gen_ai_server_request_duration_seconds", tokens = "gen_ai_server_tokens_total",
                    refused = "tinytorch_refused_requests_total";
  std::string out = metrics::head(first, "histogram", "Time from a request to its first token.");
  for (const auto& [name, o] : operations_) out += o.first_token.text(first, labels(name));
  out += metrics::head(each, "histogram", "Mean time of a token after the first one of a request.");
  for (const auto& [name, o] : operations_) out += o.per_token.text(each, labels(name));
  out += metrics::head(all, "histogram", "Time from a request to its end.");
  for (const auto& [name, o] : operations_) {
    for (const auto& [error, histogram] : o.duration) {
      const std::string why = error.empty() ? "" : ",error_type=" + metrics::quoted(error);
      out += histogram.text(all, labels(name) + why);
    }
  }
  out += metrics::head(tokens, "counter", "Tokens of prompts (input) and of answers (output).");
  for (const auto& [name, o] : operations_) {
    for (const auto& [type, count] : {std::pair("input", o.prompt), std::pair("output", o.written)}) {
      out += tokens + "{" + labels(name) + ",gen_ai_token_type=\"" + type + "\"} " + std::to_string(count) +
             "\n";
    }
  }
  out += metrics::head(refused, "counter", "Requests that were answered by an error before they began.");
  for (const auto& [status, count] : refused_)
    out += refused + "{status=\"" + std::to_string(status) + "\"} " + std::to_string(count) + "\n";
  for (const Gauge& g : gauges)
    out += metrics::head(g.name, g.type.c_str(), g.help) + g.name + " " + metrics::number(g.value) + "\n";
  return out;
}

}  // namespace tinytorch::inline TT_BUILD::serving
