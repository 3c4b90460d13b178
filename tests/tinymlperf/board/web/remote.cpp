// A board at an address: a bundle is uploaded by HTTP and its jobs are followed; every failure is reported.
#include <doctest/doctest.h>

#include <fstream>
#include <functional>
#include <support/printed.hpp>
#include <thread>
#include <tinymlperf/commands/appeal.hpp>
#include <tinymlperf/commands/jobs.hpp>
#include <tinytorch/tinytorch.hpp>

#include <tinymlperf/board/served_board.hpp>

namespace fs = std::filesystem;
using namespace tinymlperf;
using namespace std::chrono_literals;

namespace {

using Served = board::testing::ServedBoard;
using test::print, test::Printed;

Printed submit(const std::string& address, const fs::path& bundle, const std::string& token,
               bool wait = false) {
  return print([&](auto* out) { return run_submit({address, bundle, {token, {}}, false, wait, 5ms}, out); });
}
std::string problem(const std::function<void()>& f) {
  try {
    f();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a bundle goes up to an address, once, and is the same bundle there") {
  Served s;
  const std::string bytes = test::bundle_bytes("mlp");
  const fs::path bundle = s.file(bytes);
  CHECK(submit(s.address(), bundle, s.token).text == "submission 2, job 1\n");
  CHECK(s.store.bundle_bytes(2) == bytes);
  CHECK(submit(s.address() + "/", bundle, s.token).holds("submission 2, which was there already, job 1"));
  CHECK(print([&](auto* out) {
          return run_head_to_head({s.address(), {s.token, {}}, 2, 1}, out);
        }).text == "job 3\n");
  const Printed same = print([&](auto* out) {
    return run_head_to_head({s.address(), {s.token, {}}, 2, 2}, out);
  });
  CHECK(same.status == kFailed);
  CHECK(same.holds("one submission"));
}

TEST_CASE("a refusal of the board is reported in its words") {
  board::ServerOptions small;
  small.most_bytes = 20000;
  Served s(small);
  const Printed token = submit(s.address(), s.file(test::bundle_bytes("mlp")), "of nobody");
  CHECK(token.status == kFailed);
  CHECK(token.holds("refused: Nobody has this token"));
  const Printed none = submit(s.address(), s.file("no bundle"), s.token);
  CHECK(none.status == kFailed);
  CHECK(none.holds("expected a tar file"));
  const Printed large = submit(s.address(), s.file(std::string(20001, 'x')), s.token);
  CHECK(large.status == kFailed);
  CHECK(large.holds("the bundle has 20001 bytes; " + s.address() + " takes at most 20000"));
  CHECK(s.store.database().integer("SELECT count(*) FROM bundles") == 1);
  CHECK(print([&](auto* out) {
          return run_submit({s.address(), s.file(""), {s.token, {}}, true}, out);
        }).status == kSetUpProblem);
  CHECK(submit(s.address(), s.file("x"), "").status == kSetUpProblem);
}

TEST_CASE("an address without a server or without a board is told apart from a refusal") {
  std::string gone;
  {
    const Served s;
    gone = s.address();
  }
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "x.tmlp") << "x";
  CHECK(submit(gone, folder.path() / "x.tmlp", "t").status == kSetUpProblem);
  CHECK(problem([&] { board::RemoteBoard(gone).job(1); }).find("nobody listens there") != std::string::npos);
  CHECK(problem([&] { board::RemoteBoard("http://no-such-host.invalid").job(1); }).find("cannot connect") !=
        std::string::npos);
  for (const char* bad : {"ftp://host", "http://", "http://host/board", "http://me@host", "http://host:0x50",
                          "http://host:99999", "http://host:", "http://:80", "host:80"})
    CHECK_MESSAGE(
        problem([&] { board::RemoteBoard r(bad); }).find("expected http://HOST:PORT") != std::string::npos,
        bad);
  for (const char* good : {"http://host", "https://host:1", "http://[::1]:80", "http://[::1]"})
    CHECK_MESSAGE(problem([&] { board::RemoteBoard r(good); }).empty(), good);

  httplib::Server other;
  other.Get(".*", [](const httplib::Request& q, httplib::Response& r) {
    if (q.path == "/jobs/1.json") return r.set_content("<h1>hello</h1>", "text/html");
    if (q.path == "/jobs/2.json") return r.set_content("{\"id\": \"one\"}", "application/json");
    r.status = 500;
  });
  const int port = other.bind_to_any_port("127.0.0.1");
  std::thread thread([&] { other.listen_after_bind(); });
  while (!other.is_running()) std::this_thread::yield();
  board::RemoteBoard stranger("http://127.0.0.1:" + std::to_string(port));
  CHECK(problem([&] { stranger.job(1); }).find("no TinyMLPerf board") != std::string::npos);
  CHECK(problem([&] { stranger.job(2); }).find("not as a TinyMLPerf board") != std::string::npos);
  CHECK(problem([&] { stranger.job(3); }).find("status 500") != std::string::npos);
  other.stop();
  thread.join();
}

TEST_CASE("waiting follows every job to its end and prints the result; a run that is out fails it") {
  for (const bool good : {true, false}) {
    Served s;
    std::thread worker([&] {
      for (int done = 0; done < 2;) {
        const auto claim = s.store.queue().claim("cpu-mt");
        std::this_thread::sleep_for(50ms);
        if (!claim) continue;
        s.store.queue().report(*claim, 0.25, "block 4 of 12\x1b[31m");
        std::this_thread::sleep_for(50ms);
        board::RunDocument d = s.result(*claim, {.speedup = 2});
        if (!good) d.contenders[1].out = "it said nothing";
        s.store.queue().finish(*claim, d), ++done;
      }
    });
    const Printed p = submit(s.address(), s.file(test::bundle_bytes("mlp")), s.token, true);
    worker.join();
    CHECK(p.status == (good ? kPass : kFailed));
    CHECK(p.holds("job 1, dig single_stream: running, 25 %, block 4 of 12"));
    CHECK(p.text.find('\x1b') == std::string::npos);
    CHECK(p.holds("job 1, dig single_stream: done"));
    CHECK(p.holds("job 2, dig offline: done"));
    CHECK(p.holds(good ? "against base" : "out: it said nothing"));
    const Printed appeal = print([&](auto* out) {
      return run_appeal_add({s.address(), {s.token, {}}, 2, 1, "two\nlines & é"}, out);
    });
    CHECK(appeal.text == (good
                              ? "refused: appeal: run: expected one that was refused, found one that counts\n"
                              : "appeal 1\n"));
    if (!good) CHECK(s.queries.submission(2)->runs[1].appeal->note == "two\nlines & é");
    const auto watch = [&](const std::string& board, int64_t id) {
      return print([&](auto* out) { return run_watch({board, id, 5ms}, out); });
    };
    CHECK(watch(s.address(), 2).status == p.status);
    CHECK(watch(s.path.string(), 2).text == watch(s.address(), 2).text);
    CHECK(watch(s.address(), 9).status == kSetUpProblem);
  }
}

TEST_CASE("a job that failed fails the wait") {
  Served s;
  const int64_t mlp = s.submit("mlp");
  while (const auto claim = s.store.queue().claim("cpu-mt"))
    s.store.queue().fail(*claim, "no sandbox here", board::Fault::machine);
  const Printed p = print([&](auto* out) { return run_watch({s.address(), mlp, 5ms}, out); });
  CHECK(p.status == kFailed);
  CHECK(p.holds("failed, no sandbox here"));
  CHECK(p.holds("there is no run of it"));
}

TEST_CASE("jobs are cancelled and wait again, and a submission is withdrawn, at an address and in a file") {
  Served s;
  const std::string grace = s.store.add_user("Grace", {}, true), eve = s.store.add_user("Eve");
  for (const std::string& where : {s.address(), s.path.string()}) {
    const int64_t id = s.submit(where == s.address() ? "near" : "far", 3);
    const auto jobs = s.queries.submission(id)->jobs;
    REQUIRE(jobs.size() == 2);
    const auto cancel = [&](const std::string& token, int64_t job) {
      return print([&](auto* out) { return run_job_cancel({where, {token, {}}, job}, out); });
    };
    const auto retry = [&](const std::string& token, int64_t job) {
      return print([&](auto* out) { return run_job_retry({where, {token, {}}, job}, out); });
    };
    const auto withdraw = [&](const std::string& token, const std::string& why) {
      return print([&](auto* out) { return run_withdraw({where, {token, {}}, id, why}, out); });
    };
    const std::string number = std::to_string(jobs[0].id);
    CHECK(cancel(eve, jobs[0].id).text ==
          "refused: job " + number +
              ": expected one of the user whose token this is, found one of somebody else\n");
    CHECK(cancel("of nobody at all", jobs[0].id).status == kFailed);
    CHECK(cancel(s.token, jobs[0].id).text == "job " + number + " is cancelled\n");
    CHECK(s.queries.job(jobs[0].id)->state == board::JobState::cancelled);
    CHECK(cancel(s.token, jobs[0].id).status == kFailed);
    CHECK(retry(s.token, jobs[0].id).text ==
          "refused: token: expected that of an instructor, found another one\n");
    CHECK(retry(grace, jobs[0].id).text == "job " + number + " waits again\n");
    CHECK(s.queries.job(jobs[0].id)->state == board::JobState::queued);
    CHECK(withdraw(eve, "mine").status == kFailed);
    CHECK(withdraw(s.token, "").holds("refused: withdrawal: reason"));
    CHECK(withdraw(s.token, "two\nlines").status == kPass);
    CHECK(s.queries.submission(id)->hiding->reason == "two\nlines");
    CHECK(s.queries.job(jobs[1].id)->state == board::JobState::cancelled);
    const Printed watched = print([&](auto* out) { return run_watch({where, id, 5ms}, out); });
    CHECK(watched.status == kFailed);
    CHECK(watched.holds("cancelled, its submission was withdrawn"));
  }
  // Whoever has the file needs no token; at an address everybody does.
  CHECK(print([&](auto* out) { return run_job_cancel({s.path, {}, 1}, out); }).status == kFailed);
  CHECK(print([&](auto* out) { return run_job_cancel({s.address(), {}, 1}, out); }).status == kSetUpProblem);
  const Printed restored = print([&](auto* out) {
    return run_restore({s.path, {}, 2, "It was a mistake."}, out);
  });
  CHECK(restored.status == kPass);
  CHECK_FALSE(s.queries.submission(2)->hiding);
  CHECK(print([&](auto* out) { return run_job_retry({s.path, {}, 1}, out); }).text == "job 1 waits again\n");
  CHECK(print([&](auto* out) {
          return run_restore({s.address(), {}, 2, "so"}, out);
        }).status == kSetUpProblem);
}

TEST_CASE("a board with too many requests is asked again after the time that it names, but not for ever") {
  test::Board b;
  board::Store reading(b.path, test::Board::with_clock({}));
  board::Queries queries(reading);
  board::ServerOptions options;
  options.asks_per_minute = 60;  // then one a second
  board::testing::RunningServer server(queries, b.store, options);
  const std::string address = "http://127.0.0.1:" + std::to_string(server.port);
  int told = 0;
  board::RemoteBoard patient(address, {20s, [&](std::chrono::seconds wait) {
                                         CHECK(wait == 1s);
                                         ++told;
                                       }});
  const std::string token = b.token;
  const auto cancel = [&](board::RemoteBoard& remote) { return problem([&] { remote.cancel(token, 99); }); };
  for (int i = 0; i < 200 && told == 0; ++i)
    CHECK(cancel(patient) == "job 99: expected one of this board, found none");
  CHECK(told > 0);
  board::RemoteBoard hasty(address, {0s, [&](std::chrono::seconds) { FAIL("it waits"); }});
  bool refused = false;
  for (int i = 0; i < 200 && !refused; ++i) refused = cancel(hasty).find("ask again in") != std::string::npos;
  CHECK(refused);
}
