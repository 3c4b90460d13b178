// A worker on another machine, against a real server: it plays like a local one, and survives killed workers,
// a server that is away, lost leases, and a revoked token.
#include <doctest/doctest.h>

#include <signal.h>
#include <sys/wait.h>

#include <atomic>
#include <memory>
#include <support/audited_run.hpp>
#include <support/hostile.hpp>
#include <support/made_up_match.hpp>
#include <support/printed.hpp>
#include <support/refusals.hpp>
#include <thread>
#include <tinymlperf/board/store/course.hpp>
#include <tinymlperf/board/store/verify.hpp>
#include <tinymlperf/commands/work.hpp>
#include <tinytorch/tinytorch.hpp>

#include <tinymlperf/board/served_board.hpp>

using namespace tinymlperf;
using namespace tinymlperf::board;
using namespace std::chrono_literals;
using test::holds;

namespace remote_work {

// A match with all its evidence, at once.
RunDocument play_with_evidence(const RunOptions& o) {
  static std::atomic<uint64_t> seed{0};
  for (const auto& entry : o.entries) (void)load_entry(entry);
  RunDocument d = test::audited_run(judge::scenario_named(o.scenario));
  d.run_class = o.run_class, d.hardware = "cpu-mt", d.seed = ++seed;
  return d;
}

WorkOptions options(Player play = play_with_evidence) {
  WorkOptions o;
  o.hardware = "cpu-mt", o.play = std::move(play);
  return o;
}

// A worker that never ends its match; it reports its first progress.
int stuck_worker(const hostile::Arguments& args) {
  RemoteJobs jobs(args.at(0), WorkerToken::parse(args.at(1)), {.outbox = args.at(2)});
  work_once(jobs, options([](const RunOptions& run) -> RunDocument {
              run.watcher({judge::Scenario::offline, 3, 12, 4, 10, {}});
              for (;;) pause();
            }));
  return 0;
}

[[gnu::constructor]] void start_as_stuck_worker(int argc, char** argv) {
  hostile::maybe_perform(argc, argv, {{"stuck_worker", stuck_worker}});
}

// A board whose server comes and goes at one port.
struct Far : test::Board {
  Far() : token(Course(store).add_worker("bench-1")) { start(); }
  ~Far() { stop(); }

  void start() {
    ServerOptions o = testing::ServedBoard::unhurried({});
    o.port = port;
    server = std::make_unique<Server>(queries, store, o, &desk);
    port = server->bind();
    thread = std::thread([this] { server->run(); });
    while (!server->is_running()) std::this_thread::yield();
  }
  void stop() {
    if (!server) return;
    server->stop();
    thread.join();
    server.reset();
  }
  std::string address() const { return "http://127.0.0.1:" + std::to_string(port); }
  RemoteJobs worker(std::chrono::milliseconds patience = 10s) { return worker_as(token, patience); }
  RemoteJobs worker_as(const WorkerToken& as, std::chrono::milliseconds patience = 10s) {
    return {address(),
            as,
            {.outbox = outbox,
             .first_wait = 10ms,
             .longest_wait = 40ms,
             .patience = patience,
             .told = [this](const std::string&, std::chrono::milliseconds) { ++told; }}};
  }
  std::vector<std::filesystem::path> kept() const {
    std::vector<std::filesystem::path> out;
    for (const auto& file : std::filesystem::directory_iterator(outbox)) out.push_back(file.path());
    return out;
  }
  int64_t runs() { return store.database().integer("SELECT count(*) FROM runs").value(); }
  Job job(int64_t id) { return Queries(store).job(id).value(); }

  Store reading{path, with_clock({})};
  Queries queries{reading};
  WorkDesk desk{store};
  WorkerToken token;
  std::filesystem::path outbox = folder.path() / "outbox";
  int port = 0;
  std::atomic<int> told = 0;
  std::unique_ptr<Server> server;
  std::thread thread;
};

}  // namespace remote_work

using remote_work::Far;

TEST_CASE("a worker over HTTP plays what a local one plays, and takes jobs of its own hardware alone") {
  Far f;
  const int64_t mlp = f.submit("mlp");
  bundle::Manifest m = test::manifest("on-gpu");
  m.hardware = "gpu(NVIDIA H200)";
  f.store.submit(f.user, bundle::pack(m, test::entry_files("on-gpu", 7)));
  RemoteJobs jobs = f.worker();
  std::vector<std::string> hardware;
  int done = 0;
  while (const auto worked = work_once(jobs, remote_work::options())) {
    CHECK_MESSAGE(worked->failure.empty(), worked->failure);
    const RunDocument d = std::get<RunDocument>(read_run(f.store.database(), worked->run).value());
    CHECK(d.contenders[0].name == "base");
    CHECK(d.contenders[1].bundle == f.who(mlp).second);
    ++done;
  }
  CHECK(done == 2);
  CHECK(jobs.has_job("gpu(NVIDIA H200)"));
  WorkOptions gpu = remote_work::options([](const RunOptions& o) {
    RunDocument d = remote_work::play_with_evidence(o);
    d.hardware = "gpu(NVIDIA H200)";
    return d;
  });
  gpu.hardware = "gpu(NVIDIA H200)";
  for (int i = 0; i < 2; ++i) {
    const auto worked = work_once(jobs, gpu);
    REQUIRE(worked);
    CHECK_MESSAGE(worked->failure.empty(), worked->failure);
  }
  CHECK_FALSE(work_once(jobs, gpu));
  f.store.request_head_to_head(f.user, mlp, f.baseline);
  CHECK(work_once(jobs, remote_work::options())->failure.empty());
  CHECK(f.kept().empty());
  CHECK(f.told == 0);
  CHECK(verify_board(f.store).empty());
}

