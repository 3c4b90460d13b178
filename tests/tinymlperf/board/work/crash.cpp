// A process that submits, measures and appeals is killed at random moments. Everything that it reported as
// done is stored once, and interrupted work is repeated.
#include <doctest/doctest.h>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <support/few.hpp>

#include <cstdio>
#include <filesystem>
#include <map>
#include <support/hostile.hpp>
#include <support/made_up_match.hpp>
#include <support/sanitized.hpp>
#include <thread>
#include <tinymlperf/board/web/remote.hpp>
#include <tinymlperf/board/work/worker.hpp>
#include <tinymlperf/commands/serve.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinymlperf;
using namespace tinymlperf::board;

namespace {

// A function, because children act before what follows them in this program is initialized.
int64_t submissions() { return test::few_asked() ? 20 : 200; }
constexpr StoreOptions kOptions{.quota = 100000, .queue = {.lease = 0.02, .attempts = 100000}};

std::string numbered(int64_t number) {
  static const auto files = test::entry_files("entry");
  auto m = test::manifest("entry");
  m.notes = "number " + std::to_string(number);
  return bundle::pack(m, files);
}

void measure_one(Store& store, FILE* out) {
  const auto claim = store.queue().claim("cpu-mt");
  if (!claim) return;
  const auto who = [&](int64_t id) {
    return std::pair(store.manifest(id).value().name, bundle::sha256(store.bundle_bytes(id).value()));
  };
  RunDocument d =
      test::run_document(who(claim->against), who(claim->submission),
                         {.scenario = claim->scenario, .seed = static_cast<uint64_t>(claim->job)});
  const bool refused = claim->job % 3 == 0;
  if (refused) d.contenders[1].out = "it said nothing";
  const int64_t run = store.queue().finish(*claim, d);
  const auto say = [&](const char* what, int64_t key, int64_t id) {
    std::fprintf(out, "%s %lld %lld\n", what, static_cast<long long>(key), static_cast<long long>(id));
    std::fflush(out);
  };
  say("run", claim->job, run);
  if (!refused) return;
  const int64_t appeal = store.appeal(1, claim->submission, run, "of run " + std::to_string(run));
  say("appeal", appeal, run);
  store.answer_appeal(appeal, "of appeal " + std::to_string(appeal));
  say("answer", appeal, run);
}

// Submits from a number on, measures in between and afterwards until half of the jobs are done, and says what
// is done.
int submit_and_measure(const hostile::Arguments& args) {
  Store store(args.at(0), kOptions);
  const auto measure = [&] {
    try {
      measure_one(store, stdout);
    } catch (const LeaseLost&) {  // this process was slower than its lease, and says so
    }
  };
  for (int64_t n = std::stoll(args.at(1)); n < submissions(); ++n) {
    const Accepted a = store.submit(1, numbered(n));
    std::printf("submission %lld %lld\n", static_cast<long long>(n), static_cast<long long>(a.submission));
    std::fflush(stdout);
    measure();
  }
  while (store.database().integer("SELECT count(*) FROM jobs WHERE state = 'done'") < submissions())
    measure();
  return 0;
}

// `serve` as a process of its own, and a worker that takes what there is.
int serve_board(const hostile::Arguments& args) {
  ServeCommandOptions o{.board = args.at(0), .server = {}};
  o.server.port = std::stoi(args.at(1)), o.server.asks_per_minute = 1'000'000;
  return run_serve(o);
}
int work_on(const hostile::Arguments& args) {
  Store store(args.at(0), kOptions);
  WorkOptions o;
  o.hardware = "cpu-mt", o.lease = kOptions.queue.lease, o.play = test::play_at_once;
  for (;;)
    if (!work_once(store, o)) usleep(2000);
}

[[gnu::constructor]] void start_as_child(int argc, char** argv) {
  hostile::maybe_perform(argc, argv,
                         {{"submit", submit_and_measure}, {"serve", serve_board}, {"work", work_on}});
}

struct Said {
  std::map<std::string, std::map<int64_t, int64_t>> lists;  // number -> id, job -> id, appeal -> run
  std::map<int64_t, int64_t>& operator[](const char* what) { return lists[what]; }
  size_t count() const {
    size_t n = 0;
    for (const auto& [what, list] : lists) n += list.size();
    return n;
  }
};

// Starts a child, lets it live that long, kills it, and reads what it had said. True when it came to its end.
bool live_and_die(const std::string& board, Said& said, useconds_t lifetime) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const std::string from = std::to_string(said["submission"].size());
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 1);
    close(ends[0]), close(ends[1]);
    execl("/proc/self/exe", "crash", "--child", "submit", board.c_str(), from.c_str(), nullptr);
    _exit(9);
  }
  close(ends[1]);
  usleep(lifetime);
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  FILE* lines = fdopen(ends[0], "r");
  char what[16], line[128];
  long long key = 0, id = 0;
  while (std::fgets(line, sizeof line, lines)) {
    if (std::sscanf(line, "%15s %lld %lld", what, &key, &id) != 3) continue;
    auto& list = said[what];
    CHECK_MESSAGE(!list.contains(key), what << " " << key << " was said to be done twice");
    list[key] = id;
  }
  std::fclose(lines);
  const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  const bool ended = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  CHECK_MESSAGE((killed || ended), "status " << status);
  return ended;
}

