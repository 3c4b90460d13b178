// Workers over HTTP from the board's side: tokens, signatures, leases, sizes, evidence, and what is refused.
#include <doctest/doctest.h>

#include <support/audited_run.hpp>
#include <support/refusals.hpp>
#include <tinymlperf/board/store/course.hpp>
#include <tinymlperf/board/store/verify.hpp>
#include <tinymlperf/board/web/work_messages.hpp>
#include <tinytorch/tinytorch.hpp>

#include <tinymlperf/board/served_board.hpp>

using namespace tinymlperf;
using namespace tinymlperf::board;
using test::holds;

namespace desk {

struct Served : testing::ServedBoard {
  explicit Served(const StoreOptions& rules = {}, const ServerOptions& options = {})
      : ServedBoard(options, rules) {
    token = Course(store).add_worker("bench-1");
  }
  testing::Response ask(const std::string& what, const Json& body) {
    return send(what, canonical_text(body));
  }
  testing::Response send(const std::string& what, const std::string& body) {
    return send(what, body, signature_of(token.key, "/worker/" + what, body));
  }
  testing::Response send(const std::string& what, const std::string& body, const std::string& signature) {
    return server.post(
        "/worker/" + what, "application/json", body,
        "Authorization: Bearer " + token.identity + "\r\nX-Work-Signature: " + signature + "\r\n");
  }
  Assignment claim(const std::string& hardware = "cpu-mt") {
    const auto answer = ask("claim", {{"hardware", hardware}});
    CHECK(answer.status == 200);
    return assignment_from_json(Json::parse(answer.body).at("job"));
  }
  // A run of this job with all its evidence.
  RunDocument run(const Assignment& a) {
    RunDocument d = test::audited_run(judge::scenario_named(a.claim.scenario));
    d.hardware = a.claim.hardware, d.run_class = "ranked", d.seed = static_cast<uint64_t>(a.claim.job);
    d.contenders[0].name = "base", d.contenders[0].bundle = a.against;
    d.contenders[1].name = "mlp", d.contenders[1].bundle = a.submission;
    return d;
  }
  static Json result(const Assignment& a, const RunDocument& d) {
    return {{"job", a.claim.job}, {"owner", a.claim.owner}, {"run", judge::to_json(d)}};
  }
  int64_t runs() { return store.database().integer("SELECT count(*) FROM runs").value(); }
  JobState state(int64_t job) { return Queries(store).job(job)->state; }

  WorkerToken token;
};

std::string reason(const testing::Response& r) {
  return Json::parse(r.body).at("error").at("reason").get<std::string>();
}

}  // namespace desk

