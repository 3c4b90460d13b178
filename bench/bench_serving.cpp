// Serving a language model: the rate of requests at which even slow answers are fast enough, with continuous
// and with static batches of the same engine.
//
//   bench_serving --device cuda --json FILE     GPT-2 124M, bf16
//   bench_serving --device cuda --sampled
//   bench_serving                               a GPT of 2 layers and width 64, f32, on the CPU
//
// Prompts have 16 to 256 tokens. Answers have at least 4 tokens and at most 400; their lengths fall off
// exponentially, with a mean of about 90: many are short and a few are long. Requests arrive independently of
// each other. An answer is fast enough if it ends within a bound after the request arrived: twice as long as
// the longest answer takes if all places of the engine write. The rate of a policy is the largest one at
// which 99 of 100 answers are fast enough, found by bisection. Requests arrive for six times the bound, so
// that they queue up beyond it if they arrive a sixth faster than they are served.
//
// Time is the sum of the measured times of the engine's steps; where the engine has nothing to do, it jumps
// to the next arrival. Answers are greedy, or with --sampled drawn with temperature 0.8 and top-p 0.95. The
// weights are random.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <tinytorch/benchmarking/clock.hpp>
#include <tinytorch/benchmarking/statistics.hpp>
#include <tinytorch/serving/engine.hpp>
#include <tinytorch/transformer/gpt2.hpp>

#include <common/guarded.hpp>
#include <common/provenance.hpp>
#include <common/results_file.hpp>
#if TINYTORCH_WITH_CUDA
#include <common/gpu_results.hpp>
#endif

using nlohmann::json;
namespace tt = tinytorch;
namespace serving = tinytorch::serving;

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int64_t kPlaces = 64, kPage = 16, kLongest = 400, kMostPrompt = 256;

// Arrivals are those of one request a second.
struct Request {
  double arrival;
  std::vector<int32_t> prompt;
  int64_t tokens;  // of the answer
};

std::vector<Request> requests_of(int64_t count, int64_t vocabulary, uint64_t seed) {
  std::mt19937_64 bits(seed);
  const auto unit = [&] { return (static_cast<double>(bits() >> 11) + 0.5) * 0x1p-53; };  // in (0, 1)
  const auto exponential = [&](double mean) { return -mean * std::log(unit()); };
  std::vector<Request> all;
  double now = 0;
  for (int64_t i = 0; i < count; ++i) {
    now += exponential(1);
    Request r{now, {}, std::min(kLongest, 4 + static_cast<int64_t>(exponential(90)))};
    r.prompt.resize(16 + static_cast<size_t>(unit() * (kMostPrompt - 15)));
    for (int32_t& token : r.prompt) token = static_cast<int32_t>(unit() * static_cast<double>(vocabulary));
    all.push_back(std::move(r));
  }
  return all;
}

struct Served {
  std::vector<double> seconds{};  // of each request, from its arrival to its end
  double end = 0;                 // of the last request
  int64_t tokens = 0, steps = 0;  // tokens of answers
  bool fast_enough = true;
};

class Bench {
 public:
  Bench(const tt::Gpt2Config& config, tt::Device device, tt::DType dtype, bool sampled)
      : model_(placed(config, device, dtype)),
        sampled_(sampled),
        requests_(requests_of(20000, config.vocabulary, 20)),
        continuous_(model_, options(serving::Batching::continuous)),
        static_(model_, options(serving::Batching::static_batch)) {}

  // Serves the first `count` requests at `rate` requests a second, all at once if that is infinite. It ends
  // when more than one of 100 answers have taken longer than `bound`.
  Served serve(serving::Batching batching, double rate, size_t count, double bound = kNever) {
    serving::Engine& engine = batching == serving::Batching::continuous ? continuous_ : static_;
    const tt::benchmarking::SteadyClock clock;
    const int64_t before = engine.counts().steps;
    Served served;
    std::map<int64_t, double> arrival;
    double now = 0;
    size_t slow = 0;
    for (size_t next = 0; next < count || !engine.idle();) {
      if (engine.idle() && next < count) now = std::max(now, requests_[next].arrival / rate);
      for (; next < count && requests_[next].arrival / rate <= now; ++next) {
        const Request& r = requests_[next];
        arrival[submit(engine, r)] = r.arrival / rate;
      }
      const double start = clock();
      const std::vector<serving::Ended> ended = engine.step();
      now += clock() - start;
      for (const serving::Ended& e : ended) {
        served.seconds.push_back(now - arrival.at(e.id));
        slow += served.seconds.back() > bound ? 1 : 0;
        served.tokens += static_cast<int64_t>(e.text.tokens.size());
      }
      if (slow * 100 > count) {
        for (const auto& [id, when] : arrival) engine.cancel(id);
        break;
      }
    }
    served.fast_enough = slow * 100 <= count;
    served.end = now, served.steps = engine.counts().steps - before;
    return served;
  }

  // Seconds of the longest answer while all places of the engine write.
  double longest_answer() {
    for (int64_t i = 0; i < kPlaces; ++i) {
      Request r = requests_[static_cast<size_t>(i) % requests_.size()];
      r.tokens = kLongest;
      submit(continuous_, r);
    }
    const tt::benchmarking::SteadyClock clock;
    const double start = clock();
    while (!continuous_.idle()) continuous_.step();
    return clock() - start;
  }

