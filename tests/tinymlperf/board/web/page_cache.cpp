// The cache of pages: a page with a revision is rendered again when that changes, one without when it is too
// old.
#include <doctest/doctest.h>

#include <thread>
#include <tinymlperf/board/web/page_cache.hpp>
#include <tinytorch/tinytorch.hpp>

#include <tinymlperf/board/served_board.hpp>

using namespace std::chrono_literals;
using namespace tinymlperf::board;
using namespace tinymlperf::board::testing;

TEST_CASE(
    "a page with a revision is rendered once for it; a page without one is cached until its age limit") {
  PageCache<int> cache(1h), never({});
  int formed = 0;
  const auto form = [&] { return ++formed; };
  CHECK(*cache.get("a", "1", form) == 1);
  CHECK(*cache.get("a", "1", form) == 1);
  CHECK(*cache.get("a", "2", form) == 2);
  CHECK(*cache.get("b", "", form) == 3);
  CHECK(*cache.get("b", "", form) == 3);
  CHECK(*never.get("b", "", form) == 4);
  CHECK(*never.get("b", "", form) == 5);
  CHECK(*never.get("b", "1", form) == 6);
  CHECK(*never.get("b", "1", form) == 6);
  PageCache<int> brief(20ms);
  CHECK(*brief.get("a", "", form) == 7);
  std::this_thread::sleep_for(30ms);
  CHECK(*brief.get("a", "", form) == 8);
}

TEST_CASE("a page that cannot be rendered is not cached, and the number of cached pages is bounded") {
  PageCache<int> cache(1h);
  CHECK_THROWS_AS(cache.get("a", "", []() -> int { throw std::runtime_error("no"); }), std::runtime_error);
  CHECK(*cache.get("a", "", [] { return 1; }) == 1);
  for (int i = 0; i < 256; ++i) (void)cache.get(std::to_string(i), "", [] { return 0; });
  CHECK(*cache.get("a", "", [] { return 2; }) == 2);
}

TEST_CASE("simultaneous requests get one page, rendered once") {
  PageCache<int> cache(1h);
  std::atomic<int> formed = 0, wrong = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      const auto page = cache.get("a", "", [&] {
        std::this_thread::sleep_for(10ms);
        return ++formed;
      });
      wrong += *page != 1;
    });
  for (std::thread& t : threads) t.join();
  CHECK(formed == 1);
  CHECK(wrong == 0);
}

TEST_CASE(
    "a submission's page says at once what has changed of it; the queue may be as old as the server says") {
  ServerOptions old;
  old.page_age = 1h;
  ServedBoard s(old);
  const int64_t mlp = s.submit("mlp");
  const std::string page = "/submissions/" + std::to_string(mlp);
  const auto ask = [&] { return s.server.get(page); };
  const auto etag = [&] { return ask().header("etag"); };
  const std::string first = etag(), queue = s.server.get("/queue").body;
  CHECK(etag() == first);
  CHECK(ask().body.find("The judge has not run it yet.") != std::string::npos);
  const auto claim = s.store.queue().claim("cpu-mt").value();
  const std::string claimed = etag();
  CHECK(claimed != first);
  s.store.queue().report(claim, 0.25, "block 3 of 12");
  CHECK(ask().body.find("block 3 of 12") != std::string::npos);
  RunDocument d = s.result(claim);
  d.contenders[1].out = "it said nothing";
  const int64_t run = s.store.queue().finish(claim, d);
  CHECK(ask().body.find("it said nothing") != std::string::npos);
  const int64_t appeal = s.store.appeal(s.user, mlp, run, "it did");
  CHECK(ask().body.find("It has no answer yet.") != std::string::npos);
  s.store.answer_appeal(appeal, "it did not");
  CHECK(ask().body.find("it did not") != std::string::npos);
  CHECK(s.server.get("/queue").body == queue);
  const Response table = s.server.get("/tables/dig/open/cpu-mt");
  CHECK(s.server.get("/tables/dig%2Fopen/cpu-mt").status == 404);  // no two addresses have one page
  CHECK(s.server.get("/tables/dig/open/cpu-mt").body == table.body);
  CHECK(s.server.get("/tables/dig/open/cpu-mt", "If-None-Match: " + table.header("etag") + "\r\n").status ==
        304);
}
