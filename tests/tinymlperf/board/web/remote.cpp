// A board at an address: a bundle is uploaded by HTTP and its jobs are followed; every failure is reported.
#include <doctest/doctest.h>

#include <fstream>
#include <functional>
#include <support/printed.hpp>
#include <thread>
#include <tinymlperf/commands/appeal.hpp>
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
  while (const auto claim = s.store.queue().claim("cpu-mt")) s.store.queue().fail(*claim, "no sandbox here");
  const Printed p = print([&](auto* out) { return run_watch({s.address(), mlp, 5ms}, out); });
  CHECK(p.status == kFailed);
  CHECK(p.holds("failed, no sandbox here"));
  CHECK(p.holds("there is no run of it"));
}