TEST_CASE("a match keeps its lease by heartbeats, says how far it is, and its failures are told") {
  Far f;
  f.submit("mlp");
  RemoteJobs jobs = f.worker();
  WorkOptions o = remote_work::options([&](const RunOptions& run) {
    run.watcher({judge::Scenario::offline, 3, 12, 4, 10, {}});
    CHECK(f.job(1).progress == 0.25);
    for (int i = 0; i < 4; ++i) {
      test::clock_now += 40;  // of a lease of 60 s
      const auto renewed = [&] {
        const auto until = f.store.database().integer("SELECT lease_until FROM jobs WHERE id = 1");
        return static_cast<double>(until.value()) > test::clock_now + 50;
      };
      for (int wait = 0; wait < 2000 && !renewed(); ++wait) std::this_thread::sleep_for(10ms);
      CHECK(renewed());
    }
    CHECK(f.store.queue().claim("cpu-mt")->job == 2);
    return remote_work::play_with_evidence(run);
  });
  o.lease = 0.2;
  CHECK(work_once(jobs, o)->failure.empty());
  CHECK(f.runs() == 1);
  test::clock_now += 61;

  // Numbers without evidence are the worker's fault, not the entry's.
  const auto wrong = work_once(jobs, remote_work::options(test::play_at_once));
  REQUIRE(wrong);
  CHECK(holds(wrong->failure, "without the evidence of its audits"));
  CHECK(wrong->retried);
  CHECK(f.kept().empty());
  const auto entry = work_once(jobs, remote_work::options([](const RunOptions&) -> RunDocument {
                                 throw std::invalid_argument("it holds no model");
                               }));
  CHECK_FALSE(entry->retried);
  CHECK(f.job(entry->job).message == "it holds no model");
  CHECK(f.runs() == 1);
  CHECK(verify_board(f.store).empty());
}

TEST_CASE("a worker that is killed loses its lease, and another one plays the job") {
  Far f;
  f.submit("mlp");
  const std::string address = f.address(), token = f.token.text(), outbox = f.outbox.string();
  const pid_t child = fork();
  if (child == 0) {
    execl("/proc/self/exe", "worker", "--child", "stuck_worker", address.c_str(), token.c_str(),
          outbox.c_str(), nullptr);
    _exit(9);
  }
  for (int i = 0; i < 1000 && f.job(1).progress == 0; ++i) std::this_thread::sleep_for(10ms);
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFSIGNALED(status));
  CHECK(f.job(1).state == JobState::running);
  CHECK(f.job(1).progress == 0.25);
  RemoteJobs jobs = f.worker_as(Course(f.store).add_worker("bench-2"));
  CHECK(work_once(jobs, remote_work::options())->job == 2);
  CHECK_FALSE(work_once(jobs, remote_work::options()));
  test::clock_now += 61;
  const auto again = work_once(jobs, remote_work::options());
  REQUIRE(again);
  CHECK(again->job == 1);
  CHECK(again->failure.empty());
  CHECK(f.runs() == 2);
}

TEST_CASE("a server that is away is asked again, and the result of a match waits on the disk") {
  Far f;
  f.submit("mlp");
  RemoteJobs jobs = f.worker();
  std::thread back;
  const auto worked =
      work_once(jobs, remote_work::options([&](const RunOptions& run) {
                  RunDocument d = remote_work::play_with_evidence(run);
                  f.stop();
                  run.watcher({judge::Scenario::offline, 3, 12, 4, 10, {}});  // nobody hears it
                  back = std::thread([&] {
                    while (f.kept().empty() || f.told == 0) std::this_thread::sleep_for(5ms);
                    for (bool started = false; !started;) try {
                        f.start(), started = true;
                      } catch (const std::exception&) {
                        std::this_thread::sleep_for(50ms);  // another program has the port for now
                      }
                  });
                  return d;
                }));
  back.join();
  REQUIRE(worked);
  CHECK_MESSAGE(worked->failure.empty(), worked->failure);
  CHECK(f.told > 0);
  CHECK(f.kept().empty());
  CHECK(f.runs() == 1);

  // The server stays away for longer than the worker waits.
  RemoteJobs hasty = f.worker(100ms);
  std::string why;
  try {
    work_once(hasty, remote_work::options([&](const RunOptions& run) {
                RunDocument d = remote_work::play_with_evidence(run);
                f.stop();
                return d;
              }));
  } catch (const BoardUnavailable& e) {
    why = e.what();
  }
  REQUIRE(f.kept().size() == 1);
  CHECK(holds(why, "cannot connect"));
  CHECK(holds(why, f.kept()[0].string()));
  const std::string text = tinymlperf::detail::read_limited(f.kept()[0], int64_t{1} << 26);
  CHECK_FALSE(holds(text, f.token.key));
  CHECK_THROWS_AS(hasty.deliver_kept(), BoardUnavailable);
  f.start();
  tinytorch::write_file((f.outbox / "torn.result.json").string(), std::string_view("{\"board\""));
  RemoteJobs later = f.worker();
  const auto delivered = later.deliver_kept();
  REQUIRE(delivered.size() == 1);
  CHECK(delivered[0].refusal.empty());
  CHECK(f.runs() == 2);
  CHECK(f.job(delivered[0].job).state == JobState::done);
  // The answer was lost: the same result comes once more, and is the same run.
  tinytorch::write_file((f.outbox / "again.result.json").string(), std::string_view(text));
  CHECK(later.deliver_kept().at(0).run == delivered[0].run);
  CHECK(f.runs() == 2);
  CHECK(f.kept().size() == 1);  // the torn one
  CHECK(verify_board(f.store).empty());
}

