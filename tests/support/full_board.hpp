// A leaderboard as a course may fill it: entries in two tables, all measured but the last, and a direct
// match.
#pragma once

#include <map>
#include <support/board.hpp>
#include <tinytorch/core/random.hpp>

namespace test {

// Adds entries; every third one uses one thread. The quota of `b` must allow all of them.
inline void fill(Board& b, int64_t entries, int queries_of_a_turn = 100) {
  tinytorch::Generator random(11);
  std::map<int64_t, RunRecipe> recipes;
  const auto measure = [&](const char* hardware) {
    while (const auto claim = b.store.queue().claim(hardware))
      b.store.queue().finish(*claim, b.result(*claim, recipes.at(claim->submission)));
  };
  int64_t last = 0;
  for (int64_t i = 0; i < entries; ++i) {
    auto m = manifest("net-" + std::to_string(i), i % 2 ? "Ada" : "Grace");
    m.hardware = i % 3 == 2 ? "cpu-1t" : "cpu-mt";
    m.notes = "int8 weights, ReLU folded into each convolution";
    last = b.store.submit(b.user, tinymlperf::bundle::pack(m, entry_files(m.name, static_cast<uint64_t>(i))))
               .submission;
    RunRecipe& r = recipes[last];
    const double quality = random.uniform(0.9, 0.99);
    r.speedup = std::exp(random.uniform(-0.3, 1.0)), r.noise = 0.2;
    r.quality = {quality, quality - 0.003, quality + 0.003};
    r.model_bytes = static_cast<int64_t>(random.uniform(1e4, 1e6)), r.peak_bytes = 2 * r.model_bytes;
    r.queries = queries_of_a_turn;
    r.audits = {{"A1", "sampled accuracy", true, "answers of timed and graded turns agree"},
                {"A2", "same sample", i % 7 != 3, "0.4 % faster"}};
    if (i + 2 < entries) measure("cpu-mt"), measure("cpu-1t");
    clock_now += 600;
  }
  if (last > b.baseline + 3) b.store.request_head_to_head(b.user, b.baseline + 1, b.baseline + 2);
}

}  // namespace test
