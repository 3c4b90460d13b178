// The client of a board that is served at an address. It reads the JSON of the pages over HTTP and submits
// bundles.
//
//   RemoteBoard board("http://127.0.0.1:8080");
//   const Accepted a = board.submit(token, bytes);
//   const auto job = board.job(a.job);
//
// A refusal of the board throws RefusedByBoard with the board's reason. An address without a board throws
// std::runtime_error, which says what to check. A board that answers "too many requests" (429) is asked again
// after the time that it names, for at most Patience::most altogether.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <tinymlperf/board/store/source.hpp>
#include <tinymlperf/board/store/text.hpp>
#include <tinymlperf/board/store/views.hpp>
#include <tinymlperf/board/web/board_address.hpp>
#include <tinymlperf/board/web/request.hpp>
#include <tinymlperf/support/json_fields.hpp>
#include <utility>

namespace tinymlperf::board {

struct Patience {
  std::chrono::seconds most{600};  // the sum of all waits for one answer
  std::function<void(std::chrono::seconds)> told = [](std::chrono::seconds wait) {
    fmt::print(stderr, "tinymlperf: the board has too many requests; asking again in {} s\n", wait.count());
  };
};

class RemoteBoard {
 public:
  // http://HOST, http://HOST:PORT or https://...; the board is at the root of its server.
  explicit RemoteBoard(std::string address, Patience patience = {})
      : address_(checked_address(std::move(address), "--board")), patience_(std::move(patience)) {
    http_ = std::make_unique<httplib::Client>(address_);
    http_->set_connection_timeout(10);
    http_->set_read_timeout(120);
    http_->set_write_timeout(120);
  }
  const std::string& address() const { return address_; }

  Accepted submit(const std::string& token, const std::string& bundle) {
    // A server that refuses a body for its size does not read it, and its reason may be lost while the client
    // still sends.
    const int64_t most =
        read([](const Json& j) { return j.at("most_bytes").get<int64_t>(); }, get("/submit"));
    if (static_cast<int64_t>(bundle.size()) > most)
      throw RefusedByBoard(
          fmt::format("the bundle has {} bytes; {} takes at most {}", bundle.size(), address_, most));
    const Json answer = post([&] {
      return http_->Post(
          "/submit", {{"Accept", "application/json"}, {"Authorization", "Bearer " + token}},
          {{"token", token, "", ""}, {"bundle", bundle, "bundle.tmlp", "application/octet-stream"}});
    });
    return read(
        [](const Json& j) {
          return Accepted{j.at("submission").get<int64_t>(), number_or_zero(j.at("job")),
                          j.at("known_before").get<bool>()};
        },
        answer);
  }

  // Returns the number of the job.
  int64_t request_head_to_head(const std::string& token, int64_t submission, int64_t against) {
    const Json answer = post_form(
        "/head-to-head",
        {{"token", token}, {"submission", std::to_string(submission)}, {"against", std::to_string(against)}});
    return read([](const Json& j) { return j.at("job").get<int64_t>(); }, answer);
  }

  // Returns the number of the appeal.
  int64_t appeal(const std::string& token, int64_t submission, int64_t run, const std::string& note) {
    const Json answer = post_form("/appeal", {{"token", token},
                                              {"submission", std::to_string(submission)},
                                              {"run", std::to_string(run)},
                                              {"note", note}});
    return read([](const Json& j) { return j.at("appeal").get<int64_t>(); }, answer);
  }

  void cancel(const std::string& token, int64_t job) {
    post_form("/cancel", {{"token", token}, {"job", std::to_string(job)}});
  }
  void retry(const std::string& token, int64_t job) {
    post_form("/retry", {{"token", token}, {"job", std::to_string(job)}});
  }
  void withdraw(const std::string& token, int64_t submission, const std::string& reason) {
    post_form("/withdraw", {{"token", token}, {"submission", std::to_string(submission)}, {"note", reason}});
  }

  // Pages are asked for as the user of this token, who sees more of what is his.
  void look_as(const std::string& token) {
    reading_ = kJson;
    reading_.emplace("Authorization", "Bearer " + token);
  }

  // Asks for a job; the result is nullopt if there is no such job.
  std::optional<Job> job(int64_t id) {
    return maybe(fmt::format("/jobs/{}.json", id), [](const Json& j) { return job_of(j); });
  }