// Programs keep their temporary files in `folder`, as long as this object lives, also if the test fails.
struct TemporaryFilesIn {
  explicit TemporaryFilesIn(const std::filesystem::path& folder) { setenv("TMPDIR", folder.c_str(), 1); }
  ~TemporaryFilesIn() { unsetenv("TMPDIR"); }
  TemporaryFilesIn(const TemporaryFilesIn&) = delete;
  TemporaryFilesIn& operator=(const TemporaryFilesIn&) = delete;
};

}  // namespace

TEST_CASE("submissions survive a process that is killed again and again" * doctest::skip(test::kSanitized)) {
  const test::BoardFolder f;
  const TemporaryFilesIn here(f.folder.path());
  {
    Store store(f.path, kOptions);
    store.submit_baseline(store.user_of(store.add_user("Ada")).value(), test::bundle_bytes("base"));
  }
  tinytorch::Generator random(4);
  Said said;
  int deaths = 0;
  // On a busy machine a life may be too short to do anything in: then the next one is twice as long.
  for (useconds_t patience = 1;;) {
    const size_t before = said.count();
    if (live_and_die(f.path.string(), said, patience * static_cast<useconds_t>(20000 + random.below(80000))))
      break;
    patience = said.count() == before ? 2 * patience : 1;
    ++deaths;
    REQUIRE(deaths < 5000);
  }
  CHECK(deaths > submissions() / 20);
  REQUIRE(static_cast<int64_t>(said["submission"].size()) == submissions());
  CHECK(static_cast<int64_t>(said["appeal"].size()) > submissions() / 40);

  Store store(f.path, kOptions);
  Database& db = store.database();
  CHECK(db.text("PRAGMA integrity_check") == "ok");
  CHECK(db.integer("SELECT count(*) FROM bundles") == submissions() + 1);
  for (const auto& [number, id] : said["submission"]) CHECK(store.bundle_bytes(id) == numbered(number));
  for (const auto& [job, run] : said["run"])
    CHECK(db.integer("SELECT job FROM runs WHERE id = ?", run) == job);
  for (const auto& [appeal, run] : said["appeal"])
    CHECK(db.text("SELECT note FROM appeals WHERE id = ?", appeal) == "of run " + std::to_string(run));
  for (const auto& [appeal, run] : said["answer"])
    CHECK(db.text("SELECT text FROM answers WHERE appeal = ?", appeal) ==
          "of appeal " + std::to_string(appeal));
  CHECK(db.integer("SELECT count(*) FROM appeals") >= static_cast<int64_t>(said["appeal"].size()));
  CHECK(db.integer("SELECT count(*) FROM fingerprints") == 2 * (submissions() + 1));
  CHECK(db.integer("SELECT count(*) FROM jobs") == 2 * submissions());
  CHECK(db.integer("SELECT count(*) FROM jobs WHERE state = 'done'") ==
        db.integer("SELECT count(*) FROM runs"));

  // The queue goes on where it was.
  usleep(30000);
  FILE* nowhere = std::fopen("/dev/null", "w");
  while (db.integer("SELECT count(*) FROM jobs WHERE state <> 'done'") != 0) measure_one(store, nowhere);
  std::fclose(nowhere);
  CHECK(db.integer("SELECT count(*) FROM runs") == 2 * submissions());
  CHECK(db.integer("SELECT count(DISTINCT job) FROM runs") == 2 * submissions());
  CHECK(db.integer("SELECT count(*) FROM turns") == 2 * submissions() * 2 * 24);
  CHECK(db.integer("SELECT count(*) FROM turns WHERE length(latencies) = 160") == 2 * submissions() * 2 * 24);
}

