// A private board and texts that quote sources: who reads the reason of a failure, on every surface.
#include <doctest/doctest.h>

#include <fstream>
#include <sstream>
#include <support/printed.hpp>
#include <support/refusals.hpp>
#include <tinymlperf/board/pages/export.hpp>
#include <tinymlperf/board/store/course.hpp>
#include <tinymlperf/commands/watch.hpp>
#include <tinytorch/tinytorch.hpp>

#include <tinymlperf/board/served_board.hpp>

using namespace tinymlperf;
using namespace tinymlperf::board;
using test::holds;

namespace sealing {

constexpr const char* kSecret = "int trick = 42;";
const std::string kMessage = std::string(
                                 "C2: compile: expected source that compiles, found plugin.cpp does "
                                 "not compile: it ended with 1\nplugin.cpp:7: error\n  7 | ") +
                             kSecret;

// A private board where one submission of Ada failed to build, one was thrown out, one waits again, and one
// of Bob's was to meet Ada's.
struct Sealed : testing::ServedBoard {
  std::string bobs = store.add_user("Bob"), graces = store.add_user("Grace", {}, true);
  int64_t bob = store.user_of(bobs).value(), grace = store.user_of(graces).value();
  int64_t broken = submit("broken", 2), out = submit("out", 3), again = submit("again", 4);
  int64_t other = store.submit(bob, test::bundle_bytes("other", 5)).submission;
  int64_t direct = store.request_head_to_head(bob, other, broken);

  explicit Sealed(const ServerOptions& options = {}) : ServedBoard(options) {
    Queue& queue = store.queue();
    queue.note_compiled(broken, kMessage);
    std::vector<Claim> claims;
    while (const auto claim = queue.claim("cpu-mt")) claims.push_back(*claim);
    for (const Claim& claim : claims) {
      RunDocument d = result(claim);
      if (claim.submission == out) {
        d.contenders[1].out = "plugin.cpp does not compile: it ended with 1\n  7 | " + std::string(kSecret);
        d.contenders[1].turns.clear();
      }
      if (claim.job == direct)
        queue.fail(claim, kMessage, Fault::entry);
      else if (claim.job == job_of(again))
        CHECK(queue.fail(claim, "no disk for " + std::string(kSecret), Fault::machine));
      else
        queue.finish(claim, d);
    }
    Course(store).set_private(true);
  }

  int64_t job_of(int64_t submission) {
    return store.database().integer("SELECT min(id) FROM jobs WHERE bundle = ?", submission).value();
  }
  // Everything that a visitor finds, as pages and as JSON.
  std::string everything(const std::string& headers = "") {
    std::string text;
    std::vector<std::string> targets{"/", "/queue", "/tables/dig/open/cpu-mt"};
    for (const int64_t id : {broken, out, again, other})
      targets.push_back("/submissions/" + std::to_string(id));
    const int64_t jobs = store.database().integer("SELECT max(id) FROM jobs").value();
    for (int64_t id = 1; id <= jobs; ++id) targets.push_back("/jobs/" + std::to_string(id));
    for (const std::string& target : targets)
      for (const char* end : {"", ".json"}) {
        const auto answer = server.get((target == "/" && *end ? "/index" : target) + end, headers);
        CHECK(answer.status == 200);
        text += answer.body;
      }
    for (const int64_t id : {job_of(broken), direct})
      text += server.get("/jobs/" + std::to_string(id) + "/events").body;
    return text;
  }
  std::string exported() {
    const TemporaryFolder to;
    export_site(queries, to.path());
    std::ostringstream text;
    for (const auto& file : std::filesystem::directory_iterator(to.path()))
      text << std::ifstream(file.path()).rdbuf();
    return text.str();
  }
  std::string as(const std::string& who, const std::string& target) {
    const auto answer = server.get(target, "Authorization: Bearer " + who + "\r\n");
    CHECK(answer.status == 200);
    CHECK(answer.header("cache-control") == "no-store");
    CHECK(answer.header("etag").empty());
    return answer.body;
  }
};

}  // namespace sealing

