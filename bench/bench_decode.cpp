// Decoding with GPT-2 124M on the CPU: one token after another, with a cache of keys and values.
//
//   bench_decode                     a step at several lengths, a prompt, and how the time of a text grows
//   bench_decode --json out.json --uncached
//   bench_decode --serve             answers requests on stdin; bench/compare_decode.py alternates it with a
//   peer
// A step reads all weights and the cached keys and values once. Its share is the speed of that relative to a
// sum over as many bytes, which runs in turn with it. The weights are random, which changes no time.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <common/guarded.hpp>
#include <common/provenance.hpp>
#include <common/results_file.hpp>
#include <gemm_race.hpp>
#include <iostream>
#include <read_bandwidth.hpp>
#include <tinytorch/transformer/generate.hpp>
#include <tinytorch/transformer/gpt2.hpp>
#include <tinytorch/transformer/hugging_face.hpp>

using nlohmann::json;
namespace tt = tinytorch;
using tt::benchmarking::SteadyClock;

namespace {

tt::Tensor tokens(int64_t count) { return tt::randint(0, 50257, {1, count}, tt::i64, tt::cpu); }

// Logits of the token after `input`, which is what generate() computes per step.
tt::Tensor step(tt::Gpt2& model, const tt::Tensor& input, tt::KvCache& cache) {
  return model.head(model.features(input, &cache).select(1, -1));
}

json steps_at(tt::Gpt2& model, tt::DType dtype, int64_t length, int64_t rounds) {
  tt::ContiguousCache cache(model.kv_shape(),
                            {.capacity = model.context(), .device = tt::cpu, .dtype = dtype});
  if (length > 0) (void)model.features(tokens(length), &cache);
  const tt::Tensor next = tokens(1);
  const int64_t weights = model.parameter_count() * 4 - model.position_embedding.weight.numel() * 4;
  const int64_t bytes = weights + length * cache.bytes_per_token();
  const tt::Tensor copy = tt::zeros({bytes}, tt::u8, tt::cpu);
  const std::vector<bench::Contender> contenders = {{"step",
                                                     [&] {
                                                       (void)step(model, next, cache);
                                                       cache.truncate(0, length);
                                                     }},
                                                    {"reading", [&] { bench::read_all(copy); }}};
  const auto taken = bench::race(contenders, rounds, 2e-2);
  const std::vector<double> shares = bench::quartiles(taken[1], taken[0]);
  const double seconds = tt::statistics::median(taken[0]);
  fmt::print(
      "step after {:4} tokens, cache {:4}: {:7.2f} ms, {:6.1f} tokens/s, {:5.1f} GB/s, {:.2f} of reading "
      "({:.2f}-{:.2f})\n",
      length, tt::name_of(dtype), seconds * 1e3, 1 / seconds, static_cast<double>(bytes) / seconds * 1e-9,
      shares[1], shares[0], shares[2]);
  return {
      {"after", length}, {"cache", tt::name_of(dtype)},   {"seconds", seconds}, {"tokens_per_s", 1 / seconds},
      {"bytes", bytes},  {"share_of_reading", shares[1]}, {"quartiles", shares}};
}

json prompt_of(tt::Gpt2& model, int64_t length, int64_t rounds) {
  tt::ContiguousCache cache(model.kv_shape(), {.capacity = length, .device = tt::cpu});
  const tt::Tensor input = tokens(length);
  const std::vector<bench::Contender> contenders = {
      {"with a cache",
       [&] {
         cache.clear();
         (void)step(model, input, cache);
       }},
      {"without", [&] { (void)model.head(model.features(input).select(1, -1)); }}};
  const auto taken = bench::race(contenders, rounds, 2e-2);
  const double seconds = tt::statistics::median(taken[0]);
  const std::vector<double> ratios = bench::quartiles(taken[1], taken[0]);
  fmt::print(
      "prompt of {} tokens: {:.0f} ms, {:.0f} tokens/s; {:.2f} of the speed without a cache "
      "({:.2f}-{:.2f})\n",
      length, seconds * 1e3, static_cast<double>(length) / seconds, ratios[1], ratios[0], ratios[2]);
  return {{"tokens", length},
          {"seconds", seconds},
          {"tokens_per_s", static_cast<double>(length) / seconds},
          {"of_uncached", ratios[1]},
          {"quartiles", ratios}};
}

// Seconds for a text of `count` tokens after a prompt of one.
double text_of(tt::Gpt2& model, int64_t count, bool cache) {
  const std::vector<int32_t> prompt{50256};
  const SteadyClock clock;
  const double start = clock();
  (void)tt::generate(model, prompt,
                     {.max_tokens = count,
                      .sampling = {.temperature = 0},
                      .cache = cache,
                      .end_tokens = std::vector<int64_t>{}});
  return clock() - start;
}

json growth(tt::Gpt2& model, int64_t rounds, bool uncached) {
  std::vector<double> half, whole;
  for (int64_t r = 0; r < rounds; ++r)
    half.push_back(text_of(model, 500, true)), whole.push_back(text_of(model, 1000, true));
  const std::vector<double> ratios = bench::quartiles(whole, half);
  json out = {{"seconds_500", tt::statistics::median(half)},
              {"seconds_1000", tt::statistics::median(whole)},
              {"ratio", ratios[1]},
              {"quartiles", ratios}};
  fmt::print("a text of 1000 tokens: {:.1f} s, {:.2f} times one of 500 ({:.2f}-{:.2f})\n",
             out["seconds_1000"].get<double>(), ratios[1], ratios[0], ratios[2]);
  if (uncached) {
    const double without = text_of(model, 1000, false);
    out["seconds_1000_uncached"] = without;
    fmt::print("without a cache: {:.1f} s, {:.1f} times as long\n", without,
               without / out["seconds_1000"].get<double>());
  }
  return out;
}

// {"save": FOLDER} writes the weights. {"prompt": [tokens]} computes these from the start and answers
// "seconds" and "next", the most likely token; {"next": TOKEN} goes on with one token.
int serve(tt::Gpt2& model) {
  tt::ContiguousCache cache(model.kv_shape(), {.capacity = model.context(), .device = tt::cpu});
  const SteadyClock clock;
  for (std::string line; std::getline(std::cin, line);) {
    const json request = json::parse(line);
    json answer = json::object();
    if (request.contains("save")) tt::save_hugging_face(model, request.at("save").get<std::string>());
    if (request.contains("prompt")) cache.clear();
    if (request.contains("prompt") || request.contains("next")) {
      std::vector<int64_t> ids = request.contains("next") ? std::vector<int64_t>{request.at("next")}
                                                          : request.at("prompt").get<std::vector<int64_t>>();
      const double start = clock();
      const tt::Tensor logits = step(model, tt::from_data(ids, {1, std::ssize(ids)}, tt::cpu), cache);
      const auto next = tt::argmax(logits, -1).item<int64_t>();
      answer = {{"seconds", clock() - start}, {"next", next}};
    }
    std::cout << answer.dump() << std::endl;
  }
  return 0;
}

int run(int argc, char** argv) {
  CLI::App app{"Decoding with GPT-2 124M on the CPU, with a cache of keys and values"};
  int64_t rounds = 11;
  bool uncached = false, serving = false;
  int threads = 0;
  std::string path;
  app.add_option("--rounds", rounds, "rounds of each measurement")->check(CLI::Range(1, 1000));
  app.add_flag("--uncached", uncached,
               "also write a text of 1000 tokens without a cache, which takes minutes");
  app.add_option("--threads", threads, "worker threads; 0: one for each processor")
      ->check(CLI::Range(0, 1024));
  app.add_flag("--serve", serving, "answer requests on standard input");
  app.add_option("--json", path, "also write the numbers here");
  CLI11_PARSE(app, argc, argv);
  if (threads > 0) tt::set_thread_count(threads);
  const bench::ResultsFile file(path);
  json out = {{"machine", bench::provenance()}, {"rounds", rounds}, {"threads", tt::thread_count()}};
  tt::manual_seed(1);
  tt::Gpt2 model(tt::Gpt2Config{});
  model.eval();
  const tt::NoGrad no_grad;
  if (serving) return serve(model);
  for (const tt::DType dtype : {tt::f32, tt::bf16, tt::i8}) {
    for (const int64_t length : {16, 512, 1000}) {
      out["steps"].push_back(steps_at(model, dtype, length, rounds));
      file.keep(out);
    }
  }
  out["prompt"] = prompt_of(model, 512, std::min<int64_t>(rounds, 7));
  file.keep(out);
  out["growth"] = growth(model, std::min<int64_t>(rounds, 3), uncached);
  file.finish(out);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::guarded("bench_decode", [&] { return run(argc, argv); });
}
