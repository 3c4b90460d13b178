// The forms that change something: what they hold, who may send them, and what the pages then show.
#include <doctest/doctest.h>

#include <tinymlperf/board/web/forms.hpp>

#include <tinymlperf/board/html_checker.hpp>
#include <tinymlperf/board/http_client.hpp>

using namespace tinymlperf;
using namespace tinymlperf::board;
using namespace tinymlperf::board::testing;

TEST_CASE("every form says what it must hold, and its address takes nothing else") {
  const RunningBoard site;
  for (const Form& form : forms()) {
    CAPTURE(form.address);
    const std::string target = std::string("/") + form.address;
    CHECK(site.get(target).status == 405);
    const Response answer = site.post(target, "application/x-www-form-urlencoded", "token=secret");
    CHECK(answer.status == 400);
    for (const char* number : form.numbers) CHECK(form.expectation().find(number) != std::string::npos);
    CHECK(answer.body.find(form.expectation()) != std::string::npos);
  }
}

TEST_CASE("jobs are cancelled and retried, and submissions withdrawn, by forms and by programs") {
  const RunningBoard site;
  const auto ask = [&](const char* target, const std::string& body, const char* headers = "") {
    return site.post(target, "application/x-www-form-urlencoded", body, headers);
  };
  for (const char* target : {"/cancel", "/retry"}) {
    CHECK(ask(target, "token=no&job=3").status == 401);
    CHECK(ask(target, "token=secret&job=x").status == 400);
    CHECK(ask(target, "token=secret&job=2").status == 422);
  }
  CHECK(site.get("/jobs/3").body.find("action=\"/cancel\"") != std::string::npos);
  const Response cancelled = ask("/cancel", "token=secret&job=3");
  CHECK(cancelled.status == 303);
  CHECK(cancelled.header("location") == "/jobs/3");
  CHECK(site.get("/jobs/3").body.find("<span class=\"badge\">cancelled</span>") != std::string::npos);
  CHECK(Json::parse(site.get("/jobs/3.json").body).at("state") == "cancelled");
  CHECK(site.get("/jobs/3").body.find("action=\"/retry\"") != std::string::npos);
  const Response retried =
      ask("/retry", "job=4", "Authorization: Bearer secret\r\nAccept: application/json\r\n");
  CHECK(retried.status == 201);
  CHECK(Json::parse(retried.body).at("job") == 4);
  CHECK(ask("/retry", "job=4", "Authorization: Bearer no\r\n").status == 401);

  CHECK(site.get("/submissions/5").body.find("action=\"/withdraw\"") != std::string::npos);
  CHECK(ask("/withdraw", "token=secret&submission=5").status == 422);
  CHECK(ask("/withdraw", "token=secret&submission=5&note=%3Cb%3E").status == 303);
  const Response hidden = site.get("/submissions/5");
  CHECK(HtmlChecker(hidden.body).complaints.empty());
  CHECK(hidden.body.find("Withdrawn by its owner") != std::string::npos);
  CHECK(hidden.body.find("&lt;b&gt;") != std::string::npos);
  CHECK(hidden.body.find("weights.bin") == std::string::npos);
  CHECK(Json::parse(site.get("/submissions/5.json").body).at("hidden").at("reason") == "<b>");
  CHECK(Json::parse(site.get("/submissions/1.json").body).at("hidden").is_null());
}
