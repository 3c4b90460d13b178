// The jobs of a board at an address, for a worker on another machine (work_messages.hpp says what is sent).
//
// A server that is away is asked again, with longer and longer waits. A result is written to a file before it
// is sent, and the file goes when the board has answered: a result outlives the server's absence and the end
// of this process, and deliver_kept() sends it later. The board takes the same result twice as one.
#pragma once

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <system_error>
#include <thread>
#include <tinymlperf/board/store/workers.hpp>
#include <tinymlperf/board/web/board_address.hpp>
#include <tinymlperf/board/web/work_messages.hpp>
#include <tinytorch/io/file.hpp>
#include <utility>
#include <vector>

namespace tinymlperf::board {

struct RemoteJobsOptions {
  std::filesystem::path outbox;                // the folder of results that are not delivered yet
  std::chrono::milliseconds first_wait{1000};  // doubled after each failure
  std::chrono::milliseconds longest_wait{60000};
  std::chrono::milliseconds patience{3600 * 1000};  // the sum of all waits for one answer
  std::function<void(const std::string& why, std::chrono::milliseconds wait)> told =
      [](const std::string&, std::chrono::milliseconds) {};
};

class RemoteJobs final : public JobSource {
 public:
  RemoteJobs(std::string address, WorkerToken token, RemoteJobsOptions options)
      : address_(checked_address(std::move(address), "--server")),
        token_(std::move(token)),
        options_(std::move(options)) {
    std::filesystem::create_directories(options_.outbox);
    std::signal(SIGPIPE, SIG_IGN);  // a server that hangs up while it is sent something is asked again
  }

  bool has_job(const std::string& hardware) override {
    return read([](const Json& j) { return j.at("waiting").get<bool>(); },
                ask("waiting", {{"hardware", hardware}}));
  }
  std::optional<Assignment> claim(const std::string& hardware) override {
    return read(
        [](const Json& j) {
          const Json& job = j.at("job");
          return job.is_null() ? std::nullopt : std::optional(assignment_from_json(job));
        },
        ask("claim", {{"hardware", hardware}}));
  }
  std::string bundle(const std::string& digest) override {
    const std::string path = "/worker/bundles/" + digest;
    std::string bytes = patiently([&] { return client().Get(path, headers(path, "")); }).body;
    if (bundle::sha256(bytes) != digest)
      throw std::runtime_error("the bundle that " + address_ + " sent does not have the digest " + digest);
    return bytes;
  }
  std::vector<Uncompiled> uncompiled(const std::string& hardware) override {
    return read(
        [](const Json& j) {
          std::vector<Uncompiled> out;
          for (const Json& one : j.at("submissions"))
            out.push_back({one.at("submission").get<int64_t>(), one.at("bundle").get<std::string>()});
          return out;
        },
        ask("uncompiled", {{"hardware", hardware}}));
  }
  void note_compiled(int64_t submission, const std::string& why_not) override {
    ask("compiled", {{"submission", submission}, {"why_not", why_not}});
  }

  // A report that does not arrive is not repeated: the next one renews the lease, too.
  void report(const Claim& c, double progress, const std::string& message) override {
    const std::string path = "/worker/report", body = canonical_text({{"job", c.job},
                                                                      {"owner", c.owner},
                                                                      {"progress", progress},
                                                                      {"message", clean(message, 2000)}});
    const httplib::Result result = post(path, body, std::chrono::seconds(10));
    if (result && !is_passing(result->status)) require_good(*result, c.job);
  }
  int64_t finish(const Claim& c, const AnyRun& run) override {
    const Json body{{"job", c.job}, {"owner", c.owner}, {"run", judge::to_json(run)}};
    const std::filesystem::path file = options_.outbox / ("job-" + std::to_string(c.job) + "-" +
                                                          bundle::sha256(c.owner).substr(0, 16) + kEnd);
    tinytorch::write_file(file.string(),
                          std::string_view(canonical_text({{"board", address_}, {"body", body}})));
    return deliver(file, body);
  }
  bool fail(const Claim& c, const std::string& why, Fault fault) override {
    return read([](const Json& j) { return j.at("again").get<bool>(); },
                ask("fail", {{"job", c.job}, {"owner", c.owner}, {"why", why}, {"fault", name_of(fault)}}));
  }

