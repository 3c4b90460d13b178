// The board as JSON: every field is present, hostile text stays data, and numbers that are not finite become
// null.
#include <doctest/doctest.h>

#include <tinymlperf/board/web/json.hpp>
#include <tinymlperf/board/web/reply.hpp>

#include <tinymlperf/board/memory_board.hpp>

using namespace tinymlperf;
using namespace tinymlperf::board;
using namespace tinymlperf::board::testing;

TEST_CASE("a submission as JSON") {
  MemoryBoard board;
  const Json s = Json::parse(json_text(to_json(*board.submission(1))));
  CHECK(s.at("name") == "lenet-int8-fused");
  CHECK(s.at("level") == "audited");
  CHECK(s.at("benchmarks") == Json{"dig"});
  CHECK(s.at("claims")[0].at("metric") == "p90 latency");
  CHECK(s.at("files")[0].at("path") == "manifest.json");
  const Json& run = s.at("runs")[0];
  CHECK(run.at("seed") == "18364758544493064720");
  CHECK(run.at("turns").size() == 24);
  CHECK(run.at("baseline_turns").size() == 24);
  CHECK(run.at("audits")[1].at("passed") == true);
  CHECK(run.at("ratio").at("low").get<double>() < run.at("ratio").at("high").get<double>());
  CHECK(run.at("system")[1].at("name") == "governor");
}

TEST_CASE("a table as JSON: unknown numbers are null, not zero") {
  MemoryBoard board;
  Table table = *board.table({"dig", "closed", "cpu-1t"});
  table.rows[0].model_bytes = 0;
  table.rows[0].score.reset();
  const Json t = to_json(table);
  CHECK(t.at("key").at("hardware") == "cpu-1t");
  CHECK(t.at("scenarios")[1].at("measure") == "throughput (samples/s)");
  CHECK(t.at("rows").size() == 9);
  CHECK(t.at("rows")[0].at("score").is_null());
  CHECK(t.at("rows")[0].at("model_bytes").is_null());
  CHECK(t.at("rows")[1].at("model_bytes") == 14800);
  CHECK(t.at("rows")[8].at("rank").is_null());
  CHECK(t.at("rows")[8].at("not_ranked") == "the judge has not run it yet");
}

TEST_CASE("every document parses, whatever the texts and numbers are") {
  MemoryBoard board(true);
  Pages pages(board, 1000);
  int documents = 0;
  const auto check = [&](std::vector<std::string> parts) {
    const Reply reply = pages({std::move(parts), {}, true}, false);
    CHECK(reply.status == 200);
    CHECK(Json::accept(reply.body));
    ++documents;
  };
  check({});
  check({"queue"});
  for (const int64_t id : board.submission_ids()) check({"submissions", std::to_string(id)});
  for (const Job& job : board.queue()) check({"jobs", std::to_string(job.id)});
  for (const TableKey& key : board.keys()) {
    std::vector<std::string> address{"tables", key.benchmark, key.division, key.hardware};
    if (key.tier == "T2") address.push_back(key.tier);
    const bool kernels = board.table(key)->kernels && key.tier == "T2";
    for (const char* view : {"", "pareto", "history"}) {
      auto parts = address;
      if (*view) parts.emplace_back(view);
      if (kernels && view == std::string("pareto"))
        CHECK(pages({parts, {}, true}, false).status == 404);
      else
        check(parts);
    }
  }
  CHECK(documents > 60);
  const TableKey hostile{hostile_texts()[0], hostile_texts()[0], hostile_texts()[0]};
  const Json t = Json::parse(json_text(to_json(*board.table(hostile))));
  CHECK(t.at("rows")[0].at("name") == hostile_texts()[0]);
  CHECK(t.at("rows")[0].at("quality").at("estimate").is_null());
}

TEST_CASE("pages of a list: all of it without a number, a slice with one") {
  MemoryBoard board;
  for (int64_t id = 2000; id < 2120; ++id)
    board.set_job({id, 1, "x", "run", "dig", "offline", JobState::queued, 0, "", "", "", ""});
  Pages pages(board, 1000);
  const auto jobs = [&](const char* page) {
    Address a{{"queue"}, {}, true};
    if (page) a.query["page"] = page;
    const Reply reply = pages(a, false);
    return reply.status == 200 ? Json::parse(reply.body).at("jobs").size() : 0;
  };
  CHECK(jobs(nullptr) == 125);
  CHECK(jobs("1") == 50);
  CHECK(jobs("3") == 25);
  CHECK(jobs("4") == 0);
}