TEST_CASE("a kept result whose job somebody else has played is dropped with the reason") {
  Far f;
  f.submit("mlp");
  RemoteJobs hasty = f.worker(50ms);
  CHECK_THROWS_AS(work_once(hasty, remote_work::options([&](const RunOptions& run) {
                              RunDocument d = remote_work::play_with_evidence(run);
                              f.stop();
                              return d;
                            })),
                  BoardUnavailable);
  test::clock_now += 61;
  CHECK(work_once(f.store, remote_work::options())->job == 1);
  f.start();
  RemoteJobs later = f.worker();
  const auto dropped = later.deliver_kept();
  REQUIRE(dropped.size() == 1);
  CHECK(holds(dropped[0].refusal, "not this worker's any more"));
  CHECK(f.kept().empty());
  CHECK(f.runs() == 1);
}

TEST_CASE("a worker whose token is revoked stops, and its job is not to blame") {
  Far f;
  f.submit("mlp");
  RemoteJobs jobs = f.worker();
  CHECK_THROWS_WITH_AS(work_once(jobs, remote_work::options([&](const RunOptions& run) {
                                   Course(f.store).revoke_worker("bench-1");
                                   run.watcher({judge::Scenario::offline, 3, 12, 4, 10, {}});
                                   return remote_work::play_with_evidence(run);
                                 })),
                       doctest::Contains("does not let this worker in"), BoardUnavailable);
  CHECK(f.job(1).state == JobState::running);
  CHECK_THROWS_AS(jobs.claim("cpu-mt"), BoardUnavailable);
  test::clock_now += 61;
  CHECK(work_once(f.store, remote_work::options())->job == 1);
}

TEST_CASE("source is compiled by a worker over HTTP before its match") {
  Far f;
  const auto plugin = [](const std::string& name) {
    bundle::Manifest m = test::manifest(name);
    m.tier = "T2", m.scenarios = {"offline"};
    return bundle::pack(m, {{"plugin.cpp", "int main() { return " + std::to_string(name.size()) + "; }\n"}});
  };
  f.store.submit_baseline(f.user, plugin("one"));
  const Accepted bad = f.store.submit(f.user, plugin("three"));
  RemoteJobs jobs = f.worker();
  WorkOptions o = remote_work::options();
  std::string seen;
  o.compile = [&](const bundle::Bundle& b) {
    seen += b.manifest.name;
    throw Refusal("C2", "compile", "source that compiles", "plugin.cpp does not compile");
  };
  CHECK_FALSE(work_once(jobs, o));
  CHECK(seen == "three");
  CHECK(f.job(bad.job).state == JobState::failed);
  CHECK(holds(f.job(bad.job).message, "does not compile"));
}

TEST_CASE("the command takes a file or an address, and a worker's token") {
  Far f;
  const auto work = [&](WorkCommandOptions o) {
    o.run_class = "smoke", o.hardware = "gpu(none)", o.outbox = f.outbox, o.lock = f.folder.path() / "lock";
    return test::print([&](auto* out) { return run_work(o, out); });
  };
  CHECK(work({.board = f.path}).holds("nothing waits for gpu(none)"));
  CHECK(work({.board = {}, .server = f.address(), .token = {f.token.text(), {}}})
            .holds("0 runs, 0 failures; nothing waits for gpu(none)"));
  CHECK(work({.board = {}}).status == kSetUpProblem);
  CHECK(work({.board = f.path, .server = f.address()}).status == kSetUpProblem);
  CHECK(work({.board = {}, .server = f.address()}).status == kSetUpProblem);
  CHECK(work({.board = {}, .server = f.address(), .token = {f.Board::token, {}}}).status == kSetUpProblem);
  CHECK(work({.board = {}, .server = "nowhere", .token = {f.token.text(), {}}}).status == kSetUpProblem);
  WorkerToken stranger{std::string(64, 'a'), std::string(64, 'b')};
  CHECK(work({.board = {}, .server = f.address(), .token = {stranger.text(), {}}}).status == kSetUpProblem);
}
