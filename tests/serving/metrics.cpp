#include <tinytorch/serving/metrics.hpp>

#include <doctest/doctest.h>

#include <thread>

using namespace tinytorch::serving;

namespace {
bool has_line(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}
}  // namespace

TEST_CASE("a histogram counts the values up to each bound") {
  Histogram h({1, 2.5});
  for (const double x : {0.5, 1.0, 2.0, 7.0}) h.add(x);
  CHECK(h.text("t", "a=\"b\"") ==
        "t_bucket{a=\"b\",le=\"1\"} 2\nt_bucket{a=\"b\",le=\"2.5\"} 3\nt_bucket{a=\"b\",le=\"+Inf\"} 4\n"
        "t_sum{a=\"b\"} 10.5\nt_count{a=\"b\"} 4\n");
}

TEST_CASE("requests become histograms and counters with OpenTelemetry's names") {
  ServerMetrics m;
  m.ended({.operation = "chat", .first_token = 0.5, .seconds = 2.5, .prompt = 7, .written = 5});
  m.ended({.operation = "chat", .error = "timeout", .seconds = 3, .prompt = 2});
  m.ended({.operation = "text_completion", .first_token = 1, .seconds = 1, .prompt = 1, .written = 1});
  m.refused(429);
  m.refused(429);
  const std::string text = m.text("a\"b", {{"pages_held", "Held.", 3}});
  const std::string chat = R"({gen_ai_operation_name="chat",gen_ai_request_model="a\"b")";
  CHECK(has_line(text, "gen_ai_server_time_to_first_token_seconds_count" + chat + "} 1"));
  CHECK(has_line(text, "gen_ai_server_time_to_first_token_seconds_sum" + chat + "} 0.5"));
  CHECK(has_line(text, "gen_ai_server_time_per_output_token_seconds_sum" + chat + "} 0.5"));
  CHECK(has_line(text, "gen_ai_server_request_duration_seconds_count" + chat + "} 1"));
  CHECK(has_line(text, "gen_ai_server_request_duration_seconds_count" + chat + ",error_type=\"timeout\"} 1"));
  CHECK(has_line(text, "gen_ai_server_tokens_total" + chat + ",gen_ai_token_type=\"input\"} 9"));
  CHECK(has_line(text, "gen_ai_server_tokens_total" + chat + ",gen_ai_token_type=\"output\"} 5"));
  CHECK(has_line(text, "tinytorch_refused_requests_total{status=\"429\"} 2"));
  CHECK(has_line(text, "# TYPE gen_ai_server_request_duration_seconds histogram"));
  CHECK(has_line(text, "pages_held 3"));
  // One token has no time between tokens.
  CHECK(text.find("time_per_output_token_seconds_count{gen_ai_operation_name=\"text_completion\","
                  "gen_ai_request_model=\"a\\\"b\"} 0") != std::string::npos);
}

TEST_CASE("threads count together") {
  ServerMetrics m;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        m.ended({.operation = "chat", .first_token = 0.1, .seconds = 0.2, .prompt = 1, .written = 2});
        if (i % 100 == 0) CHECK_FALSE(m.text("m", {}).empty());
      }
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK(m.text("m", {}).find("gen_ai_token_type=\"output\"} 4000") != std::string::npos);
}
