// Decoding with GPT-2 124M on the CPU: one token after another, with a cache of keys and values.
//
//   bench_decode                     a step at several lengths, a prompt, and how the time of a text grows
//   bench_decode --json out.json --uncached
//   bench_decode --only formats      one part: steps, prompt, growth, speculation, prefix or formats
//   bench_decode --serve             answers stdin; bench/compare_decode.py alternates it with a peer
//
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
#include <tinytorch/kv_cache/prefix.hpp>
#include <tinytorch/quantization/model.hpp>
#include <tinytorch/transformer/gpt2.hpp>
#include <tinytorch/transformer/hugging_face.hpp>
#include <tinytorch/transformer/speculative.hpp>

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
  const tt::DType of_weights = model.position_embedding.weight.dtype();
  const int64_t read = model.parameter_count() - model.position_embedding.weight.numel();
  const int64_t bytes =
      read * static_cast<int64_t>(tt::size_of(of_weights)) + length * cache.bytes_per_token();
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
      "step after {:4} tokens, weights {:4}, cache {:4}: {:7.2f} ms, {:6.1f} tokens/s, {:5.1f} GB/s, {:.2f} "
      "of reading ({:.2f}-{:.2f})\n",
      length, tt::name_of(of_weights), tt::name_of(dtype), seconds * 1e3, 1 / seconds,
      static_cast<double>(bytes) / seconds * 1e-9, shares[1], shares[0], shares[2]);
  return {{"after", length},
          {"weights", tt::name_of(of_weights)},
          {"cache", tt::name_of(dtype)},
          {"seconds", seconds},
          {"tokens_per_s", 1 / seconds},
          {"bytes", bytes},
          {"share_of_reading", shares[1]},
          {"quartiles", shares}};
}

