// The leaderboard under load: readers that keep their connections, and visitors who upload, all at once for a while.
//
//   bench_board                               200 readers and 20 uploaders for 60 s; JSON with errors and latencies
//   bench_board --seconds 10 --json out.json  the same, shorter, also into a file
//   bench_board --serve [--live]              the made-up board at a free port until Ctrl-C, for a browser; live: what is
//                                             uploaded runs to its end
//   bench_board --export FOLDER               the made-up board as files
//
// Server and visitors share this machine, so the latencies are those of both; an error is an answer that is not the one
// expected, or none. The board is made up and in memory: what is measured is the server, not a store.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>
#include <tinymlperf/board/export.hpp>
#include <tinymlperf/board/http_client.hpp>
#include <tinymlperf/board/serve.hpp>
#include <tinytorch/benchmarking/statistics.hpp>
#include <tinytorch/io/file.hpp>

namespace board = tinymlperf::board;
using board::testing::Client;
using board::testing::MemoryBoard;
using board::testing::Response;
using board::testing::RunningBoard;
using nlohmann::json;
using Clock = std::chrono::steady_clock;

namespace {

struct Load {
  int readers = 200, uploaders = 20;
  double seconds = 60;
  int64_t bundle_bytes = 256 * 1024;
};

// What one visitor saw.
struct Seen {
  std::vector<double> latencies;  // of good answers, in seconds
  int64_t errors = 0;
};

// One connection, page after page; `If-None-Match` every other time, as a browser would.
void read_pages(int port, size_t which, Clock::time_point until, Seen& seen) {
  static constexpr const char* kPages[] = {"/",
                                           "/tables/dig/closed/cpu-1t",
                                           "/tables/dig/closed/cpu-1t.json",
                                           "/submissions/1",
                                           "/queue",
                                           "/tables/dig/closed/cpu-1t/pareto",
                                           "/style.css"};
  Client client(port);
  std::map<std::string, std::string> etags;
  for (size_t i = which; Clock::now() < until; ++i) {
    const std::string page = kPages[i % std::size(kPages)], known = i % 2 ? etags[page] : "";
    const auto start = Clock::now();
    const bool sent = client.write("GET " + page + " HTTP/1.1\r\nHost: board\r\n" +
                                   (known.empty() ? "" : "If-None-Match: " + known + "\r\n") + "\r\n");
    const Response answer = sent ? client.read_answer() : Response{};
    if (answer.status == 0) return void(++seen.errors);  // the connection is lost: the visitor is gone
    const bool good = answer.status == 200 ? !answer.body.empty() : answer.status == 304 && !known.empty();
    if (!good)
      ++seen.errors;
    else
      seen.latencies.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    etags[page] = answer.header("etag");
  }
}

// A connection each, as uploads are rare; the pause keeps them at a pace that a class might have.
void upload(const RunningBoard& site, size_t which, int64_t bytes, Clock::time_point until, Seen& seen) {
  for (int i = 0; Clock::now() < until; ++i) {
    std::string bundle = "bundle " + std::to_string(which) + " " + std::to_string(i) + " ";
    bundle.resize(static_cast<size_t>(bytes), 'x');
    const auto start = Clock::now();
    const Response answer = site.submit("secret", bundle);
    if (answer.status != 303 && answer.status != 429)
      ++seen.errors;  // 429: so many at once are not taken, and it says so
    else
      seen.latencies.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
}

json summary(const std::vector<Seen>& all) {
  std::vector<double> latencies;
  int64_t errors = 0;
  for (const Seen& s : all) {
    latencies.insert(latencies.end(), s.latencies.begin(), s.latencies.end());
    errors += s.errors;
  }
  json out{{"visitors", all.size()}, {"answers", latencies.size()}, {"errors", errors}};
  for (const double p : {50.0, 99.0})
    out["p" + std::to_string(static_cast<int>(p)) + "_seconds"] =
        latencies.empty() ? json() : json(tinytorch::statistics::percentile(latencies, p));
  return out;
}

json run_load(const Load& load) {
  board::ServerOptions options;
  options.asks_per_minute = 1'000'000;  // all visitors have one address here
  options.readers = load.readers + load.uploaders + 8;
  RunningBoard site(options);
  std::vector<Seen> readers(static_cast<size_t>(load.readers)),
      uploaders(static_cast<size_t>(load.uploaders));
  std::vector<std::thread> threads;
  const auto until =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(load.seconds));
  const auto visit = [&](Seen& seen, auto f) {
    threads.emplace_back([&seen, f] {
      try {
        f(seen);
      } catch (const std::exception& e) {
        ++seen.errors;
        std::fprintf(stderr, "bench_board: %s\n", e.what());
      }
    });
  };
  for (size_t i = 0; i < readers.size(); ++i)
    visit(readers[i], [&, i](Seen& s) { read_pages(site.port, i, until, s); });
  for (size_t i = 0; i < uploaders.size(); ++i)
    visit(uploaders[i], [&, i](Seen& s) { upload(site, i, load.bundle_bytes, until, s); });
  for (std::thread& t : threads) t.join();
  return {{"schema", "tinymlperf-board-load-1"},
          {"seconds", load.seconds},
          {"bundle_bytes", load.bundle_bytes},
          {"reading", summary(readers)},
          {"uploading", summary(uploaders)}};
}

// Moves the jobs of uploads on, a tenth at a time.
class LiveJobs {
 public:
  explicit LiveJobs(MemoryBoard& made_up)
      : thread_([this, &made_up] {
          while (!over_.wait(std::chrono::milliseconds(300))) advance(made_up);
        }) {}
  ~LiveJobs() {
    over_.raise();
    thread_.join();
  }

