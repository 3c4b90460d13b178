// The server from the outside: raw requests in, responses out.
#include <doctest/doctest.h>

#include <atomic>
#include <vector>

#include <tinymlperf/board/html_checker.hpp>
#include <tinymlperf/board/http_client.hpp>

using namespace tinymlperf;
using namespace tinymlperf::board;
using namespace tinymlperf::board::testing;
using namespace std::chrono_literals;

TEST_CASE("every page, its JSON and the three files it loads") {
  const RunningBoard site;
  for (const char* target :
       {"/", "/queue", "/submit", "/tables/dig/closed/cpu-1t", "/tables/dig/closed/cpu-1t/pareto",
        "/tables/dig/closed/cpu-1t/history", "/tables/dig/open/cpu-mt/T2",
        "/tables/dig/open/cpu-mt/T2/pareto", "/tables/kws/closed/gpu%28NVIDIA%20H200%29", "/submissions/1",
        "/jobs/2", "/queue?page=1"}) {
    CAPTURE(target);
    const Response page = site.get(target);
    CHECK(page.status == 200);
    CHECK(page.header("content-type") == "text/html; charset=utf-8");
    CHECK(HtmlChecker(page.body).complaints.empty());
    const std::string policy = page.header("content-security-policy");
    CHECK(policy.find("default-src 'none'") != std::string::npos);
    CHECK(policy.find("frame-ancestors 'none'") != std::string::npos);
    CHECK(policy.find("unsafe") == std::string::npos);
    CHECK(page.header("x-content-type-options") == "nosniff");
    CHECK(page.header("referrer-policy") == "no-referrer");
    CHECK(page.header("set-cookie").empty());
  }
  for (const char* target :
       {"/index.json", "/queue.json", "/tables/dig/closed/cpu-1t.json",
        "/tables/dig/closed/cpu-1t/pareto.json", "/tables/dig/closed/cpu-1t/history.json",
        "/tables/dig/open/cpu-mt/T2.json", "/submissions/1.json", "/jobs/2.json", "/queue.json?page=1"}) {
    CAPTURE(target);
    const Response document = site.get(target);
    CHECK(document.status == 200);
    CHECK(document.header("content-type") == "application/json");
    CHECK(Json::accept(document.body));
  }
  CHECK(Json::parse(site.get("/jobs/2", "Accept: application/json\r\n").body).at("progress") == 0.42);
  CHECK(site.get("/style.css").header("content-type").starts_with("text/css"));
  CHECK(site.get("/board.js").header("content-type").starts_with("text/javascript"));
  CHECK(site.get("/icon.svg").header("content-type") == "image/svg+xml");
}

TEST_CASE("an ETag saves the body the second time, and changes with the page") {
  RunningBoard site;
  const Response first = site.get("/jobs/2");
  const std::string etag = first.header("etag");
  REQUIRE(etag.starts_with("W/\""));
  const Response again = site.get("/jobs/2", "If-None-Match: " + etag + "\r\n");
  CHECK(again.status == 304);
  CHECK(again.header("etag") == etag);
  CHECK(again.body.empty());
  CHECK(site.get("/jobs/2.json").header("etag") != etag);
  Job job = *site.board.job(2);
  job.progress = 0.5;
  site.board.set_job(job);
  CHECK(site.get("/jobs/2", "If-None-Match: " + etag + "\r\n").status == 200);
}

TEST_CASE("HEAD is GET without the body, and the connection goes on") {
  const RunningBoard site;
  Client client(site.port);
  client.write("HEAD / HTTP/1.1\r\nHost: b\r\n\r\nGET /queue HTTP/1.1\r\nHost: b\r\n\r\n");
  const Response head = client.read_answer(false), page = client.read_answer();
  CHECK(head.status == 200);
  CHECK(head.header("content-length") != "0");
  CHECK(page.status == 200);
  CHECK(page.body.find("<h1>Queue</h1>") != std::string::npos);
}