TEST_CASE("HMAC-SHA256 has the codes of RFC 4231") {
  CHECK(bundle::hmac_sha256(std::string(20, '\x0b'), "Hi There") ==
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  CHECK(bundle::hmac_sha256("Jefe", "what do ya want for nothing?") ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK(bundle::hmac_sha256(std::string(131, '\xaa'),
                            "Test Using Larger Than Block-Size Key - Hash Key First") ==
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  CHECK(bundle::same_secret("abc", "abc"));
  CHECK_FALSE(bundle::same_secret("abc", "abd"));
  CHECK_FALSE(bundle::same_secret("abc", "abcd"));
}

TEST_CASE("a worker's token is shown once, is revoked at once, and is that of nobody else") {
  desk::Served s;
  Course course(s.store);
  CHECK(WorkerToken::parse(s.token.text()).key == s.token.key);
  for (const std::string& wrong :
       {std::string(), s.token.identity, s.token.identity + ".", "." + s.token.key, s.token.text() + "0"})
    CHECK_THROWS_AS(WorkerToken::parse(wrong), std::invalid_argument);
  CHECK_THROWS_AS(course.add_worker("bench-1"), Refusal);
  CHECK_THROWS_AS(course.add_worker(""), Refusal);
  CHECK_THROWS_AS(course.revoke_worker("nobody"), Refusal);
  CHECK_FALSE(s.store.user_of(s.token.identity));  // a worker is no user
  CHECK(s.ask("waiting", {{"hardware", "cpu-mt"}}).status == 200);
  course.revoke_worker("bench-1");
  CHECK(s.ask("waiting", {{"hardware", "cpu-mt"}}).status == 401);
  CHECK_THROWS_AS(course.revoke_worker("bench-1"), Refusal);
  const WorkerToken old = s.token;
  s.token = course.add_worker("bench-1");
  CHECK(s.ask("waiting", {{"hardware", "cpu-mt"}}).status == 200);
  s.token.key = old.key;
  CHECK(s.ask("waiting", {{"hardware", "cpu-mt"}}).status == 403);
  s.token = {s.token.identity, std::string()};
  CHECK(s.ask("waiting", {{"hardware", "cpu-mt"}}).status == 403);
  CHECK(Workers(s.store.database()).all().size() == 1);
  CHECK(verify_board(s.store).empty());
}

TEST_CASE("a job goes over HTTP: claim, bundles, report, result with its evidence") {
  desk::Served s;
  const int64_t mlp = s.submit("mlp");
  CHECK(Json::parse(s.ask("claim", {{"hardware", "gpu(NVIDIA H200)"}}).body).at("job").is_null());
  const Assignment a = s.claim();
  CHECK(a.claim.submission == mlp);
  CHECK(a.opponent == "base");
  CHECK(a.base == a.against);
  CHECK(a.lease == QueueRules{}.lease);
  const std::string path = "/worker/bundles/" + a.submission;
  const auto fetch = [&](const std::string& where, const std::string& signature) {
    return s.server.get(
        where, "Authorization: Bearer " + s.token.identity + "\r\nX-Work-Signature: " + signature + "\r\n");
  };
  CHECK(fetch(path, signature_of(s.token.key, path, "")).body == test::bundle_bytes("mlp"));
  CHECK(fetch(path, signature_of(s.token.key, "/worker/bundles/" + a.against, "")).status == 403);
  CHECK(s.server.get(path).status == 401);
  const std::string none = "/worker/bundles/" + std::string(64, '0');
  CHECK(fetch(none, signature_of(s.token.key, none, "")).status == 422);
  const Json report{{"job", a.claim.job}, {"owner", a.claim.owner}, {"progress", 0.5}, {"message", "half"}};
  CHECK(s.ask("report", report).status == 200);
  CHECK(Queries(s.store).job(a.claim.job)->message == "half");
  const auto done = s.ask("finish", desk::Served::result(a, s.run(a)));
  CHECK(done.status == 200);
  CHECK(s.state(a.claim.job) == JobState::done);
  CHECK(s.ask("report", report).status == 409);
  // A result that is sent twice gives one run; another result for the ended job is refused.
  CHECK(s.ask("finish", desk::Served::result(a, s.run(a))).body == done.body);
  RunDocument other = s.run(a);
  other.seed = 99;
  CHECK(s.ask("finish", desk::Served::result(a, other)).status == 409);
  CHECK(s.runs() == 1);
  CHECK(verify_board(s.store).empty());
  CHECK(s.store.database().integer("SELECT count(*) FROM events WHERE kind = 'worker'") == 3);
  CHECK(Workers(s.store.database()).all()[0].hardware == "cpu-mt");
}

TEST_CASE("a result counts only while its worker has the job") {
  StoreOptions rules;
  rules.queue.lease = 60;
  desk::Served s(rules);
  s.submit("mlp");
  const Assignment first = s.claim();
  test::clock_now += 59;
  const Json report{
      {"job", first.claim.job}, {"owner", first.claim.owner}, {"progress", 0}, {"message", "here"}};
  CHECK(s.ask("report", report).status == 200);  // a heartbeat renews the lease
  test::clock_now += 59;
  CHECK(s.claim().claim.job != first.claim.job);
  test::clock_now += 2;
  const Assignment second = s.claim();  // the lease is over, and another worker plays the job
  CHECK(second.claim.job == first.claim.job);
  CHECK(s.ask("report", report).status == 409);
  CHECK(s.ask("finish", desk::Served::result(first, s.run(first))).status == 409);
  const Json failure{
      {"job", first.claim.job}, {"owner", first.claim.owner}, {"why", "late"}, {"fault", "entry"}};
  CHECK(s.ask("fail", failure).status == 409);
  Json made_up = failure;
  made_up["owner"] = "";
  CHECK(s.ask("fail", made_up).status == 409);
  CHECK(s.runs() == 0);
  CHECK(s.ask("finish", desk::Served::result(second, s.run(second))).status == 200);

  // A job that ended in another way takes no result either.
  test::clock_now += 60;
  const Assignment third = s.claim();
  s.store.database().run("UPDATE jobs SET state = 'failed', fault = 'user' WHERE id = ?", third.claim.job);
  CHECK(s.ask("finish", desk::Served::result(third, s.run(third))).status == 409);
  CHECK(s.runs() == 1);
}

TEST_CASE("a result is that of its job, and its numbers follow from its evidence") {
  desk::Served s;
  s.submit("mlp"), s.submit("other", 2);
  const Assignment a = s.claim();
  const auto refused = [&](const std::function<void(RunDocument&)>& change, const char* why) {
    RunDocument d = s.run(a);
    change(d);
    const auto answer = s.ask("finish", desk::Served::result(a, d));
    CAPTURE(answer.body);
    CHECK(answer.status == 422);
    CHECK(holds(desk::reason(answer), why));
  };
  refused([&](RunDocument& d) { d.hardware = "cpu-1t"; }, "another benchmark, scenario, hardware");
  refused([&](RunDocument& d) { d.contenders[1].bundle = a.against; }, "pair of bundles");
  refused([](RunDocument& d) { d.contenders[1].evidence = {}; }, "does not follow from any evidence");
  refused([](RunDocument& d) { d.contenders[1].evidence = {}, d.contenders[1].audits.clear(); },
          "without the evidence of its audits");
  refused([](RunDocument& d) { d.contenders[1].credit.clear(); }, "has no samples");
  refused([](RunDocument& d) { d.contenders[1].quality->estimate += 0.01; }, "quality is");
  Json forged = desk::Served::result(a, s.run(a));
  Json& turn = forged["run"]["contenders"][1]["turns"][0]["latencies"][0];
  turn = turn.get<double>() / 2;
  CHECK(s.ask("finish", forged).status == 422);
  forged["run"] = "no run";
  CHECK(s.ask("finish", forged).status == 422);
  forged.erase("run");
  CHECK(s.ask("finish", forged).status == 422);
  CHECK(s.runs() == 0);
  CHECK(s.state(a.claim.job) == JobState::running);
  CHECK(s.ask("finish", desk::Served::result(a, s.run(a))).status == 200);
  // A measurement is that of one job, also if another one is of the same pair.
  const int64_t again = s.store.request_head_to_head(s.user, a.claim.submission, a.claim.against);
  for (;;) {
    const Assignment b = s.claim();
    if (b.claim.job != again) continue;
    RunDocument copy = s.run(a);
    const auto answer = s.ask("finish", desk::Served::result(b, copy));
    CHECK(answer.status == 422);
    CHECK(holds(desk::reason(answer), "that of another job"));
    break;
  }
  CHECK(s.runs() == 1);
}

TEST_CASE("malformed, unsigned and oversized requests change nothing, and each says why") {
  ServerOptions options;
  desk::Served s({}, options);
  s.submit("mlp");
  const Json good{{"hardware", "cpu-mt"}};
  const std::string text = canonical_text(good);
  CHECK(s.send("claim", text, "").status == 403);
  CHECK(s.send("claim", text, std::string(64, '0')).status == 403);
  CHECK(s.send("claim", text, signature_of(s.token.key, "/worker/waiting", text)).status == 403);
  CHECK(s.send("claim", "{ \"hardware\": \"cpu-mt\"}").status == 400);
  CHECK(s.send("claim", "{\"hardware\":\"cpu-mt\",\"hardware\":\"cpu-mt\"}").status == 400);
  for (const char* body :
       {"", "{", "[]", "null", "{}", "{\"hardware\":7}", "{\"a\":1,\"hardware\":\"cpu-mt\"}"}) {
    CAPTURE(body);
    CHECK(s.send("claim", body).status == 422);
  }
  CHECK(s.send("claim", std::string(100, '[')).status == 422);
  const Json report{{"job", 1}, {"owner", std::string(64, 'a')}, {"progress", 0}, {"message", ""}};
  CHECK(s.ask("report", report).status == 409);
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, Json>>{{"job", -1},
                                                 {"job", 1e30},
                                                 {"owner", std::string(65, 'a')},
                                                 {"progress", 2},
                                                 {"message", std::string(2001, 'm')}}) {
    CAPTURE(key);
    Json wrong = report;
    wrong[key] = value;
    CHECK(s.ask("report", wrong).status == 422);
  }
  CHECK(s.ask("fail", {{"job", 1}, {"owner", "x"}, {"why", ""}, {"fault", "user"}}).status / 100 == 4);
  CHECK(s.ask("compiled", {{"submission", 99}, {"why_not", ""}}).status == 422);
  CHECK(s.send("claim", "\"" + std::string(WorkDesk::kMessageBytes, 'x') + "\"").status == 413);
  for (const char* where : {"nothing", "claim/more", "bundles"}) CHECK(s.ask(where, good).status == 404);
  CHECK(s.server.get("/worker/claim").status == 404);
  CHECK(s.server.post("/worker/claim", "text/plain", text).status == 401);
  CHECK(
      s.server.post("/worker/claim", "text/plain", text, "Authorization: Bearer " + s.token.identity + "\r\n")
          .status == 415);
  CHECK(s.store.database().integer("SELECT count(*) FROM jobs WHERE state <> 'queued'") == 0);
}

TEST_CASE("whoever guesses tokens is slowed down, and a worker is not") {
  ServerOptions options;
  test::Board b;
  options.asks_per_minute = 3;
  Queries queries(b.store);
  WorkDesk own(b.store);
  testing::RunningServer server(queries, b.store, options, &own);
  const WorkerToken token = Course(b.store).add_worker("bench-1");
  const auto ask = [&](const std::string& identity) {
    const std::string body = canonical_text({{"hardware", "cpu-mt"}});
    return server
        .post("/worker/waiting", "application/json", body,
              "Authorization: Bearer " + identity +
                  "\r\nX-Work-Signature: " + signature_of(token.key, "/worker/waiting", body) + "\r\n")
        .status;
  };
  for (int i = 0; i < 3; ++i) CHECK(ask("guess") == 401);
  CHECK(ask("guess") == 429);
  for (int i = 0; i < 20; ++i) CHECK(ask(token.identity) == 200);
  const testing::RunningServer without(queries, b.store, {});
  CHECK(without.post("/worker/waiting", "application/json", "{}").status / 100 == 4);
}

TEST_CASE("a board of schema 4 gets the table of workers") {
  const test::BoardFolder f;
  {
    Store store(f.path, test::Board::with_clock({}));
    store.add_user("Ada");
    store.database().script("DROP TABLE workers; DROP TABLE pseudonyms; PRAGMA user_version = 4");
  }
  Store store(f.path, test::Board::with_clock({}));
  CHECK(store.users().size() == 1);
  CHECK(verify_board(store).empty());
  Course(store).add_worker("bench-1");
}
