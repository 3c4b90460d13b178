// Strict parsing of addresses, forms and conditions; the limits of one visitor.
#include <doctest/doctest.h>

#include <tinymlperf/board/web/limits.hpp>
#include <tinymlperf/board/web/request.hpp>

using namespace tinymlperf::board;
using namespace std::string_literals;

namespace {

int status_of(std::string_view target) {
  Problem problem;
  return parse_address(target, problem) ? 200 : problem.status;
}

}  // namespace

TEST_CASE("one field of a form may have lines; the others hold none") {
  const auto form = parse_form("note=a%0D%0Ab%0Ac%09d&other=x", "note");
  REQUIRE(form);
  CHECK(form->at("note") == "a\nb\nc\td");
  CHECK_FALSE(parse_form("note=a%0Ab"));
  CHECK_FALSE(parse_form("note=a&other=a%0Ab", "note"));
  CHECK_FALSE(parse_form("note=a%0Db", "note"));
  CHECK_FALSE(parse_form("note=a%00b", "note"));
  CHECK_FALSE(parse_form("=a%0Ab", ""));
}

TEST_CASE("an address is split first and decoded then") {
  Problem problem;
  CHECK(parse_address("/", problem)->parts.empty());
  CHECK(parse_address("/index.json", problem)->json);
  CHECK(parse_address("/index.json", problem)->parts.empty());
  const auto a = parse_address("/tables/a%2Fb/%C3%BC/gpu%28A%20b%29.json?page=2&x=1+2%2B", problem);
  REQUIRE(a);
  CHECK(a->parts == std::vector<std::string>{"tables", "a/b", "ü", "gpu(A b)"});
  CHECK(a->json);
  CHECK(a->query.at("page") == "2");
  CHECK(a->query.at("x") == "1 2+");
  CHECK(parse_address("/a+b", problem)->parts[0] == "a+b");
}

TEST_CASE("malformed addresses are refused with a fitting status") {
  for (const char* bad : {"", "x", "http://x/", "*", "/%", "/%4", "/%zz", "/%00", "/%0a", "/%7f", "/%C2%85",
                          "/%ff", "/%C0%80", "/?a=%0", "/?a=1&a=2", "/a b", "/\x80", "/#x", "/?%00=1"}) {
    CAPTURE(bad);
    CHECK(status_of(bad) == 400);
  }
  CHECK(status_of("/a//b") == 404);
  CHECK(status_of("//") == 404);
  CHECK(status_of("/a/") == 404);
  CHECK(status_of("/" + std::string(kLongestAddress, 'a')) == 414);
  CHECK(status_of("/" + std::string(kLongestAddress - 1, 'a')) == 200);
}

TEST_CASE("forms") {
  const auto f = parse_form("a=1&&b=x%26y&c&=z");
  REQUIRE(f);
  CHECK(f->at("a") == "1");
  CHECK(f->at("b") == "x&y");
  CHECK(f->at("c").empty());
  CHECK_FALSE(parse_form("a=%"));
  CHECK_FALSE(parse_form("a=1&a=1"));
}

TEST_CASE("numbers in addresses are whole and positive") {
  CHECK(parse_id("1") == 1);
  CHECK(parse_id("999999999999999999") == 999999999999999999);
  for (const char* bad : {"", "0", "01", "-1", "+1", "1x", " 1", "1e3", "9999999999999999999"})
    CHECK_FALSE(parse_id(bad));
}

TEST_CASE("versions: weak comparison, lists, any") {
  CHECK(has_version("W/\"a\"", "W/\"a\""));
  CHECK(has_version("\"a\"", "W/\"a\""));
  CHECK(has_version("\"b\" , W/\"a\"", "W/\"a\""));
  CHECK(has_version("*", "W/\"a\""));
  CHECK_FALSE(has_version("", "W/\"a\""));
  CHECK_FALSE(has_version("\"b\"", "W/\"a\""));
  CHECK_FALSE(has_version(",,", "W/\"a\""));
}

TEST_CASE("JSON is for those who ask for it and not for HTML") {
  CHECK(accepts_json("application/json"));
  CHECK_FALSE(accepts_json("text/html,application/json"));
  CHECK_FALSE(accepts_json("*/*"));
  CHECK_FALSE(accepts_json(""));
}

TEST_CASE("a rate limit is of an address and fills again") {
  RateLimit limit(6);
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 6; ++i) CHECK(limit.take("a", start) == 0);
  CHECK(limit.take("a", start) == 10);
  CHECK(limit.take("b", start) == 0);
  CHECK(limit.take("a", start + std::chrono::seconds(4)) == 6);
  CHECK(limit.take("a", start + std::chrono::seconds(11)) == 0);
  CHECK(limit.take("a", start + std::chrono::seconds(11)) > 0);
  for (int i = 0; i < 10000; ++i) limit.take("address " + std::to_string(i), start);  // memory has an end
  CHECK(limit.take("a", start + std::chrono::hours(1)) == 0);
}

TEST_CASE("places are returned") {
  Places places(2);
  const Places::Place one(places);
  {
    const Places::Place two(places), three(places);
    CHECK(static_cast<bool>(two));
    CHECK_FALSE(static_cast<bool>(three));
  }
  CHECK(static_cast<bool>(one));
  CHECK(static_cast<bool>(Places::Place(places)));
}