  // Reads only its name, runs and jobs, which a terminal shows. Empty: there is no such submission.
  std::optional<Submission> submission(int64_t id) {
    return maybe(fmt::format("/submissions/{}.json", id), [](const Json& j) {
      Submission s;
      s.id = j.at("id").get<int64_t>(), s.name = shown(j.at("name"));
      for (const Json& run : j.at("runs")) s.runs.push_back(run_of(run));
      for (const Json& one : j.at("jobs")) s.jobs.push_back(job_of(one));
      return s;
    });
  }

 private:
  inline static const httplib::Headers kJson{{"Accept", "application/json"}};

  // Text of a board that goes to a terminal: no control characters.
  static std::string shown(const Json& text) { return clean(text.get<std::string>(), 2000); }
  static int64_t number_or_zero(const Json& j) { return j.is_null() ? 0 : j.get<int64_t>(); }

  static Job job_of(const Json& j) {
    Job job;
    job.id = j.at("id").get<int64_t>(), job.submission = j.at("submission").get<int64_t>();
    job.name = shown(j.at("name")), job.kind = shown(j.at("kind"));
    job.benchmark = shown(j.at("benchmark")), job.scenario = shown(j.at("scenario"));
    job.progress = j.at("progress").get<double>(), job.message = shown(j.at("message"));
    job.ahead = j.at("ahead").get<int64_t>();
    if (const Json& wait = j.at("wait_seconds"); !wait.is_null()) job.wait = wait.get<double>();
    job.state = state_of(j.at("state").get<std::string>());
    return job;
  }
  static Run run_of(const Json& j) {
    Run r;
    r.id = j.at("id").get<int64_t>(), r.benchmark = shown(j.at("benchmark"));
    r.scenario = shown(j.at("scenario")), r.run_class = shown(j.at("run_class"));
    r.baseline = shown(j.at("baseline")), r.out = shown(j.at("out"));
    r.load = shown(j.at("load"));
    if (!j.at("ratio").is_null()) r.ratio = interval_from_json(j.at("ratio"));
    if (const Json& t = j.at("tokens"); !t.is_null())
      r.tokens = TokenTimes{t.at("to_first_seconds").get<double>(), t.at("per_token_seconds").get<double>()};
    return r;
  }

  template <class F>
  auto read(F&& f, const Json& answer) -> decltype(f(answer)) {
    try {
      return f(answer);
    } catch (const Json::exception& e) {
      throw std::runtime_error(
          address_ + " answers, but not as a TinyMLPerf board of this version does: " + clean(e.what(), 200));
    }
  }
  template <class F>
  auto maybe(const std::string& path, F&& f) -> std::optional<decltype(f(Json()))> {
    const httplib::Result result = patiently([&] { return http_->Get(path, reading_); });
    if (result && result->status == 404) return std::nullopt;
    return read(f, body_of(result));
  }
  Json get(const char* path) {
    return body_of(patiently([&] { return http_->Get(path, kJson); }));
  }
  template <class F>
  Json post(F&& f) {
    return body_of(patiently(f));
  }
  // Asks until the answer is another one than 429, or too much time was waited.
  template <class F>
  httplib::Result patiently(F&& ask) {
    for (std::chrono::seconds waited{0};;) {
      httplib::Result result = ask();
      if (!result || result->status != 429) return result;
      const auto named = parse_id(result->get_header_value("Retry-After"));
      const std::chrono::seconds wait(std::clamp<int64_t>(named.value_or(10), 1, 60));
      if (waited + wait > patience_.most) return result;
      patience_.told(wait);
      std::this_thread::sleep_for(wait);
      waited += wait;
    }
  }
  Json post_form(const char* path, const httplib::Params& fields) {
    return post([&] { return http_->Post(path, kJson, fields); });
  }

  // The JSON of a successful response. Throws for any other.
  Json body_of(const httplib::Result& result) const {
    if (!result) throw std::runtime_error(why_no_answer(address_, result.error()));
    const Json body = Json::parse(result->body, nullptr, false);
    if (result->status / 100 == 2 && !body.is_discarded()) return body;
    if (const std::string reason = reason_of(body); result->status / 100 == 4 && !reason.empty())
      throw RefusedByBoard(reason);
    throw std::runtime_error(
        fmt::format("{} answered with status {}: it is no TinyMLPerf board, or it failed; see its log",
                    address_, result->status));
  }

  httplib::Headers reading_ = kJson;
  std::string address_;
  Patience patience_;
  std::unique_ptr<httplib::Client> http_;
};

}  // namespace tinymlperf::board