TEST_CASE(
    "unknown addresses, forbidden methods and malformed addresses are answered by a page that says so") {
  const RunningBoard site;
  const std::pair<const char*, int> cases[] = {{"/nowhere", 404},
                                               {"/submissions/0", 404},
                                               {"/submissions/99999", 404},
                                               {"/submissions/x", 404},
                                               {"/jobs/1/other", 404},
                                               {"/tables/dig/closed", 404},
                                               {"/tables/dig/closed/none", 404},
                                               {"/tables/dig/closed/cpu-1t/x", 404},
                                               {"/tables/dig/closed/cpu-1t/T0", 404},
                                               {"/tables/dig/closed/cpu-1t/T2", 404},
                                               {"/tables/dig/open/cpu-mt/T2/x", 404},
                                               {"/tables/dig/open/cpu-mt/T2/pareto/x", 404},
                                               {"/queue?page=0", 400},
                                               {"/queue?page=7", 404},
                                               {"/queue?page=x", 400},
                                               {"/../etc/passwd", 404},
                                               {"/%2e%2e/etc/passwd", 404},
                                               {"/%00", 400},
                                               {"/%zz", 400},
                                               {"/jobs/99999/events", 404},
                                               {"/queue/", 404}};
  for (const auto& [target, status] : cases) {
    const std::string shown = target;
    CAPTURE(shown);
    const Response answer = site.get(target);
    CHECK(answer.status == status);
    CHECK(HtmlChecker(answer.body).complaints.empty());
    CHECK_FALSE(answer.header("content-security-policy").empty());
  }
  const Response script = site.get("/%3Cscript%3Ealert(1)%3C/script%3E");
  CHECK(script.status == 404);
  CHECK(script.body.find("<script>") == std::string::npos);
  CHECK(Json::parse(site.get("/nowhere.json").body).at("error").at("status") == 404);
  CHECK(site.get("/" + std::string(3000, 'a')).status == 414);
  for (const char* method : {"PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "POST"}) {
    const Response answer =
        site.ask(std::string(method) + " / HTTP/1.1\r\nHost: b\r\nContent-Length: 0\r\n\r\n");
    CHECK(answer.status == 405);
    CHECK(answer.header("allow") == "GET, HEAD");
  }
  CHECK(site.get("/head-to-head").status == 405);
  CHECK(site.ask("BREW / HTTP/1.1\r\nHost: b\r\n\r\n").status == 400);
  CHECK(site.ask("GET / HTTP/1.1\r\nX: " + std::string(40000, 'x') + "\r\n\r\n").status / 100 == 4);
  CHECK(site.ask("GET /" + std::string(40000, 'x') + " HTTP/1.1\r\n\r\n").status / 100 == 4);
}

TEST_CASE("a bundle: token, size, type and refusal") {
  ServerOptions options;
  options.most_bytes = 100000;
  options.asks_per_minute = 1000;
  const RunningBoard site(options);
  const Response accepted = site.submit("secret", "bundle one");
  CHECK(accepted.status == 303);
  CHECK(accepted.header("location") == "/jobs/1000");
  CHECK(site.get("/jobs/1000").status == 200);
  const Response known = site.submit("secret", "bundle one");
  CHECK(known.status == 303);
  CHECK(known.header("location").starts_with("/submissions/"));
  const Response json = site.submit("secret", "bundle two", "Accept: application/json\r\n");
  CHECK(json.status == 201);
  CHECK(Json::parse(json.body).at("job") == 1001);
  CHECK(site.submit("wrong", "bundle").status == 401);
  CHECK(site.submit("", "bundle").status == 400);
  CHECK(site.submit(std::string(300, 's'), "bundle").status == 400);
  const Response refused = site.submit("secret", "<script>");
  CHECK(refused.status == 422);
  CHECK(refused.body.find("expected a bundle") != std::string::npos);
  CHECK(site.submit("secret", "bundle" + std::string(99000, '\0')).status == 303);
  CHECK(site.post("/submit", "text/plain", "x").status == 415);
  CHECK(site.post("/submit", "multipart/form-data; boundary=xyz", "no form").status == 400);
  CHECK(site.post("/submit", "multipart/form-data", "no boundary").status == 400);
  CHECK(site.ask("POST /submit HTTP/1.1\r\nHost: b\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n").status ==
        411);
  CHECK(site.post("/submit", "multipart/form-data; boundary=xyz",
                  RunningBoard::multipart("secret", "bundle x"), "Content-Encoding: gzip\r\n")
            .status == 415);
}

TEST_CASE("a body that is too large is refused before it is sent") {
  ServerOptions options;
  options.most_bytes = 1000;
  const RunningBoard site(options);
  const std::string head =
      "POST /submit HTTP/1.1\r\nHost: b\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: "
      "99999999\r\n";
  CHECK(site.ask(head + "\r\n").status == 413);
  CHECK(site.ask(head + "Expect: 100-continue\r\n\r\n").status == 413);
  CHECK(site.ask("POST /head-to-head HTTP/1.1\r\nHost: b\r\nContent-Type: "
                 "application/x-www-form-urlencoded\r\nContent-Length: 9000\r\n\r\n")
            .status == 413);
  // Bytes after a refused body are not taken for a request.
  Client client(site.port);
  client.write(head + "\r\nGET / HTTP/1.1\r\nHost: b\r\n\r\n");
  CHECK(client.read_answer().status == 413);
  CHECK(client.read_all().empty());
}

TEST_CASE("a match is asked for by a form") {
  const RunningBoard site;
  const char* type = "application/x-www-form-urlencoded";
  const Response good = site.post("/head-to-head", type, "token=secret&submission=1&against=2");
  CHECK(good.status == 303);
  CHECK(site.get(good.header("location")).body.find("head-to-head") != std::string::npos);
  CHECK(site.post("/head-to-head", type, "token=no&submission=1&against=2").status == 401);
  CHECK(site.post("/head-to-head", type, "token=secret&submission=1&against=1").status == 422);
  CHECK(site.post("/head-to-head", type, "token=secret&submission=1").status == 400);
  CHECK(site.post("/head-to-head", type, "token=secret&submission=1&against=%").status == 400);
}

TEST_CASE("an appeal is taken once, with its lines, and shown escaped") {
  const RunningBoard site;
  const char* type = "application/x-www-form-urlencoded";
  const auto appeal = [&](const std::string& body, const char* headers = "") {
    return site.post("/appeal", type, body, headers);
  };
  CHECK(appeal("token=no&submission=9&run=9&note=why").status == 401);
  CHECK(appeal("token=secret&submission=9&run=9").status == 422);
  CHECK(appeal("token=secret&submission=9&run=1&note=why").status == 422);
  CHECK(appeal("token=secret&submission=x&run=9&note=why").status == 400);
  CHECK(appeal("token=secret&submission=9%0A&run=9&note=why").status == 400);
  CHECK(appeal("token=secret&submission=9&run=9&note=a%00b").status == 400);
  CHECK(appeal("token=secret&submission=9&run=9&note=a%0Db").status == 400);
  CHECK(site.get("/appeal").status == 405);
  const Response good = appeal("token=secret&submission=9&run=9&note=one%0D%0A%3Ctwo%3E");
  CHECK(good.status == 303);
  CHECK(good.header("location") == "/submissions/9");
  CHECK(site.get("/submissions/9").body.find("one\n&lt;two&gt;") != std::string::npos);
  const Json run = Json::parse(site.get("/submissions/9.json").body).at("runs")[0];
  CHECK(run.at("appeal").at("note") == "one\n<two>");
  CHECK(run.at("appeal").at("answer").is_null());
  CHECK(run.at("refused") == true);
  CHECK(appeal("token=secret&submission=9&run=9&note=again", "Accept: application/json\r\n").status == 422);
}

TEST_CASE("too many requests from one address must wait; reading goes on") {
  ServerOptions options;
  options.asks_per_minute = 3;
  const RunningBoard site(options);
  for (int i = 0; i < 3; ++i) CHECK(site.submit("guess " + std::to_string(i), "bundle").status == 401);
  const Response late = site.submit("secret", "bundle");
  CHECK(late.status == 429);
  CHECK(std::stoi(late.header("retry-after")) > 0);
  CHECK(site.get("/").status == 200);
}

TEST_CASE("a followed job sends its states in order, then the end") {
  ServerOptions options;
  options.watch_step = 5ms;
  RunningBoard site(options);
  Client client(site.port);
  client.write("GET /jobs/2/events HTTP/1.1\r\nHost: b\r\nAccept-Encoding: gzip\r\n\r\n");
  const std::string head = client.read_until("\r\n\r\n");
  CHECK(head.find("text/event-stream") != std::string::npos);
  CHECK(head.find("Content-Encoding") == std::string::npos);
  const auto next = [&] {
    const std::string event = client.read_until("\n\n");
    const size_t data = event.find("data: ");
    REQUIRE(data != std::string::npos);
    return Json::parse(event.substr(data + 6));
  };
  Json now = next();
  CHECK(now.at("progress") == 0.42);
  Job job = *site.board.job(2);
  for (const double progress : {0.6, 0.8}) {
    job.progress = progress, job.message = "<b>\nblock";
    site.board.set_job(job);
    now = next();
    CHECK(now.at("progress") == progress);
    CHECK(now.at("message") == "<b>\nblock");
  }
  job.state = JobState::done, job.progress = 1;
  site.board.set_job(job);
  CHECK(next().at("state") == "done");
  CHECK(client.read_until("\n\n").find("event: end") != std::string::npos);
}

TEST_CASE("followers cannot starve readers, and a place is free again when one leaves") {
  ServerOptions options;
  options.readers = 4, options.watchers = 2, options.watch_step = 5ms;
  const RunningBoard site(options);
  const std::string follow = "GET /jobs/2/events HTTP/1.1\r\nHost: b\r\n\r\n";
  auto one = std::make_unique<Client>(site.port), two = std::make_unique<Client>(site.port);
  for (Client* c : {one.get(), two.get()}) {
    c->write(follow);
    CHECK(c->read_until("\n\n").find("progress") != std::string::npos);
  }
  CHECK(site.ask(follow).status == 429);
  for (int i = 0; i < 8; ++i) CHECK(site.get("/").status == 200);
  one.reset();
  int status = 429;
  for (int i = 0; i < 400 && status == 429; ++i) {
    std::this_thread::sleep_for(10ms);
    Client again(site.port);
    again.write(follow);
    status = again.read_until("\r\n\r\n").find("200") != std::string::npos ? 200 : 429;
  }
  CHECK(status == 200);
}

TEST_CASE("a visitor who is too slow or silent loses the connection") {
  ServerOptions options;
  options.connection.head = 100ms, options.connection.idle = 100ms;
  const RunningBoard site(options);
  Client slow(site.port);
  slow.write("GET / HTTP/1.1\r\nHost");
  CHECK(slow.read_answer().status / 100 == 4);
  Client silent(site.port);
  CHECK(silent.read_all().empty());
}

TEST_CASE("if many connections are silent, visitors who wait for a thread get one soon") {
  ServerOptions options;
  options.readers = 4, options.watchers = 0;
  options.connection.idle = 20s, options.connection.hurried = 50ms;
  const RunningBoard site(options);
  std::vector<std::unique_ptr<Client>> silent;  // two may be silent for long, the others give way
  for (int i = 0; i < 8; ++i) silent.push_back(std::make_unique<Client>(site.port));
  const auto before = std::chrono::steady_clock::now();
  for (int i = 0; i < 5; ++i) CHECK(site.get("/").status == 200);
  CHECK(std::chrono::steady_clock::now() - before < 10s);
}

TEST_CASE("many readers at once, all answered") {
  const RunningBoard site;
  std::atomic<int> good{0};
  std::vector<std::thread> readers;
  for (int t = 0; t < 16; ++t)
    readers.emplace_back([&] {
      Client client(site.port);
      for (int i = 0; i < 25; ++i) {
        client.write("GET /tables/dig/closed/cpu-1t HTTP/1.1\r\nHost: b\r\n\r\n");
        const Response answer = client.read_answer();
        good += answer.status == 200 && answer.body.ends_with("</html>\n");
      }
    });
  for (std::thread& t : readers) t.join();
  CHECK(good == 16 * 25);
}

TEST_CASE("stopping ends followers and idle connections at once") {
  RunningBoard site;
  Client follower(site.port), idle(site.port);
  follower.write("GET /jobs/2/events HTTP/1.1\r\nHost: b\r\n\r\n");
  CHECK(follower.read_until("\n\n").find("progress") != std::string::npos);
  const auto before = std::chrono::steady_clock::now();
  site.stop();
  CHECK(std::chrono::steady_clock::now() - before < 4s);
  CHECK_THROWS(Client(site.port));
}

TEST_CASE("a second server on a port is refused in words") {
  const RunningBoard site;
  MemoryBoard board;
  ServerOptions options;
  options.port = site.port;
  Server second(board, board, options);
  CHECK_THROWS_WITH(second.bind(), doctest::Contains("choose another with --host and --port"));
}

namespace {
struct BrokenSource : MemoryBoard {
  FrontPage front() override { throw std::runtime_error("the database is on fire"); }
};
}  // namespace

TEST_CASE("a failing store is a 500 that does not say why to strangers") {
  BrokenSource board;
  ServerOptions options;
  options.port = 0;
  Server server(board, board, options);
  const int port = server.bind();
  std::thread thread([&] { server.run(); });
  Client client(port);
  client.write("GET / HTTP/1.1\r\nHost: b\r\n\r\n");
  const Response answer = client.read_answer();
  CHECK(answer.status == 500);
  CHECK(answer.body.find("fire") == std::string::npos);
  CHECK(HtmlChecker(answer.body).complaints.empty());
  while (!server.is_running()) std::this_thread::yield();
  server.stop();
  thread.join();
}
