// The leaderboard under load: readers that keep their connections, and visitors who upload, all at once for a
// while.
//
//   bench_board                               200 readers and 20 uploaders for 60 s; JSON with errors and
//   latencies bench_board --seconds 10 --json out.json  the same, shorter, also into a file bench_board
//   --serve [--live]              the made-up board at a free port until Ctrl-C, for a browser; live: what is
//                                             uploaded runs to its end
//   bench_board --export FOLDER               the made-up board as files
//
// The load meets a board in a file (SQLite, WAL) in a temporary folder, with entries that were measured.
// Server and visitors share this machine. Exit status: 0 nobody met an error and the readers' p99 is below
// --bound, else 1.
#include <CLI/CLI.hpp>
#include <common/results_file.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <tinymlperf/board/load.hpp>
#include <tinymlperf/board/pages/export.hpp>
#include <tinymlperf/board/web/serve.hpp>
#include <tinymlperf/support/machine.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tinymlperf {
extern const char* const kCommit;  // "" where it was built without .git; a file that is written by each build
}

namespace board = tinymlperf::board;
using board::testing::Load;
using board::testing::MemoryBoard;
using nlohmann::json;

namespace {

json document(const Load& load, const board::testing::LoadResult& r, double bound, bool passed,
              const std::string& command) {
  return {{"schema", "tinymlperf-board-load-1"},
          {"machine", tinymlperf::to_json(tinymlperf::describe_machine())},
          {"date", tinymlperf::utc_now()},
          {"commit", tinymlperf::kCommit},
          {"command", command},
          {"readers", load.readers},
          {"uploads", load.uploaders},
          {"seconds", load.seconds},
          {"entries", load.entries},
          {"read_pace_seconds", load.read_pace},
          {"upload_pause_seconds", load.upload_pause},
          {"reading", to_json(r.reading)},
          {"uploading", to_json(r.uploading)},
          {"submissions", r.submissions},
          {"bound_seconds", bound},
          {"passed", passed}};
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
  double bound = 0.1;
  bool serve = false, live = false, hostile = false;
  app.add_option("--seconds", load.seconds)->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--readers", load.readers)->capture_default_str()->check(CLI::Range(0, 2000));
  app.add_option("--uploaders", load.uploaders)->capture_default_str()->check(CLI::Range(0, 200));
  app.add_option("--read-pace", load.read_pace, "seconds from one page of a visitor to the next; 0: none")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  app.add_option("--entries", load.entries, "on the board before anybody comes")
      ->capture_default_str()
      ->check(CLI::Range(1, 10000));
  app.add_option("--bound", bound, "seconds that the p99 of reading must be below")->capture_default_str();
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
  std::string command = "bench_board";
  for (int i = 1; i < argc; ++i) command += std::string(" ") + argv[i];
  const bench::ResultsFile file(out);
  const auto result = board::testing::play(load);
  const bool passed = board::testing::passes(load, result, bound);
  const json written = document(load, result, bound, passed, command);
  std::printf("%s\n", written.dump(1).c_str());
  file.finish(written);
  return passed ? 0 : 1;
}
