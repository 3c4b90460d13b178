// A leaderboard for tests: a folder with a database, a clock that the test sets, and synthetic runs.
#pragma once

#include <atomic>
#include <cmath>
#include <string>
#include <support/bundles.hpp>
#include <tinymlperf/board/store/store.hpp>
#include <utility>
#include <vector>

namespace test {

inline std::atomic<double> clock_now = 1.8e9;  // seconds since 1970; a server's threads read it
inline double read_clock() { return clock_now; }

// Parameters of a synthetic match of two: the second contender takes 1 / speedup of the first one's time.
struct RunRecipe {
  std::string benchmark = "dig", scenario = "single_stream", run_class = "ranked", hardware = "cpu-mt";
  double speedup = 1, noise = 0.01;
  uint64_t seed = 1;
  tinymlperf::judge::Interval quality{0.97, 0.96, 0.98}, baseline_quality{0.95, 0.94, 0.96};
  int64_t model_bytes = 1000, peak_bytes = 0;
  int queries = 20;  // per turn
  std::vector<tinymlperf::judge::AuditResult> audits{};
};

inline tinymlperf::judge::RunDocument run_document(const std::pair<std::string, std::string>& baseline,
                                                   const std::pair<std::string, std::string>& contender,
                                                   const RunRecipe& recipe = {}) {
  using namespace tinymlperf::judge;
  RunDocument d;
  d.benchmark = recipe.benchmark, d.scenario = scenario_named(recipe.scenario),
  d.run_class = recipe.run_class;
  d.hardware = recipe.hardware, d.date = tinymlperf::utc_text(static_cast<std::time_t>(clock_now));
  d.seed = recipe.seed ^ (uint64_t{1} << 63), d.hidden_samples = 1000;
  d.quality_metric = "accuracy", d.quality_floor = 0.8;
  d.machine = {{"cpu", "a processor"}, {"threads", 2}, {"date", d.date}};
  d.sandbox = {{"landlock", true}};
  tinytorch::Generator random(recipe.seed);
  for (const auto* who : {&baseline, &contender}) {
    ContenderRecord c;
    c.name = who->first, c.bundle = who->second;
    c.quality = who == &baseline ? recipe.baseline_quality : recipe.quality;
    c.model_bytes = who == &baseline ? 1000 : recipe.model_bytes;
    if (who == &contender) c.audits = recipe.audits;
    c.peak_bytes = recipe.peak_bytes;
    const double seconds = 0.001 / (who == &baseline ? 1 : recipe.speedup);
    for (int turn = 0; turn < 24; ++turn) {
      Turn t{0, 0, {}};
      for (int i = 0; i < recipe.queries; ++i) {
        t.latencies.push_back(seconds * std::exp(recipe.noise * (random.uniform(0.0, 1.0) - 0.5)));
        if (generates(d.scenario)) t.tokens.push_back(8), t.to_first.push_back(t.latencies.back() / 4);
        t.seconds += t.latencies.back(), ++t.samples;
      }
      c.turns.push_back(std::move(t));
    }
    d.contenders.push_back(std::move(c));
  }
  return d;
}

struct BoardFolder {
  tinymlperf::TemporaryFolder folder;
  std::filesystem::path path = folder.path() / "board.db";
};

// A store with one user, and the baseline "base" of the open division of the digits.
struct Board : BoardFolder {
  explicit Board(tinymlperf::board::StoreOptions options = {})
      : store(path, with_clock(options)), token(store.add_user("Ada")), user(store.user_of(token).value()) {
    baseline = store.submit_baseline(user, bundle_bytes("base"));
  }
  static tinymlperf::board::StoreOptions with_clock(tinymlperf::board::StoreOptions options) {
    options.clock = options.queue.monotonic = read_clock;
    return options;
  }
  // Name and digest of a submission, by which a run identifies a contender.
  std::pair<std::string, std::string> who(int64_t submission) {
    return {store.manifest(submission).value().name,
            tinymlperf::bundle::sha256(store.bundle_bytes(submission).value())};
  }
  tinymlperf::judge::RunDocument result(const tinymlperf::board::Claim& c, RunRecipe recipe = {}) {
    recipe.benchmark = c.benchmark, recipe.scenario = c.scenario, recipe.hardware = c.hardware;
    recipe.seed += static_cast<uint64_t>(c.job) * 1000;
    return run_document(who(c.against), who(c.submission), recipe);
  }
  int64_t submit(const std::string& name, uint64_t seed = 1) {
    return store.submit(user, bundle_bytes(name, seed)).submission;
  }
  // Completes every waiting job with this recipe.
  void work_off(const RunRecipe& recipe = {}, const std::string& hardware = "cpu-mt") {
    while (const auto claim = store.queue().claim(hardware))
      store.queue().finish(*claim, result(*claim, recipe));
  }

  tinymlperf::board::Store store;
  std::string token;
  int64_t user = 0, baseline = 0;
};

}  // namespace test
