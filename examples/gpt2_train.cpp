// Trains GPT-2 of any size on token files; the default is GPT-2 small with 124 M parameters.
//
//   gpt2_train --data openwebtext --device cuda --bf16 --accumulate 8 --folder run
//   gpt2_train --text book.txt --vocabulary gpt2 --folder run
//
// --data is a folder with train.bin and val.bin, which are arrays of 16-bit tokens as in nanoGPT. --text
// makes these files from a text and a vocabulary, which is a folder with encoder.json and vocab.bpe, or a
// tokenizer.json. The number of rows of the embedding is padded to a multiple of 64 (50304 for the 50257
// tokens of GPT-2), because the head is half of a small model's work, and tensor cores read rows of odd
// length one number at a time. --resume continues a run with bit-identical results. --save writes a model
// that from_pretrained of the Python package transformers reads.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <tinytorch/benchmarking/loss_curve.hpp>
#include <tinytorch/benchmarking/peak.hpp>
#include <tinytorch/io/text.hpp>
#include <tinytorch/tinytorch.hpp>
#include <tinytorch/transformer/bpe_files.hpp>
#include <tinytorch/transformer/generate.hpp>
#include <tinytorch/transformer/hugging_face.hpp>
#include <tinytorch/transformer/pretraining.hpp>

namespace tt = tinytorch;

namespace {

struct Settings {
  std::string data, text, vocabulary, device = "cpu", save_to, prompt = "The";
  int64_t layers = 12, heads = 12, features = 768, sample = 50, multiple = 64;
  double dropout = 0, temperature = 0.9, required = 0;
  bool bf16 = false;
  tt::PretrainingOptions training{.batch = 8,
                                  .length = 1024,
                                  .steps = 20000,
                                  .warm_up = 700,
                                  .lr = 6e-4,
                                  .lr_end = 6e-5,
                                  .evaluate_every = 250};
};

struct Size {
  int64_t layers, heads, features;
};
const std::map<std::string, Size> kSizes{
    {"gpt2", {12, 12, 768}}, {"medium", {24, 16, 1024}}, {"large", {36, 20, 1280}}, {"xl", {48, 25, 1600}}};

tt::BpeTokenizer load_vocabulary(const std::string& folder) {
  const std::string single = folder + "/tokenizer.json";
  if (std::filesystem::is_regular_file(folder)) return tt::load_tokenizer_json(folder);
  if (std::filesystem::exists(single)) return tt::load_tokenizer_json(single);
  return tt::load_gpt2_tokenizer(folder + "/encoder.json", folder + "/vocab.bpe");
}

tt::Gpt2 make_model(const Settings& s, int64_t vocabulary) {
  tt::Gpt2 model({.vocabulary = (vocabulary + s.multiple - 1) / s.multiple * s.multiple,
                  .context = s.training.length,
                  .features = s.features,
                  .layers = s.layers,
                  .heads = s.heads,
                  .embedding_dropout = s.dropout,
                  .attention_dropout = s.dropout,
                  .residual_dropout = s.dropout});
  if (s.bf16) model.to(tt::bf16);
  std::printf("%lld parameters\n", static_cast<long long>(model.parameter_count()));
  return model;
}

void print_sample(const Settings& s, tt::Gpt2& model, const tt::BpeTokenizer& tokenizer) {
  const auto text_of = [&](std::span<const int32_t> tokens) {
    tt::Tokens known;  // rows beyond the vocabulary are not tokens
    std::ranges::copy_if(tokens, std::back_inserter(known),
                         [&](int32_t t) { return t < tokenizer.vocabulary(); });
    return tokenizer.decode(known);
  };
  const tt::Generated made = tt::generate(model, tokenizer.encode(s.prompt),
                                          {.max_tokens = s.sample,
                                           .sampling = {.temperature = s.temperature, .top_k = 200},
                                           .seed = s.training.seed,
                                           .decode = text_of});
  std::printf("\n%s%s\n", s.prompt.c_str(), made.text.c_str());
}

int run(Settings s) {
  tt::PretrainingOptions& t = s.training;
  tt::set_default_device(s.device == "cuda" ? tt::cuda : tt::cpu);
  // The folders are made before training, so that a path that cannot be written fails at once.
  for (const std::string& made : {t.folder, s.save_to})
    if (!made.empty()) std::filesystem::create_directories(made);
  std::optional<tt::BpeTokenizer> tokenizer;
  if (!s.vocabulary.empty()) tokenizer.emplace(load_vocabulary(s.vocabulary));
  const std::string& folder = s.text.empty() ? s.data : t.folder;
  const std::string train = folder + "/train.bin", validation = folder + "/val.bin";
  tt::TokenWidth width = tt::TokenWidth::u16;
  if (!s.text.empty()) width = tt::write_split(train, validation, *tokenizer, tt::load_text(s.text));

  tt::manual_seed(t.seed);
  tt::Gpt2 model = make_model(s, tokenizer ? tokenizer->vocabulary() : 50257);
  t.flops_per_token = tt::training_flops_per_token(model.parameter_count(), s.layers, t.length, s.features);
  t.peak_flops = tt::benchmarking::peak_flops(tt::default_device(), s.bf16 ? tt::bf16 : tt::f32);
  const auto reports = tt::pretrain(model, {train, width}, {validation, width}, t);
  if (!s.save_to.empty()) tt::save_hugging_face(model, s.save_to);
  if (!t.folder.empty()) {
    tt::benchmarking::write_loss_curve(t.folder + "/loss.svg", "GPT-2", t.folder + "/log.jsonl");
  }
  if (tokenizer) print_sample(s, model, *tokenizer);
  const bool reached = s.required <= 0 || (!reports.empty() && reports.back().validation_loss <= s.required);
  return reached ? 0 : 1;
}

void add_training_options(CLI::App& app, tt::PretrainingOptions& t) {
  const CLI::Range counts(1, 1 << 20);
  app.add_option("--batch", t.batch, "Windows per batch")->check(counts);
  app.add_option("--accumulate", t.accumulate, "Batches per step")->check(counts);
  app.add_option("--steps", t.steps, "Steps of the whole run")->check(counts);
  app.add_option("--stop-after", t.stop_after, "Steps after which this part of the run ends; 0: all");
  app.add_option("--warm-up", t.warm_up, "Steps in which the learning rate rises");
  app.add_option("--lr", t.lr, "Largest learning rate");
  app.add_option("--lr-end", t.lr_end, "Learning rate at the end");
  app.add_option("--weight-decay", t.weight_decay, "Weight decay of matrices");
  app.add_option("--clip", t.clip_norm, "Largest gradient norm; 0: no clipping");
  app.add_option("--seed", t.seed, "Seed of weights, windows and sample");
  app.add_option("--report-every", t.report_every, "Steps between reports")->check(counts);
  app.add_option("--evaluate-every", t.evaluate_every, "Steps between evaluations");
  app.add_option("--evaluate-batches", t.evaluate_batches, "Batches of an evaluation")->check(counts);
  app.add_option("--checkpoint-every", t.checkpoint_every, "Steps between checkpoints");
}

void add_model_options(CLI::App& app, Settings& s) {
  const CLI::Range counts(1, 1 << 20);
  const auto take_size = [&s](const std::string& name) {
    const Size& size = kSizes.at(name);
    s.layers = size.layers, s.heads = size.heads, s.features = size.features;
  };
  app.add_option_function<std::string>("--size", take_size,
                                       "gpt2, medium, large or xl; the options below change it")
      ->check(CLI::IsMember(kSizes))
      ->trigger_on_parse();
  app.add_option("--layers", s.layers, "Blocks")->check(counts);
  app.add_option("--heads", s.heads, "Attention heads")->check(counts);
  app.add_option("--features", s.features, "Width; a multiple of the heads")->check(counts);
  app.add_option("--context", s.training.length, "Tokens per window")->check(counts);
  app.add_option("--pad", s.multiple, "The number of rows of the embedding is a multiple of this")
      ->check(counts);
  app.add_option("--dropout", s.dropout, "Probability of dropout")->check(CLI::Range(0.0, 0.9));
  app.add_flag("--bf16", s.bf16, "Parameters in bf16, updated through f32");
}

}  // namespace

