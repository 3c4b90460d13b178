// Times byte pair encoding on one core: MB/s of encode and decode, seconds of training.
//
//     bench_tokenizer input.txt --gpt2 FOLDER        encode and decode with GPT-2's files (encoder.json, ...)
//     bench_tokenizer input.txt --vocabulary 10256   train, then encode and decode with the result
//     bench_tokenizer input.txt --vocabulary 2048 --pattern cl100k --save tokenizer.json
//
// Each number is the median of the runs that fit into --seconds of processor time, which other users of a
// shared machine change least. The program fails if the decoded text differs from the input.
#include <CLI/CLI.hpp>
#include <common/guarded.hpp>
#include <ctime>
#include <tinytorch/benchmarking/statistics.hpp>
#include <tinytorch/transformer/bpe_files.hpp>
#include <tinytorch/transformer/bpe_trainer.hpp>

namespace tt = tinytorch;

namespace {

double processor_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// Median of the processor seconds of the calls that fit into the budget; there are at least three calls.
template <class F>
double seconds_of(double budget, F&& work) {
  std::vector<double> samples;
  const double deadline = processor_seconds() + budget;
  while (samples.size() < 3 || processor_seconds() < deadline) {
    const double start = processor_seconds();
    work();
    samples.push_back(processor_seconds() - start);
  }
  return tt::statistics::median(samples);
}

void measure(const char* name, const tt::BpeTokenizer& tokenizer, std::string_view text, double budget) {
  const double megabytes = static_cast<double>(text.size()) * 1e-6;
  tt::Tokens tokens;
  std::string back;
  const double encoding = seconds_of(budget, [&] { tokens = tokenizer.encode(text); });
  const double decoding = seconds_of(budget, [&] { back = tokenizer.decode(tokens); });
  if (back != text) throw std::runtime_error("decode(encode(text)) differs from the text");
  std::printf("%-8s %8lld %10zu %12.2f %14.1f %14.1f\n", name, static_cast<long long>(tokenizer.vocabulary()),
              tokens.size(), static_cast<double>(text.size()) / static_cast<double>(tokens.size()),
              megabytes / encoding, megabytes / decoding);
}

int run(int argc, char** argv) {
  CLI::App app{"Times tokenizers on one core"};
  std::string path, gpt2, save, pattern = "gpt2";
  tt::BpeTrainOptions options{.vocabulary = 0};
  double budget = 2;
  app.add_option("text", path, "text file to encode and to train on")->required();
  app.add_option("--gpt2", gpt2, "folder with encoder.json and vocab.bpe");
  app.add_option("--vocabulary", options.vocabulary, "size of the vocabulary to learn; 0: no training");
  app.add_option("--pattern", pattern, "pattern by which text is split into pieces")
      ->check(CLI::IsMember({"gpt2", "cl100k"}));
  app.add_option("--special", options.specials, "special tokens");
  app.add_option("--min-count", options.min_count, "least count of a pair that is merged");
  app.add_option("--save", save, "write the learned tokenizer as this tokenizer.json");
  app.add_option("--seconds", budget, "processor seconds for each number");
  CLI11_PARSE(app, argc, argv);
  options.pattern = pattern == "gpt2" ? tt::SplitPattern::gpt2 : tt::SplitPattern::cl100k;
  const std::vector<std::byte> bytes = tt::read_file(path);
  const std::string_view text = tt::as_text(bytes);
  std::printf("%-8s %8s %10s %12s %14s %14s\n", "", "tokens", "encoded", "bytes/token", "encode MB/s",
              "decode MB/s");
  if (!gpt2.empty())
    measure("gpt2", tt::load_gpt2_tokenizer(gpt2 + "/encoder.json", gpt2 + "/vocab.bpe"), text, budget);
  if (options.vocabulary > 0) {
    tt::BpeModel model;
    const double seconds = seconds_of(budget, [&] { model = tt::train_bpe(text, options); });
    if (!save.empty()) tt::save_tokenizer_json(save, model);
    const size_t merges = model.merges.size();
    measure("learned", tt::BpeTokenizer(std::move(model)), text, budget);
    std::printf("training: %zu merges from %.2f MB in %.3f s\n", merges,
                static_cast<double>(text.size()) * 1e-6, seconds);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::guarded("bench_tokenizer", [&] { return run(argc, argv); });
}
