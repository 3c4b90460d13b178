#include <tinytorch/serving/simulator.hpp>

#include <support/errors.hpp>
#include <tinytorch/core/random.hpp>

using namespace tinytorch::serving;

namespace {

std::vector<Arrival> random_arrivals(uint64_t seed, int64_t count, double rate, int64_t longest_prompt,
                                     int64_t longest_text) {
  tinytorch::Generator generator(seed);
  std::vector<Arrival> out;
  double at = 0;
  for (int64_t i = 0; i < count; ++i) {
    at += -std::log(1 - generator.uniform()) / rate;
    Arrival a{.at = at, .request = {.id = i}};
    a.request.prompt = 1 + static_cast<int64_t>(generator.uniform(0, static_cast<double>(longest_prompt)));
    a.request.most_new = longest_text;
    a.ends_after =
        1 + static_cast<int64_t>(std::pow(generator.uniform(), 3) * static_cast<double>(longest_text));
    out.push_back(a);
  }
  return out;
}

}  // namespace

TEST_CASE("with any sizes every request ends, and no step breaks a promise") {
  tinytorch::Generator generator(1);
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(generator.uniform(0, static_cast<double>(n)));
  };
  int64_t preemptions = 0;
  for (uint64_t run = 0; run < 300; ++run) {
    SchedulerOptions o;
    o.page = 1 + below(20);
    o.budget = 1 + below(60);
    o.sequences = 1 + below(12);
    const int64_t prompt = 1 + below(50), text = 1 + below(40);
    o.pages = tinytorch::ceil_div(prompt + text, o.page) + below(8);
    o.batching = below(4) == 0 ? Batching::static_batch : Batching::continuous;
    const std::vector<Arrival> arrivals =
        random_arrivals(run, 30, 1 + 100 * generator.uniform(), prompt, text);
    const SimulationReport r = simulate(o, arrivals);
    CHECK(r.requests.size() == 30);
    for (const Arrival& a : arrivals) {
      const RequestReport& request = r.requests.at(a.request.id);
      if (request.written != a.ends_after || request.end < request.first_token || request.first_token <= a.at)
        FAIL("run ", run);
    }
    CHECK(r.most_pages <= o.pages);
    preemptions += r.preemptions;
  }
  CHECK(preemptions > 100);
}

TEST_CASE("the same arrivals give the same report, and a request's wait is bounded by those before it") {
  const std::vector<Arrival> arrivals = random_arrivals(5, 200, 40, 100, 60);
  const SchedulerOptions o{.budget = 64, .sequences = 16, .pages = 60, .page = 16};
  const SimulationReport a = simulate(o, arrivals), b = simulate(o, arrivals);
  CHECK(a.seconds == b.seconds);
  CHECK(a.steps == b.steps);
  // First come, first served: no request begins before one that came earlier has begun.
  double last = 0;
  for (const auto& [id, r] : a.requests) {
    if (r.preemptions > 0) continue;
    CHECK(r.first_token >= last - 1.0);
    last = std::max(last, r.first_token);
  }
}

TEST_CASE("continuous batching writes more than 2.5 times as many tokens a second as static batches") {
  // Few texts are long, so most of a static batch has ended while its longest goes on.
  const std::vector<Arrival> arrivals = random_arrivals(7, 400, 1e6, 60, 400);
  SchedulerOptions o{.budget = 512, .sequences = 32, .pages = 2000, .page = 16};
  const StepCost weights{.fixed = 5e-3, .per_token = 1e-5, .per_cached_token = 1e-8};
  const double continuous = simulate(o, arrivals, weights).tokens_per_s();
  o.batching = Batching::static_batch;
  CHECK(continuous > 2.5 * simulate(o, arrivals, weights).tokens_per_s());
}

TEST_CASE("a long prompt does not stop the others: steps stay within the budget's time") {
  std::vector<Arrival> arrivals;
  for (int64_t i = 0; i < 8; ++i) arrivals.push_back({.request = {.id = i, .prompt = 10, .most_new = 200}});
  arrivals.push_back({.at = 0.2, .request = {.id = 8, .prompt = 4000, .most_new = 1}});
  const StepCost cost{.fixed = 1e-3, .per_token = 1e-4, .per_cached_token = 0};
  const SimulationReport chunked =
      simulate({.budget = 64, .sequences = 16, .pages = 1000, .page = 16}, arrivals, cost);
  const SimulationReport whole =
      simulate({.budget = 5000, .sequences = 16, .pages = 1000, .page = 16}, arrivals, cost);
  // The steps of the others take 7.4 ms at most with chunks; without, one takes 0.4 s.
  CHECK(chunked.requests.at(0).end < 200 * 7.5e-3);
  CHECK(chunked.requests.at(8).first_token > whole.requests.at(8).first_token);
}

TEST_CASE(
    "with a prefix cache of any size every request ends, no step breaks a promise, and beginnings are "
    "reused") {
  tinytorch::Generator generator(2);
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(generator.uniform(0, static_cast<double>(n)));
  };
  int64_t preemptions = 0, reused = 0;
  for (uint64_t run = 0; run < 300; ++run) {
    SchedulerOptions o;
    o.page = 1 + below(20);
    o.budget = 1 + below(60);
    o.sequences = 1 + below(12);
    const int64_t prompt = 1 + below(80), text = 1 + below(40);
    o.pages = tinytorch::ceil_div(prompt + text, o.page) + below(10);
    std::vector<Arrival> arrivals = random_arrivals(run, 40, 1 + 100 * generator.uniform(), prompt, text);
    for (Arrival& a : arrivals) a.group = below(3), a.shared = below(a.request.prompt + 1);
    const SimulationReport r = simulate(o, arrivals, {}, true), without = simulate(o, arrivals);
    for (const Arrival& a : arrivals) {
      const RequestReport& request = r.requests.at(a.request.id);
      if (request.written != a.ends_after || request.end < request.first_token) FAIL("run ", run);
    }
    CHECK(r.most_pages <= o.pages);
    CHECK(without.reused == 0);
    if (r.preemptions == 0 && without.preemptions == 0) CHECK(r.tokens + r.reused == without.tokens);
    preemptions += r.preemptions, reused += r.reused;
  }
  CHECK(preemptions > 100);
  CHECK(reused > 10'000);
}

TEST_CASE("32 requests with one beginning of 1600 tokens fit in the pages of three, and begin much earlier") {
  const SchedulerOptions o{.budget = 512, .sequences = 64, .pages = 340, .page = 16};
  std::vector<Arrival> arrivals;
  for (int64_t i = 0; i < 32; ++i) {
    arrivals.push_back({.at = i == 0 ? 0.0 : 1.0,  // the first one has filled the cache by then
                        .request = {.id = i, .prompt = 1632, .most_new = 48},
                        .group = 1,
                        .shared = 1600});
  }
  const SimulationReport with = simulate(o, arrivals, {}, true), without = simulate(o, arrivals);
  CHECK(with.reused == 31 * 1600);
  CHECK(with.most_pages == 100 + 31 * 5);  // 100 common pages, and 80 tokens of its own for each
  CHECK(with.preemptions == 0);
  const auto last = [](const SimulationReport& r) { return r.requests.at(31).first_token - 1; };
  CHECK(last(without) > 5 * last(with));
}
