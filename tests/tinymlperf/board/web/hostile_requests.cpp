// Thousands of malformed requests: the server answers each with a status below 500 or not at all, and keeps
// running.
#include <doctest/doctest.h>

#include <array>
#include <support/few.hpp>
#include <tinytorch/core/random.hpp>
#include <vector>

#include <tinymlperf/board/http_client.hpp>

using namespace tinymlperf::board;
using namespace tinymlperf::board::testing;
using namespace std::chrono_literals;
using namespace std::string_literals;

namespace {

std::vector<std::string> honest_requests() {
  const std::string body = RunningBoard::multipart("secret", "bundle of bytes");
  const std::string form = "token=secret&submission=1&against=2",
                    appeal = "token=secret&submission=9&run=9&note=first+line%0D%0A%C3%A9+second";
  return {"GET / HTTP/1.1\r\nHost: b\r\n\r\n",
          "GET /tables/dig/closed/cpu-1t?page=1 HTTP/1.1\r\nHost: b\r\nAccept: text/html\r\n\r\n",
          "GET /tables/kws/closed/gpu%28NVIDIA%20H200%29/pareto.json HTTP/1.1\r\nHost: b\r\nIf-None-Match: "
          "W/\"0\"\r\n\r\n",
          "GET /submissions/1 HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n",
          "HEAD /jobs/1 HTTP/1.1\r\nHost: b\r\nRange: bytes=0-99,200-\r\nAccept-Encoding: gzip, br\r\n\r\n",
          "GET /jobs/1/events HTTP/1.1\r\nHost: b\r\n\r\n",
          "POST /submit HTTP/1.1\r\nHost: b\r\nContent-Type: multipart/form-data; "
          "boundary=xyz\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\n\r\n" + body,
          "POST /head-to-head HTTP/1.1\r\nHost: b\r\nExpect: 100-continue\r\nContent-Type: "
          "application/x-www-form-urlencoded\r\nContent-Length: " +
              std::to_string(form.size()) + "\r\n\r\n" + form,
          "POST /appeal HTTP/1.1\r\nHost: b\r\nContent-Type: "
          "application/x-www-form-urlencoded\r\nContent-Length: " +
              std::to_string(appeal.size()) + "\r\n\r\n" + appeal};
}

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  std::string operator()() {
    static const std::vector<std::string> honest = honest_requests();
    if (below(20) == 0) return noise(below(600));
    std::string s = honest[below(honest.size())];
    for (size_t n = 1 + below(4); n > 0 && !s.empty(); --n) change(s, honest);
    return s;
  }

 private:
  size_t below(size_t n) { return static_cast<size_t>(random_.uniform(0, 1) * static_cast<double>(n)) % n; }
  std::string noise(size_t size) {
    std::string out(size, '\0');
    for (char& c : out) c = static_cast<char>(below(256));
    return out;
  }
  void change(std::string& s, const std::vector<std::string>& honest) {
    static const std::array words{"%"s,
                                  "%00"s,
                                  "%zz"s,
                                  "%ff"s,
                                  "\0"s,
                                  "\r\n"s,
                                  "\r\n\r\n"s,
                                  "\n"s,
                                  " "s,
                                  "../"s,
                                  "%2e%2e%2f"s,
                                  "?"s,
                                  "&&=&"s,
                                  "Content-Length: -1\r\n"s,
                                  "Content-Length: 18446744073709551616\r\n"s,
                                  "Content-Length: 10\r\n"s,
                                  "Transfer-Encoding: chunked\r\n"s,
                                  "Range: bytes=5-1\r\n"s,
                                  "Range: bytes=-99999999999999999999\r\n"s,
                                  "Connection: close\r\n"s,
                                  "Content-Encoding: gzip\r\n"s,
                                  "Expect: 100-continue\r\n"s,
                                  "\xE2\x80\xAE"s,
                                  "<script>"s,
                                  "ffffffff\r\n"s,
                                  ": "s,
                                  "HTTP/9.9"s,
                                  "--xyz"s};
    const size_t at = below(s.size());
    switch (below(8)) {
      case 0:
        s[at] = static_cast<char>(below(256));
        break;
      case 1:
        s.erase(at, 1 + below(20));
        break;
      case 2:
        s.insert(at, words[below(words.size())]);
        break;
      case 3:
        s.insert(at, noise(1 + below(40)));
        break;
      case 4:
        s.resize(at);
        break;
      case 5:
        s.insert(at, s.substr(below(s.size()), 1 + below(100)));
        break;
      case 6:
        s.insert(at, std::string(below(12000), words[below(words.size())][0]));
        break;
      default:
        s += honest[below(honest.size())];
    }
  }
  tinytorch::Generator random_;
};

// Statuses of all answers in what came back, as far as they can be told apart.
std::vector<int> statuses(const std::string& text) {
  std::vector<int> out;
  for (size_t at = text.find("HTTP/1.1 "); at != std::string::npos; at = text.find("HTTP/1.1 ", at + 1))
    if (at == 0 || text[at - 1] == '\n') out.push_back(std::atoi(text.substr(at + 9, 3).c_str()));
  return out;
}

}  // namespace

TEST_CASE("broken requests: never a status of 500 or more, never silence afterwards") {
  ServerOptions options;
  options.asks_per_minute = 1'000'000;
  options.connection.head = 300ms, options.connection.body = 300ms, options.connection.idle = 300ms;
  options.watch_step = 2ms, options.watch_most = std::chrono::seconds(0);
  const RunningBoard site(options, true);
  Mutator mutate(20260131);
  int answered = 0, refused = 0, good = 0;
  const int requests = test::few_asked() ? 500 : 2000;
  for (int i = 0; i < requests; ++i) {
    const std::string bytes = mutate();
    Client client(site.port, 3s);
    client.write(bytes);
    client.end_of_input();
    const auto all = statuses(client.read_all());
    answered += !all.empty();
    for (const int status : all) {
      if (status >= 500 || status < 100) {
        CAPTURE(bytes);
        FAIL_CHECK("request " << i << " was answered with " << status);
      }
      refused += status >= 400, good += status < 400;
    }
    if (i % 100 == 0) REQUIRE(site.get("/").status == 200);
  }
  CHECK(answered > requests * 3 / 4);
  CHECK(refused > requests / 10);
  CHECK(good > requests / 10);
  CHECK(site.get("/").status == 200);
}

TEST_CASE("heads at the edge of what is read") {
  ServerOptions options;
  options.connection.head = 300ms;
  const RunningBoard site(options);
  const auto status = [&](const std::string& bytes) { return site.ask(bytes).status; };
  std::string ranges = "GET / HTTP/1.1\r\nRange: bytes=0-0";
  while (ranges.size() < 8000) ranges += ",0-0";
  CHECK(status(ranges + "\r\n\r\n") < 500);
  std::string many = "GET / HTTP/1.1\r\n";
  for (int i = 0; i < 3000; ++i) many += "A: b\r\n";
  CHECK(status(many + "\r\n") == 200);  // 18 kB of short lines are within the limit
  for (int i = 0; i < 4000; ++i) many += "A: b\r\n";
  CHECK(status(many + "\r\n") / 100 == 4);
  CHECK(status(std::string(100000, 'G')) / 100 == 4);
  CHECK(status("GET /" + std::string(8100, '/') + " HTTP/1.1\r\n\r\n") / 100 == 4);
  CHECK(status("GET /" + std::string(2500, '%') + " HTTP/1.1\r\n\r\n") / 100 == 4);
  CHECK(site.get("/").status == 200);
}