 private:
  // There are pages for all places at their longest, so that memory limits neither policy. A static batch
  // must fit one step, or it would have fewer requests.
  static serving::EngineOptions options(serving::Batching batching) {
    serving::EngineOptions o;
    o.scheduler = {.budget = batching == serving::Batching::continuous ? 512 : kPlaces * kMostPrompt,
                   .sequences = kPlaces,
                   .pages = kPlaces * (kMostPrompt + kLongest + kPage) / kPage,
                   .page = kPage,
                   .batching = batching};
    o.batch_invariant = false;
    return o;
  }
  int64_t submit(serving::Engine& engine, const Request& r) const {
    tt::GenerateOptions how{.max_tokens = r.tokens, .sampling = {.temperature = 0}};
    if (sampled_) how.sampling = {.temperature = 0.8, .top_p = 0.95};
    how.end_tokens = std::vector<int64_t>{};
    return engine.submit({r.prompt, how});
  }

  static tt::Gpt2 placed(const tt::Gpt2Config& config, tt::Device device, tt::DType dtype) {
    tt::Gpt2 model(config);
    model.to(device);
    model.to(dtype);
    model.eval();
    return model;
  }

  tt::Gpt2 model_;
  bool sampled_;
  std::vector<Request> requests_;
  serving::Engine continuous_, static_;
};

// The largest rate at which 99 of 100 answers end within the bound. `rate` is a first guess.
json best_rate(Bench& bench, serving::Batching batching, double bound, double rate) {
  json tried = json::array();
  const auto passes = [&](double r) {
    const auto count = static_cast<size_t>(std::clamp(6 * bound * r, 200.0, 20000.0));
    const Served s = bench.serve(batching, r, count, bound);
    tried.push_back({{"rate", r},
                     {"p50_seconds", tt::statistics::median(s.seconds)},
                     {"p99_seconds", tt::statistics::percentile(s.seconds, 99)},
                     {"fast_enough", s.fast_enough},
                     {"tokens_per_s", static_cast<double>(s.tokens) / s.end},
                     {"tokens_per_step", static_cast<double>(s.tokens) / static_cast<double>(s.steps)}});
    return s.fast_enough;
  };
  double low = 0, high = 0;
  for (int i = 0; i < 10 && (low == 0 || high == 0); ++i) {
    if (passes(rate))
      low = rate, rate *= 2;
    else
      high = rate, rate /= 2;
  }
  if (low == 0 || high == 0) throw std::runtime_error("no rate is at the bound\n  hint: another --bound");
  for (int i = 0; i < 5; ++i) (passes(std::sqrt(low * high)) ? low : high) = std::sqrt(low * high);
  return {{"rate", low}, {"tried", tried}};
}

int run(int argc, char** argv) {
  CLI::App app{"Serving: rate of requests at a bound of the 99th percentile"};
  std::string device_name = "cpu", path;
  int64_t rounds = 3;
  double bound = 2;
  app.add_option("--device", device_name)->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--rounds", rounds, "rounds of both policies; the median counts")->check(CLI::Range(1, 99));
  app.add_option("--bound", bound, "times the time of the longest answer")->check(CLI::PositiveNumber);
  bool sampled = false;
  app.add_flag("--sampled", sampled, "draw tokens instead of taking the best ones");
  app.add_option("--json", path, "file of results");
  CLI11_PARSE(app, argc, argv);
  const bool on_gpu = device_name == "cuda";
  json results{{"machine", bench::provenance()}};
#if TINYTORCH_WITH_CUDA
  if (on_gpu) {
    bench::require_gpu("without --device cuda the CPU is measured");
    results = bench::gpu_results(rounds);
  }
#else
  if (on_gpu)
    throw std::runtime_error("this build has no CUDA\n  hint: configure with TINYTORCH_WITH_CUDA=ON");
#endif
  const bench::ResultsFile file(path);
  tt::manual_seed(1);
  tt::Gpt2Config config{.vocabulary = 50304};
  if (!on_gpu) config.vocabulary = 512, config.features = 64, config.layers = 2, config.heads = 2;
  Bench bench(config, on_gpu ? tt::cuda : tt::cpu, on_gpu ? tt::bf16 : tt::f32, sampled);
  for (const auto batching : {serving::Batching::continuous, serving::Batching::static_batch})
    bench.serve(batching, kNever, 200);  // warms up
  const double longest = bench.longest_answer(), limit = bound * longest;
  std::printf("the longest answer takes %.3f s in a full batch; bound: %.3f s\n", longest, limit);
  std::fflush(stdout);
  results["sampled"] = sampled;
  results["longest_seconds"] = longest, results["bound_seconds"] = limit;
  std::vector<double> ratios;
  double guess = static_cast<double>(kPlaces) / longest;
  for (int64_t i = 0; i < rounds; ++i) {
    const json continuous = best_rate(bench, serving::Batching::continuous, limit, guess),
               in_batches = best_rate(bench, serving::Batching::static_batch, limit, guess / 2);
    const double fast = continuous["rate"], slow = in_batches["rate"];
    guess = fast, ratios.push_back(fast / slow);
    results["turns"].push_back({{"continuous", continuous}, {"static", in_batches}, {"ratio", fast / slow}});
    file.keep(results);
    std::printf("continuous %.2f, static %.2f requests/s: %.2f\n", fast, slow, fast / slow);
    std::fflush(stdout);
  }
  results["ratio"] = tt::statistics::median(ratios);
  std::printf("continuous batches serve %.2f times the rate of static ones (median of %ld)\n",
              tt::statistics::median(ratios), static_cast<long>(rounds));
  file.finish(results);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::guarded("bench_serving", [&] { return run(argc, argv); });
}