namespace {

// This program as a child, which ends when we do. Its output is ours to read.
class Child {
 public:
  Child(const char* what, const std::string& board, const std::string& more) {
    int ends[2];
    REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
    process_ = fork();
    if (process_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      dup2(ends[1], 1);
      execl("/proc/self/exe", "crash", "--child", what, board.c_str(), more.c_str(), nullptr);
      _exit(9);
    }
    close(ends[1]);
    out_ = fdopen(ends[0], "r");
  }
  ~Child() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
    std::fclose(out_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // The port that a server says it has; 0: it ended before.
  int port() {
    char line[512] = "";
    int port = 0;
    if (!std::fgets(line, sizeof line, out_)) return 0;
    const char* address = std::strstr(line, "http://127.0.0.1:");
    if (address) std::sscanf(address, "http://127.0.0.1:%d/", &port);
    return port;
  }

 private:
  pid_t process_ = 0;
  FILE* out_ = nullptr;
};

// Sends bundles one after the other, each until the board has said that it has it.
void send_all(const std::string& address, const std::string& token, int64_t count,
              std::map<int64_t, int64_t>& submissions, std::atomic<bool>& done) {
  for (int64_t n = 0; n < count;) {
    try {
      RemoteBoard board(address);
      for (; n < count; ++n) submissions[n] = board.submit(token, numbered(n)).submission;
    } catch (const RefusedByBoard& refused) {
      MESSAGE(refused.what());
      break;
    } catch (const std::runtime_error&) {  // it was killed meanwhile
      usleep(2000);
    }
  }
  done = true;
}

}  // namespace

TEST_CASE("40 bundles sent over HTTP survive that server and worker are killed again and again" *
          doctest::skip(test::kSanitized) * test::takes_minutes()) {
  constexpr int64_t kSent = 40;
  const test::BoardFolder f;
  const TemporaryFilesIn here(f.folder.path());
  Store store(f.path, kOptions);
  const std::string token = store.add_user("Ada");
  store.submit_baseline(store.user_of(token).value(), test::bundle_bytes("base"));
  Database& db = store.database();
  const auto done_jobs = [&] { return *db.integer("SELECT count(*) FROM jobs WHERE state = 'done'"); };

  tinytorch::Generator random(5);
  std::map<int64_t, int64_t> submissions;
  std::atomic<bool> all_sent = false;
  auto server = std::make_unique<Child>("serve", f.path.string(), "0");
  const int port = server->port();
  REQUIRE(port > 0);
  const std::string address = "http://127.0.0.1:" + std::to_string(port);
  std::thread sender([&] { send_all(address, token, kSent, submissions, all_sent); });
  auto worker = std::make_unique<Child>("work", f.path.string(), "");
  int server_deaths = 0, worker_deaths = 0;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while ((!all_sent || done_jobs() < kSent) && std::chrono::steady_clock::now() < until) {
    usleep(static_cast<useconds_t>(20000 + random.below(180000)));
    if (random.below(2) == 0) {
      worker.reset();
      worker = std::make_unique<Child>("work", f.path.string(), ""), ++worker_deaths;
    } else {
      server.reset();
      server = std::make_unique<Child>("serve", f.path.string(), std::to_string(port)), ++server_deaths;
      CHECK(server->port() == port);
    }
  }
  // Nobody is killed any more: what was not sent is sent, and the queue drains.
  sender.join();
  REQUIRE(submissions.size() == kSent);
  RemoteBoard board(address);
  for (const auto& [number, id] : submissions)
    for (bool over = false; !over; usleep(5000)) {
      const auto jobs = board.submission(id).value().jobs;
      over = std::ranges::all_of(jobs, ended);
      REQUIRE(std::chrono::steady_clock::now() < until + std::chrono::seconds(40));
    }
  worker.reset(), server.reset();
  CHECK(server_deaths + worker_deaths > 3);
  MESSAGE("killed: the server " << server_deaths << " times, the worker " << worker_deaths << " times");

  CHECK(db.text("PRAGMA integrity_check") == "ok");
  CHECK(db.integer("SELECT count(*) FROM bundles") == kSent + 1);
  for (const auto& [number, id] : submissions) CHECK(store.bundle_bytes(id) == numbered(number));
  CHECK(db.integer("SELECT count(*) FROM jobs") == 2 * kSent);
  CHECK(done_jobs() == 2 * kSent);
  CHECK(db.integer("SELECT count(*) FROM runs") == 2 * kSent);
  CHECK(db.integer("SELECT count(DISTINCT job) FROM runs") == 2 * kSent);
  CHECK(db.integer("SELECT count(*) FROM turns WHERE length(latencies) = 160") == 2 * kSent * 2 * 24);
}
