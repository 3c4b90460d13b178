// The document of a match of kernels: numbers that follow from the samples, and documents that are refused.
#include <doctest/doctest.h>

#include <tinymlperf/judge/results/kernel_run.hpp>
#include <tinymlperf/judge/results/verify_run.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinymlperf;
using namespace tinymlperf::judge;
using namespace tinymlperf::judge::kernels;

namespace {

// Twelve turns of three queries, of which the median takes so many seconds.
CaseRecord timed(const std::string& kind, const Shape& sides, double seconds) {
  CaseRecord c{kind, kind == "adversarial" ? "huge" : "ordinary", sides, 36, 36};
  for (int turn = 0; turn < 12; ++turn) c.turns.push_back({0.5 * seconds, seconds, 9 * seconds});
  c.channel = std::vector<double>(12, 1e-4);
  return c;
}

// Two ops of two public shapes each.
KernelContenderRecord contender(const std::string& name, std::array<double, 4> seconds) {
  KernelContenderRecord c{name};
  for (size_t op = 0; op < 2; ++op) {
    c.ops.push_back({op == 0 ? "softmax" : "matmul", "right"});
    for (size_t i = 0; i < 2; ++i)
      c.ops[op].cases.push_back(timed("public", {8, static_cast<int64_t>(i) + 1}, seconds[2 * op + i]));
    c.ops[op].cases.push_back(timed("hidden", {3, 5}, 1e-3));
    c.ops[op].cases.push_back(timed("adversarial", {3, 5}, 1e-3));
  }
  return c;
}

KernelRun example() {
  KernelRun run{"ranked", "cpu-1t", "2026-01-31T12:00:00Z", 5, Json::object(), Json::object(), {}};
  run.contenders = {contender("library", {1, 2, 3, 4}), contender("student", {0.25, 1, 3, 8})};
  return run;
}

}  // namespace

TEST_CASE("an op is a mean of its shapes, the score one of its ops; both geometric") {
  const KernelRun run = example();
  const KernelContenderRecord &student = run.contenders[1], &library = run.contenders[0];
  const auto softmax = times_the_baseline(student.ops[0], library.ops[0]);
  REQUIRE(softmax);
  CHECK(softmax->estimate == doctest::Approx(std::sqrt(4.0 * 2.0)));
  CHECK(softmax->low == doctest::Approx(softmax->high));
  CHECK(times_the_baseline(student.ops[1], library.ops[1])->estimate == doctest::Approx(std::sqrt(0.5)));
  CHECK(times_the_baseline(student.ops[1], library.ops[1], "hidden")->estimate == doctest::Approx(1));
  CHECK(score_of(student, library)->estimate == doctest::Approx(std::pow(4.0 * 2.0 * 1.0 * 0.5, 0.25)));
  CHECK(score_of(library, library)->estimate == doctest::Approx(1));
  CHECK(*fast(student, library, 1) == 0.5);
  CHECK(*fast(student, library, 1.5) == 0.5);
  CHECK(*fast(student, library, 2) == 0.25);
  CHECK(*fast(library, library, 1) == 0);
  CHECK(quality_of(student)->estimate == 1);
}

TEST_CASE("an op that is absent or wrong has no ratio, leaves the score alone, and is not fast") {
  for (const char* state : {"absent", "wrong", "unasked"}) {
    KernelRun run = example();
    run.contenders[1].ops[0].state = state;
    const KernelContenderRecord &student = run.contenders[1], &library = run.contenders[0];
    CHECK_FALSE(times_the_baseline(student.ops[0], library.ops[0]));
    CHECK(score_of(student, library)->estimate == doctest::Approx(std::sqrt(0.5)));
    CHECK(*fast(student, library, 1) == 0);
    CHECK(to_json(run).at("contenders")[1].at("ops_right") == 1);
  }
  KernelRun run = example();
  run.contenders[1].out = "it broke";
  CHECK_FALSE(score_of(run.contenders[1], run.contenders[0]));
  CHECK(to_json(run).at("contenders")[1].at("fast").is_null());
  CHECK(to_json(run).at("contenders")[1].at("ops_right") == 0);
  CHECK_FALSE(quality_of(KernelContenderRecord{"nobody"}));
}

TEST_CASE("a run is read as it was written, and its numbers follow from its samples") {
  const Json json = to_json(example());
  CHECK(to_json(read_kernel_run(json)) == json);
  CHECK(is_run(json));
  CHECK(verify_run(json) == "");
}

TEST_CASE("a number that was changed is named") {
  const Json json = to_json(example());
  const auto changed = [&](const char* pointer, const Json& value) {
    Json copy = json;
    copy[Json::json_pointer(pointer)] = value;
    return verify_run(copy);
  };
  CHECK(changed("/contenders/1/score/estimate", 9).find("\"student\": score is") == 0);
  CHECK(changed("/contenders/1/fast/2", 1).find("\"student\": fast is") == 0);
  CHECK(changed("/contenders/1/ops/0/times_the_baseline/low", 9).find("\"student\": ops is") == 0);
  CHECK(changed("/contenders/1/ops/0/cases/0/turns/3/1", 0.01).find("\"student\": ") == 0);
  CHECK(changed("/contenders/1/quality/estimate", 0.5).find("\"student\": quality is") == 0);
  CHECK(changed("/contenders/1/place", 1).find("the chain breaks at \"student\"") == 0);
}

TEST_CASE("a document that is no run is refused with the reason") {
  const Json json = to_json(example());
  const auto refused = [&](const char* pointer, const Json& value) -> std::string {
    Json copy = json;
    copy[Json::json_pointer(pointer)] = value;
    try {
      (void)read_kernel_run(copy);
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "";
  };
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  CHECK(has(refused("/schema", "other"), "expected the schema"));
  CHECK(has(refused("/contenders", Json::array()), "no contender"));
  CHECK(has(refused("/contenders/1/ops/0/state", "best"), "right, absent, wrong or unasked"));
  CHECK(has(refused("/contenders/1/ops/0/cases/0/right", 35), "called right"));
  CHECK(has(refused("/contenders/1/ops/0/cases/0/right", 37), "no more right answers"));
  CHECK(has(refused("/contenders/1/ops/0/cases/0/turns/0/0", 0), "positive times"));
  CHECK(has(refused("/contenders/1/ops/0/cases/0/turns/0", Json::array()), "positive times"));
  CHECK(has(refused("/contenders/1/ops/0/cases/0/kind", "secret"), "public, hidden or adversarial"));
  CHECK(has(refused("/contenders/1/ops/0/cases/0/sides", {1, 1}), "not asked the same"));
  CHECK(has(refused("/contenders/1/ops", Json::array()), "not asked the same"));
  CHECK(has(refused("/contenders/1/name", 5), "run file"));
  CHECK(has(refused("/contenders/1/ops/0/cases/0/checked", 1e308), "a whole number"));
  CHECK(has(refused("/contenders/1/ops/0/cases/0/sides", {1, 0.5}), "a whole number"));
  // A contender that was asked less often has no ratio, and says so by having none.
  Json fewer = json;
  fewer.at("contenders")[1].at("ops")[0].at("cases")[0].at("turns").erase(0);
  fewer.at("contenders")[1].at("ops")[0].at("cases")[0].at("turns").erase(0);
  CHECK_FALSE(times_the_baseline(read_kernel_run(fewer).contenders[1].ops[0],
                                 read_kernel_run(json).contenders[0].ops[0]));
}
