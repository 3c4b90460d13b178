// A process that submits, measures and appeals is killed at random moments: what it said was done is there, once; what it was at
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
  std::map<std::string, std::map<int64_t, int64_t>> lists;  // number -> id, job -> id, appeal -> run
  std::map<int64_t, int64_t>& operator[](const char* what) { return lists[what]; }
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
  REQUIRE(said["submission"].size() == kSubmissions);
  CHECK(said["appeal"].size() > 5);

  Store store(f.path, kOptions);
  Database& db = store.database();
  CHECK(db.text("PRAGMA integrity_check") == "ok");
  CHECK(db.integer("SELECT count(*) FROM bundles") == kSubmissions + 1);
  for (const auto& [number, id] : said["submission"]) CHECK(store.bundle_bytes(id) == numbered(number));
  for (const auto& [job, run] : said["run"])
    CHECK(db.integer("SELECT job FROM runs WHERE id = ?", run) == job);
  for (const auto& [appeal, run] : said["appeal"])
    CHECK(db.text("SELECT note FROM appeals WHERE id = ?", appeal) == "of run " + std::to_string(run));
  for (const auto& [appeal, run] : said["answer"])
    CHECK(db.text("SELECT text FROM answers WHERE appeal = ?", appeal) ==
          "of appeal " + std::to_string(appeal));
  CHECK(db.integer("SELECT count(*) FROM appeals") >= static_cast<int64_t>(said["appeal"].size()));
  CHECK(db.integer("SELECT count(*) FROM fingerprints") == 2 * (kSubmissions + 1));
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