  struct Delivered {
    int64_t job = 0, run = 0;
    std::string refusal;  // why the board does not take it; empty: it has
  };
  // Sends the results of this board that an earlier process left. Files that are not readable stay.
  std::vector<Delivered> deliver_kept() {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(options_.outbox))
      if (entry.path().filename().string().ends_with(kEnd)) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    std::vector<Delivered> out;
    for (const std::filesystem::path& file : files) {
      std::ifstream in(file, std::ios::binary);
      const Json kept = Json::parse(in, nullptr, false);
      const bool whole = kept.is_object() && kept.contains("body") && kept.at("body").is_object();
      if (!whole || kept.value("board", Json()) != address_) continue;
      Delivered d{kept.at("body").value("job", int64_t{0}), 0, ""};
      try {
        d.run = deliver(file, kept.at("body"));
      } catch (const LeaseLost& e) {
        d.refusal = e.what();
      } catch (const RefusedByBoard& e) {
        d.refusal = e.what();
      }
      out.push_back(d);
    }
    return out;
  }

 private:
  static constexpr const char* kEnd = ".result.json";

  // The file stays if the board cannot be asked, and goes if it took the result or will never take it.
  int64_t deliver(const std::filesystem::path& file, const Json& body) {
    try {
      const int64_t run = read([](const Json& j) { return j.at("run").get<int64_t>(); }, ask("finish", body));
      std::filesystem::remove(file);
      return run;
    } catch (const BoardUnavailable& e) {
      throw BoardUnavailable(std::string(e.what()) + "; the result is kept in " + file.string() +
                             ", and the next `tinymlperf work --server` delivers it");
    } catch (const LeaseLost&) {
      std::filesystem::remove(file);
      throw;
    } catch (const RefusedByBoard&) {
      std::filesystem::remove(file);
      throw;
    }
  }

  // One client for each request, since the heartbeat asks at the same time as the match.
  // `longest`: the wait for an answer.
  httplib::Client client(std::chrono::seconds longest = std::chrono::seconds(120)) const {
    httplib::Client c(address_);
    c.set_connection_timeout(std::min(longest, std::chrono::seconds(10)));
    c.set_read_timeout(longest);
    c.set_write_timeout(longest);
    return c;
  }
  httplib::Headers headers(const std::string& path, const std::string& body) const {
    return {{"Accept", "application/json"},
            {"Authorization", "Bearer " + token_.identity},
            {kSignatureHeader, signature_of(token_.key, path, body)}};
  }
  httplib::Result post(const std::string& path, const std::string& body,
                       std::chrono::seconds longest = std::chrono::seconds(120)) const {
    return client(longest).Post(path, headers(path, body), body, "application/json");
  }
  Json ask(const char* what, const Json& body) {
    const std::string path = std::string("/worker/") + what, text = canonical_text(body);
    const int64_t job = body.value("job", int64_t{0});
    const auto answer = patiently([&] { return post(path, text); }, job);
    Json document = Json::parse(answer.body, nullptr, false);
    if (document.is_discarded()) throw BoardUnavailable(address_ + " answers, but not as a board does");
    return document;
  }

  static bool is_passing(int status) { return status == 408 || status == 429 || status / 100 == 5; }

  // Asks until there is an answer that will not change by itself.
  template <class F>
  httplib::Response patiently(F&& once, int64_t job = 0) {
    std::chrono::milliseconds wait = options_.first_wait, waited{0};
    for (;;) {
      const httplib::Result result = once();
      if (result && !is_passing(result->status)) return require_good(*result, job), *result;
      const std::string why = result ? fmt::format("{} answers with status {}", address_, result->status)
                                     : why_no_answer(address_, result.error());
      if (waited + wait > options_.patience) throw BoardUnavailable(why);
      options_.told(why, wait);
      std::this_thread::sleep_for(wait);
      waited += wait, wait = std::min(2 * wait, options_.longest_wait);
    }
  }
  void require_good(const httplib::Response& r, int64_t job) const {
    if (r.status == 200) return;
    if (r.status == 409) throw LeaseLost(job);
    const std::string said = reason_of(Json::parse(r.body, nullptr, false));
    const std::string reason = said.empty() ? fmt::format("status {}", r.status) : said;
    if (r.status == 400 || r.status == 413 || r.status == 422) throw RefusedByBoard(reason);
    throw BoardUnavailable(address_ + " does not let this worker in: " + reason);
  }
  template <class F>
  auto read(F&& f, const Json& answer) const -> decltype(f(answer)) {
    try {
      return f(answer);
    } catch (const Json::exception& e) {
      throw BoardUnavailable(address_ +
                             " answers, but not as a board of this version does: " + clean(e.what(), 200));
    }
  }

  std::string address_;
  WorkerToken token_;
  RemoteJobsOptions options_;
};

}  // namespace tinymlperf::board