 private:
  static void advance(MemoryBoard& made_up) {
    for (board::Job job : made_up.queue()) {
      if (job.id < MemoryBoard::kFirstAsked || board::ended(job)) continue;
      job.progress += 0.1;
      job.state = job.progress < 0.99 ? board::JobState::running : board::JobState::done;
      job.message = job.state == board::JobState::done ? "finished" : "measuring";
      made_up.set_job(job);
    }
  }
  board::StopFlag over_;
  std::thread thread_;
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("The leaderboard under load, or served with made-up data");
  Load load;
  std::string out, folder;
  bool serve = false, live = false, hostile = false;
  app.add_option("--seconds", load.seconds)->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--readers", load.readers)->capture_default_str()->check(CLI::Range(0, 2000));
  app.add_option("--uploaders", load.uploaders)->capture_default_str()->check(CLI::Range(0, 200));
  app.add_option("--bytes", load.bundle_bytes, "of a bundle")
      ->capture_default_str()
      ->check(CLI::Range(64, 32 << 20));
  app.add_option("--json", out, "file for the result");
  app.add_flag("--serve", serve, "the made-up board until Ctrl-C");
  app.add_flag("--live", live, "with --serve: what is uploaded runs to its end");
  app.add_option("--export", folder, "the made-up board as files");
  app.add_flag("--hostile", hostile, "with what visitors with bad intentions would send");
  CLI11_PARSE(app, argc, argv);
  MemoryBoard made_up(hostile);
  if (!folder.empty())
    return std::printf("%lld pages\n", static_cast<long long>(board::export_site(made_up, folder))) > 0 ? 0
                                                                                                        : 1;
  if (serve) {
    board::ServeOptions options{.database = "made-up data", .server = {}};
    options.server.port = 0;
    options.server.asks_per_minute = 1000;
    std::optional<LiveJobs> moving;
    if (live) moving.emplace(made_up);
    return board::serve(made_up, made_up, options);
  }
  const json result = run_load(load);
  std::printf("%s\n", result.dump(1).c_str());
  if (!out.empty()) tinytorch::write_file(out, result.dump(1) + "\n");
  const bool good = result["reading"]["errors"] == 0 && result["uploading"]["errors"] == 0 &&
                    (load.readers == 0 || result["reading"]["answers"] > 0);
  return good ? 0 : 1;
}