TEST_CASE("no surface of a private board prints what quotes a source, and each says what failed") {
  sealing::Sealed s;
  CHECK_FALSE(holds(s.everything(), sealing::kSecret));
  CHECK_FALSE(holds(s.exported(), sealing::kSecret));
  Queries everybody(s.store);
  CHECK(everybody.job(s.job_of(s.broken))->message.find("its build failed (fault: entry); until sources") ==
        0);
  CHECK(everybody.job(s.direct)->message.find("its build failed (fault: entry)") == 0);
  const auto waiting = s.job_of(s.again);
  CHECK(everybody.job(waiting)->state == JobState::queued);
  CHECK(everybody.job(waiting)->message.find("it waits again: it failed (fault: machine)") == 0);
  CHECK(everybody.submission(s.out)->runs.at(0).out.find("its build failed (fault: entry)") == 0);
  bool told = false;
  const Table table = everybody.table({"dig", "open", "cpu-mt"}).value();
  for (const auto& row : table.rows)
    if (row.submission == s.out) told = holds(row.not_ranked, "out: its build failed (fault: entry)");
  CHECK(told);

  // After the deadline, and on a public board, everybody reads everything.
  Course(s.store).set_deadline(s.store.queue().now());
  CHECK_FALSE(holds(s.everything(), sealing::kSecret));
  test::clock_now += 1;
  CHECK(holds(s.everything(), sealing::kSecret));
  CHECK(holds(s.exported(), sealing::kSecret));
  Course(s.store).set_deadline("");
  CHECK_FALSE(holds(s.exported(), sealing::kSecret));
  Course(s.store).set_private(false);
  CHECK(everybody.job(s.job_of(s.broken))->message == sealing::kMessage);
}

TEST_CASE("the owner, an instructor and whoever has the file read the reason; nobody else does") {
  sealing::Sealed s;
  const auto job = "/jobs/" + std::to_string(s.job_of(s.broken));
  const auto direct = "/jobs/" + std::to_string(s.direct);
  const auto run = "/submissions/" + std::to_string(s.out);
  for (const std::string& who : {s.token, s.graces})
    for (const std::string& end : {std::string(), std::string(".json")})
      for (const std::string& target : {job, run}) CHECK(holds(s.as(who, target + end), sealing::kSecret));
  for (const std::string& target : {job, run, direct})
    CHECK_FALSE(holds(s.as(s.bobs, target + ".json"), sealing::kSecret));
  // A match of two users' entries may quote either of them.
  CHECK_FALSE(holds(s.as(s.token, direct), sealing::kSecret));
  CHECK(holds(s.as(s.graces, direct), sealing::kSecret));
  CHECK(s.server.get(job, "Authorization: Bearer of-nobody\r\n").status == 401);
  CHECK_FALSE(holds(s.server.get(job).body, sealing::kSecret));  // what the owner read was not kept

  const auto watch = [&](const std::string& where, const std::string& token) {
    return test::print([&](auto* to) {
      return run_watch({where, s.broken, std::chrono::milliseconds(5), {token, {}}}, to);
    });
  };
  CHECK(watch(s.address(), s.token).holds(sealing::kSecret));
  CHECK(watch(s.address(), s.graces).holds(sealing::kSecret));
  CHECK_FALSE(watch(s.address(), s.bobs).holds(sealing::kSecret));
  CHECK_FALSE(watch(s.address(), "").holds(sealing::kSecret));
  CHECK(watch(s.path, "").holds(sealing::kSecret));
  for (const bool has_file : {true, false}) {
    const Table table = Queries(s.store, {.has_file = has_file}).table({"dig", "open", "cpu-mt"}).value();
    std::string reasons;
    for (const auto& row : table.rows) reasons += row.not_ranked;
    CHECK(holds(reasons, sealing::kSecret) == has_file);
  }
}
