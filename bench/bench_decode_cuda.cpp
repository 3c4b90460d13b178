// Decoding with GPT-2 124M or a Llama of 1.2 billion parameters on a GPU: steps of one token per sequence,
// replayed as CUDA graphs.
//
//   bench_decode_cuda                B = 1, 8 and 64 sequences of 512 tokens, bf16
//   bench_decode_cuda --model llama  the same with the Llama
//   bench_decode_cuda --serve        answers requests on stdin; bench/compare_decode_cuda.py alternates it
//   with a peer
// A step reads all weights and the cached keys and values once. The time is that of the host's whole loop, as
// generate() runs it: it writes the lengths, queues the graph of the next step, whose tokens are on the
// device, and reads the best token of each sequence. The weights are random, which changes no time.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <tinytorch/benchmarking/clock.hpp>
#include <tinytorch/benchmarking/statistics.hpp>
#include <tinytorch/kv_cache/paged.hpp>
#include <tinytorch/tensor/ops/host_copy.hpp>
#include <tinytorch/transformer/gpt2.hpp>
#include <tinytorch/transformer/graph_decode.hpp>
#include <tinytorch/transformer/llama.hpp>

#include <common/gpu_results.hpp>
#include <common/guarded.hpp>

using nlohmann::json;
namespace tt = tinytorch;

namespace {

// B sequences with `after` tokens each, in a paged cache.
class Decoding {
 public:
  static constexpr int64_t kContext = 1024, kPage = 64;

  Decoding(tt::LanguageModel& model, int64_t batch, int64_t after)
      : batch_(batch),
        after_(after),
        cache_(model.kv_shape(),
               {.sequences = batch,
                .capacity = kContext,
                .device = model.device(),
                .dtype = model.parameters()[0].dtype()},
               {.pages = batch * kContext / kPage, .page = kPage}),
        decode_(model, cache_),
        ones_(static_cast<size_t>(batch), 1) {
    const tt::NoGrad no_grad;
    std::vector<int64_t> next(static_cast<size_t>(batch));
    for (int64_t b = 0; b < batch; ++b) {  // one prompt at a time needs little memory
      std::vector<int64_t> counts(static_cast<size_t>(batch));
      counts[static_cast<size_t>(b)] = after;
      cache_.begin(counts);
      const tt::Tensor prompt = tt::randint(0, model.vocabulary(), {1, after}, tt::i64, model.device());
      const tt::Tensor x = model.features(prompt, &cache_).select(1, -1);
      next[static_cast<size_t>(b)] = tt::argmax(model.head(x), -1).item<int64_t>();
    }
    step_ = decode_(ones_, next);
    for (int i = 0; i < 3; ++i) step();  // the second step is captured
  }

  // Seconds of the median step of `count`, all of which start from `after` tokens or a few more.
  double operator()(int64_t count) {
    const tt::benchmarking::SteadyClock clock;
    std::vector<double> seconds;
    for (int64_t i = 0; i < count; ++i) {
      const double start = clock();
      step();
      seconds.push_back(clock() - start);
      if (cache_.length(0) < kContext - 1) continue;
      for (int64_t b = 0; b < batch_; ++b) cache_.truncate(b, after_);
    }
    return tt::statistics::median(seconds);
  }
  int64_t captures() const { return decode_.captures(); }

 private:
  // Queues a step, and reads the tokens of the one before it.
  void step() {
    tt::HostCopy best(step_.best);
    step_ = decode_(ones_, step_.best);
    (void)best.get().to_vector<int64_t>();
  }

  int64_t batch_, after_;
  tt::PagedCache cache_;
  tt::GraphDecode decode_;
  tt::DecodeStep step_;
  std::vector<int64_t> ones_;
};

// The sizes of Llama 3.2 1B.
std::unique_ptr<tt::LanguageModel> model_named(const std::string& name) {
  if (name == "gpt2") return std::make_unique<tt::Gpt2>(tt::Gpt2Config{.vocabulary = 50304});
  return std::make_unique<tt::Llama>(tt::LlamaConfig{.vocabulary = 128256,
                                                     .context = Decoding::kContext,
                                                     .features = 2048,
                                                     .layers = 16,
                                                     .heads = 32,
                                                     .groups = 8,
                                                     .hidden = 8192,
                                                     .rotary = {.theta = 500000},
                                                     .eps = 1e-5,
                                                     .tied = true});
}

class Bench {
 public:
  explicit Bench(std::unique_ptr<tt::LanguageModel> model) : model_(std::move(model)) {
    model_->to(tt::bf16);
    model_->eval();
  }
  double seconds(int64_t batch, int64_t after, int64_t steps) {
    auto& decoding = decodings_[{batch, after}];
    if (!decoding) decoding = std::make_unique<Decoding>(*model_, batch, after);
    return (*decoding)(steps);
  }
  int64_t captures(int64_t batch, int64_t after) { return decodings_.at({batch, after})->captures(); }

 private:
  std::unique_ptr<tt::LanguageModel> model_;
  std::map<std::pair<int64_t, int64_t>, std::unique_ptr<Decoding>> decodings_;
};

// {"batch": B, "after": TOKENS, "steps": N} answers "seconds", those of the median step, and "captures".
int serve(Bench& bench) {
  for (std::string line; std::getline(std::cin, line);) {
    const json request = json::parse(line);
    const int64_t batch = request.at("batch"), after = request.at("after");
    const double seconds = bench.seconds(batch, after, request.at("steps"));
    std::cout << json{{"seconds", seconds}, {"captures", bench.captures(batch, after)}}.dump() << std::endl;
  }
  return 0;
}

int run(int argc, char** argv) {
  CLI::App app{"Decoding on a GPU, as CUDA graphs"};
  bool serving = false;
  int64_t steps = 256;
  std::string model = "gpt2";
  app.add_option("--model", model, "gpt2 or llama")->check(CLI::IsMember({"gpt2", "llama"}));
  app.add_flag("--serve", serving, "answer requests on standard input");
  app.add_option("--steps", steps, "steps of each measurement")->check(CLI::Range(1, 100000));
  CLI11_PARSE(app, argc, argv);
  bench::require_gpu("bench_decode measures the CPU");
  tt::manual_seed(1);
  tt::set_default_device(tt::cuda);  // weights are drawn where they are used
  Bench bench(model_named(model));
  if (serving) return serve(bench);
  for (const int64_t batch : {1, 8, 64}) {
    const double seconds = bench.seconds(batch, 512, steps);
    std::printf("%2ld sequences after 512 tokens: %.1f us a step, %.0f tokens/s, %ld captures\n",
                static_cast<long>(batch), seconds * 1e6, static_cast<double>(batch) / seconds,
                static_cast<long>(bench.captures(batch, 512)));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::guarded("bench_decode_cuda", [&] { return run(argc, argv); });
}