// A step of a model whose linear layers and head are packed, in turn with one of the f32 model.
json packed_step(tt::Gpt2& model, const char* format, int64_t length, int64_t rounds) {
  tt::Gpt2 packed(tt::Gpt2Config{});
  packed.eval();
  const tt::QuantizationReport report = tt::quantize(packed, {.format = format, .head = format});
  const tt::KvCacheOptions options{.capacity = model.context(), .device = tt::cpu, .dtype = tt::f32};
  tt::ContiguousCache cache(model.kv_shape(), options), packed_cache(model.kv_shape(), options);
  const tt::Tensor prompt = tokens(length), next = tokens(1);
  (void)model.features(prompt, &cache);
  (void)packed.features(prompt, &packed_cache);
  int64_t bytes = length * cache.bytes_per_token();
  for (const tt::QuantizedLayer& layer : report.layers) bytes += layer.bytes;
  const tt::Tensor copy = tt::zeros({bytes}, tt::u8, tt::cpu);
  const std::vector<bench::Contender> contenders = {{"f32",
                                                     [&] {
                                                       (void)step(model, next, cache);
                                                       cache.truncate(0, length);
                                                     }},
                                                    {format,
                                                     [&] {
                                                       (void)step(packed, next, packed_cache);
                                                       packed_cache.truncate(0, length);
                                                     }},
                                                    {"reading", [&] { bench::read_all(copy); }}};
  const auto taken = bench::race(contenders, rounds, 2e-2);
  const std::vector<double> ratios = bench::quartiles(taken[0], taken[1]);
  const std::vector<double> shares = bench::quartiles(taken[2], taken[1]);
  const double seconds = tt::statistics::median(taken[1]);
  fmt::print(
      "step after {} tokens, weights in {}: {:.2f} ms, {:.1f} tokens/s, {:.2f} times the speed of f32 "
      "({:.2f}-{:.2f}), {:.2f} of reading ({:.2f}-{:.2f})\n",
      length, format, seconds * 1e3, 1 / seconds, ratios[1], ratios[0], ratios[2], shares[1], shares[0],
      shares[2]);
  return {{"format", format},
          {"after", length},
          {"seconds", seconds},
          {"of_f32", ratios[1]},
          {"quartiles", ratios},
          {"bytes", bytes},
          {"share_of_reading", shares[1]},
          {"share_quartiles", shares}};
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

// GPT-2 that computes all it has to, and then writes a text that is known before: the weights are random, and
// so would be its texts.
class Scripted : public tt::Gpt2 {
 public:
  using Gpt2::Gpt2;
  tt::Tensor features(const tt::Tensor& tokens, tt::AttentionCache* cache) override {
    if (!script.empty()) end_ = cache->position() + tokens.size(1);
    return Gpt2::features(tokens, cache);
  }
  tt::Tensor head(const tt::Tensor& x) override {
    tt::Tensor logits = Gpt2::head(x);  // [rows, V]
    for (int64_t row = 0; row < (script.empty() ? 0 : logits.size(0)); ++row) {
      const int64_t next = script[static_cast<size_t>(end_ - logits.size(0) + row + 1)];
      tt::slice(logits.select(0, row), 0, next, next + 1).add_(tt::full({1}, 1e4));
    }
    return logits;
  }
  std::vector<int32_t> script;  // the text with its prompt, or empty

 private:
  int64_t end_ = 0;  // the tokens up to the last row
};

// Tokens whose frequencies fall like those of words: token t is 1 / (t + 1) as frequent as token 0. So pairs
// of tokens occur again, as in any text, and drafts are made, of which few are right.
int32_t word_like(tt::Generator& g) {
  return static_cast<int32_t>(std::min(50256.0, std::exp(g.uniform() * std::log(50257.0)) - 1));
}

// A text of `count` tokens after a prompt of 256 by prompt lookup, in turn with plain decoding.
json speculation(Scripted& model, const char* name, bool copies, int64_t rounds) {
  constexpr size_t kPrompt = 256, kCount = 128;
  tt::Generator g(copies ? 2 : 1);
  std::vector<int32_t> text;
  while (text.size() < kPrompt) text.push_back(word_like(g));
  while (text.size() <= kPrompt + kCount) {  // 24 tokens of the prompt, then 3 others
    const size_t from = static_cast<size_t>(g.below(kPrompt - 24));
    for (size_t i = 0; copies && i < 24; ++i) text.push_back(text[from + i]);
    for (int i = 0; i < 3; ++i) text.push_back(word_like(g));
  }
  model.script = text;
  const std::span<const int32_t> prompt = std::span(text).first(kPrompt);
  const tt::GenerateOptions options{
      .max_tokens = kCount, .sampling = {.temperature = 0}, .end_tokens = std::vector<int64_t>{}};
  const SteadyClock clock;
  std::vector<double> plain, drafted, prompts;
  tt::SpeculativeText out;
  for (int64_t r = 0; r < rounds; ++r) {
    // The prompt is computed alike by both; it is measured alone, and not counted.
    const double t0 = clock();
    (void)tt::generate(model, prompt, {.max_tokens = 1, .sampling = {.temperature = 0}});
    const double t1 = clock();
    const tt::Generated wanted = tt::generate(model, prompt, options);
    const double t2 = clock();
    tt::PromptLookup lookup;
    out = tt::generate_speculative(model, prompt, options, lookup);
    const double t3 = clock();
    if (out.tokens != wanted.tokens) throw std::runtime_error("speculation changed the text");
    plain.push_back(t2 - t1 - (t1 - t0)), drafted.push_back(t3 - t2 - (t1 - t0));
  }
  model.script.clear();
  const std::vector<double> ratios = bench::quartiles(plain, drafted);
  fmt::print(
      "prompt lookup, {}: {:.2f} times the speed of plain decoding ({:.2f}-{:.2f}); {} passes for {} tokens, "
      "{} of {} drafts accepted\n",
      name, ratios[1], ratios[0], ratios[2], out.passes, kCount, out.accepted, out.proposed);
  return {{"text", name},
          {"tokens", kCount},
          {"speedup", ratios[1]},
          {"quartiles", ratios},
          {"passes", out.passes},
          {"proposed", out.proposed},
          {"accepted", out.accepted},
          {"plain_seconds", tt::statistics::median(plain)}};
}

// Measures the time of a pass with several rows, relative to one row.
json rows_of_a_pass(tt::Gpt2& model, int64_t rounds) {
  tt::ContiguousCache cache(model.kv_shape(), {.capacity = 512, .device = tt::cpu});
  (void)model.features(tokens(256), &cache);
  std::vector<bench::Contender> contenders;
  const std::vector<int64_t> rows{1, 2, 4, 8};
  std::vector<tt::Tensor> inputs;
  for (const int64_t n : rows) inputs.push_back(tokens(n));
  for (const tt::Tensor& input : inputs) {
    contenders.push_back({"rows", [&] {
                            const tt::backend::cpu::ProductsByRows by_rows;
                            (void)model.head(model.features(input, &cache).select(0, 0));
                            cache.truncate(0, 256);
                          }});
  }
  const auto taken = bench::race(contenders, rounds, 2e-2);
  json out = json::array();
  for (size_t i = 1; i < rows.size(); ++i) {
    const std::vector<double> ratios = bench::quartiles(taken[i], taken[0]);
    fmt::print("a pass with {} rows takes {:.2f} times as long as one with 1 ({:.2f}-{:.2f})\n", rows[i],
               ratios[1], ratios[0], ratios[2]);
    out.push_back({{"rows", rows[i]}, {"of_one_row", ratios[1]}, {"quartiles", ratios}});
  }
  return out;
}

// Time to the first token of a prompt of 2048 tokens that another text has had, and 32 new ones.
json prefix_hit(int64_t rounds) {
  constexpr int64_t kShared = 2048, kNew = 32, kAll = kShared + kNew;
  tt::Gpt2 model(tt::Gpt2Config{.context = kAll});
  model.eval();
  tt::PagedCache cache(model.kv_shape(), {.capacity = kAll, .device = tt::cpu}, {.pages = 300, .page = 16});
  const SteadyClock clock;
  std::vector<double> cold, hit;
  tt::Generator g(1);
  std::vector<int32_t> prompt(kAll);
  for (int32_t& t : prompt) t = word_like(g);
  const auto first_token = [&](tt::PrefixCache& prefix, int64_t expected) {
    for (size_t i = kShared; i < prompt.size(); ++i) prompt[i] = word_like(g);
    const double start = clock();
    const int64_t known = prefix.match(0, prompt);
    if (known != expected) throw std::runtime_error("the prefix cache found another number of tokens");
    const std::vector<int64_t> ids(prompt.begin() + known, prompt.end());
    cache.begin(std::vector<int64_t>{std::ssize(ids)});
    (void)tt::argmax(step(model, tt::from_data(ids, {1, std::ssize(ids)}, tt::cpu), cache), -1)
        .item<int64_t>();
    const double seconds = clock() - start;
    prefix.keep(0, prompt);
    cache.clear();
    return seconds;
  };
  for (int64_t r = 0; r < rounds; ++r) {
    tt::PrefixCache prefix(cache);
    cold.push_back(first_token(prefix, 0));
    hit.push_back(first_token(prefix, kShared));
  }
  const std::vector<double> ratios = bench::quartiles(cold, hit);
  fmt::print(
      "first token after {} tokens, of which {} are shared: {:.2f} s cold, {:.3f} s with a hit, {:.1f} times "
      "as fast ({:.1f}-{:.1f})\n",
      kAll, kShared, tt::statistics::median(cold), tt::statistics::median(hit), ratios[1], ratios[0],
      ratios[2]);
  return {{"shared", kShared},
          {"new", kNew},
          {"cold_seconds", tt::statistics::median(cold)},
          {"hit_seconds", tt::statistics::median(hit)},
          {"speedup", ratios[1]},
          {"quartiles", ratios}};
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
  std::string path, only;
  app.add_option("--rounds", rounds, "rounds of each measurement")->check(CLI::Range(1, 1000));
  app.add_flag("--uncached", uncached,
               "also write a text of 1000 tokens without a cache, which takes minutes");
  app.add_option("--threads", threads, "worker threads; 0: one for each processor")
      ->check(CLI::Range(0, 1024));
  app.add_flag("--serve", serving, "answer requests on standard input");
  app.add_option("--only", only, "measure one part")
      ->check(CLI::IsMember({"steps", "prompt", "growth", "speculation", "prefix", "formats"}));
  app.add_option("--json", path, "also write the numbers here");
  CLI11_PARSE(app, argc, argv);
  if (threads > 0) tt::set_thread_count(threads);
  const bench::ResultsFile file(path);
  json out = {{"machine", bench::provenance()}, {"rounds", rounds}, {"threads", tt::thread_count()}};
  tt::manual_seed(1);
  Scripted model(tt::Gpt2Config{});
  model.eval();
  const tt::NoGrad no_grad;
  if (serving) return serve(model);
  const auto wanted = [&](const char* part) { return only.empty() || only == part; };
  const int64_t few = std::min<int64_t>(rounds, 3);
  for (const tt::DType dtype : {tt::f32, tt::bf16, tt::i8}) {
    for (const int64_t length : {16, 512, 1000}) {
      if (!wanted("steps")) continue;
      out["steps"].push_back(steps_at(model, dtype, length, rounds));
      file.keep(out);
    }
  }
  if (wanted("steps")) {
    tt::Gpt2 narrow(tt::Gpt2Config{});
    narrow.to(tt::bf16);
    narrow.eval();
    for (const int64_t length : {16, 512, 1000})
      out["steps"].push_back(steps_at(narrow, tt::bf16, length, rounds));
    file.keep(out);
  }
  if (wanted("prompt")) out["prompt"] = prompt_of(model, 512, std::min<int64_t>(rounds, 7));
  file.keep(out);
  if (wanted("growth")) out["growth"] = growth(model, few, uncached);
  file.keep(out);
  if (wanted("speculation")) {
    out["rows"] = rows_of_a_pass(model, rounds);
    out["speculation"].push_back(speculation(model, "copy-heavy text", true, few));
    out["speculation"].push_back(speculation(model, "free text", false, few));
    file.keep(out);
  }
  for (const char* const format : {"Q8_0", "Q4_0"}) {
    if (!wanted("formats")) continue;
    out["formats"].push_back(packed_step(model, format, 128, rounds));
    file.keep(out);
  }
  if (wanted("prefix")) out["prefix"] = prefix_hit(few);
  file.finish(out);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::guarded("bench_decode", [&] { return run(argc, argv); });
}
