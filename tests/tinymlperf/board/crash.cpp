// A process that submits and measures is killed at random moments: what it said was done is there, once; what it was at
// is taken up again.
#include <doctest/doctest.h>

#include <sys/wait.h>

#include <cstdio>
#include <map>
#include <support/board.hpp>
#include <support/hostile.hpp>
#include <support/sanitized.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinymlperf;
using namespace tinymlperf::board;

namespace {

constexpr int64_t kSubmissions = 200;
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
  const int64_t run = store.queue().finish(
      *claim, test::run_document(who(claim->against), who(claim->submission),
                                 {.scenario = claim->scenario, .seed = static_cast<uint64_t>(claim->job)}));
  std::fprintf(out, "run %lld %lld\n", static_cast<long long>(claim->job), static_cast<long long>(run));
  std::fflush(out);
}

// Submits from a number on, measures in between, and says what is done.
int submit_and_measure(const hostile::Arguments& args) {
  Store store(args.at(0), kOptions);
  for (int64_t n = std::stoll(args.at(1)); n < kSubmissions; ++n) {
    const Accepted a = store.submit(1, numbered(n));
    std::printf("submission %lld %lld\n", static_cast<long long>(n), static_cast<long long>(a.submission));
    std::fflush(stdout);
    try {
      measure_one(store, stdout);
    } catch (const LeaseLost&) {  // this process was slower than its lease, and says so
    }
  }
  return 0;
}

[[gnu::constructor]] void start_as_child(int argc, char** argv) {
  hostile::maybe_perform(argc, argv, {{"submit", submit_and_measure}});
}

struct Said {
  std::map<int64_t, int64_t> submissions, runs;  // number -> id, job -> id
};

// Starts a child, lets it live that long, kills it, and reads what it had said. True when it came to its end.
bool live_and_die(const std::string& board, Said& said, useconds_t lifetime) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const std::string from = std::to_string(said.submissions.size());
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
    auto& list = std::string(what) == "run" ? said.runs : said.submissions;
    CHECK_MESSAGE(!list.contains(key), what << " " << key << " was said to be done twice");
    list[key] = id;
  }
  std::fclose(lines);
  const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  const bool ended = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  CHECK_MESSAGE((killed || ended), "status " << status);
  return ended;
}

}  // namespace

TEST_CASE("200 submissions survive a process that is killed again and again" *
          doctest::skip(test::kSanitized)) {
  const test::BoardFolder f;
  setenv("TMPDIR", f.folder.path().c_str(), 1);
  {
    Store store(f.path, kOptions);
    store.submit_baseline(store.user_of(store.add_user("Ada")).value(), test::bundle_bytes("base"));
  }
  tinytorch::Generator random(4);
  Said said;
  int deaths = 0;
  while (!live_and_die(f.path.string(), said, static_cast<useconds_t>(20000 + random.below(80000)))) {
    ++deaths;
    REQUIRE(deaths < 5000);
  }
  unsetenv("TMPDIR");
  CHECK(deaths > 10);
  REQUIRE(said.submissions.size() == kSubmissions);

  Store store(f.path, kOptions);
  Database& db = store.database();
  CHECK(db.text("PRAGMA integrity_check") == "ok");
  CHECK(db.integer("SELECT count(*) FROM bundles") == kSubmissions + 1);
  for (const auto& [number, id] : said.submissions) CHECK(store.bundle_bytes(id) == numbered(number));
  for (const auto& [job, run] : said.runs) CHECK(db.integer("SELECT job FROM runs WHERE id = ?", run) == job);
  CHECK(db.integer("SELECT count(*) FROM jobs") == 2 * kSubmissions);
  CHECK(db.integer("SELECT count(*) FROM jobs WHERE state = 'done'") ==
        db.integer("SELECT count(*) FROM runs"));

  // The queue goes on where it was.
  usleep(30000);
  FILE* nowhere = std::fopen("/dev/null", "w");
  while (db.integer("SELECT count(*) FROM jobs WHERE state <> 'done'") != 0) measure_one(store, nowhere);
  std::fclose(nowhere);
  CHECK(db.integer("SELECT count(*) FROM runs") == 2 * kSubmissions);
  CHECK(db.integer("SELECT count(DISTINCT job) FROM runs") == 2 * kSubmissions);
  CHECK(db.integer("SELECT count(*) FROM turns") == 2 * kSubmissions * 2 * 24);
  CHECK(db.integer("SELECT count(*) FROM turns WHERE length(latencies) = 160") == 2 * kSubmissions * 2 * 24);
}