int main(int argc, char** argv) {
  Settings s;
  tt::PretrainingOptions& t = s.training;
  CLI::App app("Train a GPT-2");
  app.option_defaults()->always_capture_default();
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  auto* data =
      app.add_option("--data", s.data, "Folder with train.bin and val.bin")->check(CLI::ExistingDirectory);
  auto* text = app.add_option("--text", s.text,
                              "Text file from which train.bin and val.bin are made in the run's folder");
  auto* vocabulary =
      app.add_option("--vocabulary", s.vocabulary, "Folder of a byte-level BPE, or tokenizer.json");
  text->check(CLI::ExistingFile)->needs(vocabulary)->excludes(data);
  vocabulary->check(CLI::ExistingPath);
  app.add_option("--device", s.device, "Device of all tensors")->check(CLI::IsMember({"cpu", "cuda"}));
  add_model_options(app, s);
  add_training_options(app, t);
  auto* folder = app.add_option("--folder", t.folder, "Folder of the run: checkpoint, log, loss.svg");
  text->needs(folder);
  app.add_flag("--resume", t.resume, "Continue the folder's run")->needs(folder);
  app.add_option("--save", s.save_to, "Folder to save the model in, in the format of transformers");
  app.add_option("--prompt", s.prompt, "Beginning of the sample");
  app.add_option("--sample", s.sample, "Tokens of the sample");
  app.add_option("--temperature", s.temperature, "Temperature of the sample");
  app.add_option("--require", s.required, "Exit with 1 above this validation loss; 0: no limit");
  CLI11_PARSE(app, argc, argv);
  if (s.data.empty() && s.text.empty()) {
    std::fprintf(stderr, "gpt2_train needs --data, or --text with --vocabulary and --folder\n");
    return 1;
  }
  try {
    return run(s);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
