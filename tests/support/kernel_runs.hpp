// Bundles of kernels, and synthetic matches of them.
#pragma once

#include <support/board.hpp>
#include <tinymlperf/judge/results/kernel_run.hpp>

namespace test {

// The library's bundle has `name` "library"; the content of the plugin does not matter here.
inline std::string kernel_bundle(const std::string& name, const std::string& tier = "T2",
                                 const std::string& hardware = "cpu-mt") {
  tinymlperf::bundle::Manifest m = manifest(name);
  m.tier = tier, m.hardware = hardware;
  m.division = "kernel", m.benchmarks = {"krn"}, m.scenarios = {"single_stream"};
  return tinymlperf::bundle::pack(m, {{"plugin.cpp", "// " + name + "\nint main() { return 0; }\n"}});
}

struct KernelRecipe {
  std::string run_class = "ranked", hardware = "cpu-mt", tier = "T2";
  std::array<double, 2> speedup{2, 0.5};  // speedups of softmax and matmul
  std::string wrong = {};                 // the error of softmax; empty: softmax is correct
  std::string out = {};
  double noise = 0.01;
  uint64_t seed = 1;
};

// A synthetic run of twelve blocks of three queries; the second contender takes 1 / speedup of the first
// one's time.
inline tinymlperf::judge::kernels::KernelRun kernel_run(const std::pair<std::string, std::string>& baseline,
                                                        const std::pair<std::string, std::string>& contender,
                                                        const KernelRecipe& recipe = {}) {
  using namespace tinymlperf::judge::kernels;
  KernelRun d;
  d.run_class = recipe.run_class, d.hardware = recipe.hardware;
  d.date = tinymlperf::utc_text(static_cast<std::time_t>(clock_now));
  d.seed = recipe.seed ^ (uint64_t{1} << 63);
  d.machine = {{"cpu", "a processor"}, {"date", d.date}}, d.sandbox = {{"landlock", true}};
  tinytorch::Generator random(recipe.seed);
  for (const auto* who : {&baseline, &contender}) {
    KernelContenderRecord c{who->first, recipe.tier, who == &contender ? recipe.out : "", 4096};
    c.bundle = who->second;
    c.audits = {{"A6", "floor", true, "far above it"}};
    for (const size_t i : {0u, 1u}) {
      OpRecord op{i == 0 ? "softmax" : "matmul", "right"};
      const double seconds = 0.001 / (who == &contender ? recipe.speedup[i] : 1);
      for (const char* kind : {"public", "hidden"}) {
        CaseRecord one{kind, "ordinary", {8, 3}, 72, 72};
        for (int turn = 0; turn < 24; ++turn) {
          one.turns.emplace_back();
          for (int q = 0; q < 3; ++q)
            one.turns.back().push_back(seconds * std::exp(recipe.noise * (random.uniform(0.0, 1.0) - 0.5)));
        }
        op.cases.push_back(std::move(one));
      }
      if (i == 0 && who == &contender && !recipe.wrong.empty())
        op.state = "wrong", op.reason = recipe.wrong, op.cases[0].right = 3;
      c.ops.push_back(std::move(op));
    }
    d.contenders.push_back(std::move(c));
  }
  return d;
}

// A leaderboard with kernels only.
struct KernelBoard : BoardFolder {
  explicit KernelBoard(std::string hardware_class = "cpu-mt")
      : store(path, Board::with_clock({})), hardware(std::move(hardware_class)) {
    user = store.user_of(store.add_user("Ada")).value();
    baseline = store.submit_baseline(user, kernel_bundle("library", "T2", hardware));
  }
  std::pair<std::string, std::string> who(int64_t submission) {
    return {store.manifest(submission).value().name,
            tinymlperf::bundle::sha256(store.bundle_bytes(submission).value())};
  }
  int64_t submit(const std::string& name) {
    return store.submit(user, kernel_bundle(name, "T2", hardware)).submission;
  }
  tinymlperf::judge::kernels::KernelRun result(const tinymlperf::board::Claim& c, KernelRecipe recipe = {}) {
    recipe.hardware = c.hardware, recipe.seed += static_cast<uint64_t>(c.job) * 1000;
    return kernel_run(who(c.against), who(c.submission), recipe);
  }
  // Completes every waiting job with this recipe, and returns the number of the last run.
  int64_t work_off(const KernelRecipe& recipe = {}) {
    int64_t run = 0;
    while (const auto claim = store.queue().claim(hardware))
      run = store.queue().finish(*claim, result(*claim, recipe));
    return run;
  }

  tinymlperf::board::Store store;
  std::string hardware;
  int64_t user = 0, baseline = 0;
};

}  // namespace test
