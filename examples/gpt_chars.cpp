// Trains a GPT on the characters of a text file, and continues the text.
//
//   gpt_chars                                                    sentences of a grammar, minutes on two cores
//   gpt_chars input.txt --preset shakespeare --device cuda       Karpathy's recipe: 10 M parameters, 20 s
//   gpt_chars input.txt --folder run                             add --resume to continue the run exactly
//
// The entropy of the grammar is known, and no model can have a lower loss. The generated text has as many
// characters as the training reads; windows begin at random positions, so each character is read once on
// average. The run's folder has the tokens, the log, the loss curve as loss.svg, and the checkpoint.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <tinytorch/benchmarking/loss_curve.hpp>
#include <tinytorch/benchmarking/peak.hpp>
#include <tinytorch/data/grammar.hpp>
#include <tinytorch/io/text.hpp>
#include <tinytorch/tinytorch.hpp>
#include <tinytorch/transformer/char_tokenizer.hpp>
#include <tinytorch/transformer/generate.hpp>
#include <tinytorch/transformer/hugging_face.hpp>
#include <tinytorch/transformer/pretraining.hpp>

namespace tt = tinytorch;

namespace {

struct Settings {
  std::string text, preset = "grammar", device = "cpu", save_to, prompt = "\n";
  int64_t features = 128, layers = 4, heads = 4, sample = 300;
  double dropout = 0, deviation = 0.02, temperature = 0.8, required = 0;
  bool bf16 = false;
  tt::PretrainingOptions training;
};

Settings preset(const std::string& name) {
  Settings s;
  s.preset = name;
  tt::PretrainingOptions& t = s.training;
  if (name == "shakespeare") {
    s.features = 384, s.layers = 6, s.heads = 6, s.dropout = 0.2, s.bf16 = true;
    // The text has a million characters, which the model begins to memorize after 2000 steps.
    t.batch = 64, t.length = 256, t.steps = 2000, t.warm_up = 100, t.lr = 1e-3, t.lr_end = 1e-4,
    t.beta2 = 0.99;
    t.report_every = 100, t.evaluate_every = 250;
  } else {
    t.batch = 4, t.length = 256, t.steps = 2800, t.warm_up = 100, t.lr = 3e-3, t.lr_end = 1e-4,
    t.beta2 = 0.99;
    // A window begins inside a sentence, which cannot be predicted, so only its second half is evaluated.
    t.overlap = 128, t.report_every = 100, t.evaluate_every = 1000, t.evaluate_batches = 100;
  }
  return s;
}

void print_sample(const Settings& s, tt::Gpt2& model, const tt::CharTokenizer& characters,
                  const tt::Tokens& prompt) {
  std::printf("\n%s", s.prompt.c_str());
  tt::generate(model, prompt,
               {.max_tokens = s.sample,
                .sampling = {.temperature = s.temperature},
                .seed = s.training.seed,
                .decode = [&](std::span<const int32_t> tokens) { return characters.decode(tokens); },
                .on_token =
                    [](int32_t, std::string_view text) {
                      std::printf("%.*s", static_cast<int>(text.size()), text.data());
                      return std::fflush(stdout) == 0;
                    }});
  std::printf("\n");
}

int run(Settings s) {
  tt::PretrainingOptions& t = s.training;
  t.overlap = std::min(t.overlap, t.length / 2);
  tt::set_default_device(s.device == "cuda" ? tt::cuda : tt::cpu);
  const bool temporary = t.folder.empty();
  if (temporary) t.folder = (std::filesystem::temp_directory_path() / "XXXXXX").string();
  if (temporary && !::mkdtemp(t.folder.data()))
    tt::io::fail_system("TT-IO-02", "make the folder", t.folder, tt::Loc::current());
  // The folders are made before training, so that a path that cannot be written fails at once.
  for (const std::string& made : {t.folder, s.save_to})
    if (!made.empty()) std::filesystem::create_directories(made);
  const auto path = [&](const char* name) { return t.folder + "/" + name; };

  const double floor = s.text.empty() ? tt::grammar::entropy_bits_per_character() * std::log(2.0) : 0;
  const int64_t characters_needed = t.steps * t.accumulate * t.batch * t.length;
  const std::string text =
      s.text.empty() ? tt::grammar::text(characters_needed, t.seed) : tt::load_text(s.text);
  const tt::CharTokenizer characters = tt::CharTokenizer::from_text(text);
  const tt::Tokens prompt =
      characters.encode(s.prompt);  // before training, because the prompt may have unknown characters
  const tt::TokenWidth width = tt::write_split(path("train.bin"), path("val.bin"), characters, text);

  tt::manual_seed(t.seed);
  tt::Gpt2 model({.vocabulary = characters.vocabulary(),
                  .context = t.length,
                  .features = s.features,
                  .layers = s.layers,
                  .heads = s.heads,
                  .embedding_dropout = s.dropout,
                  .attention_dropout = s.dropout,
                  .residual_dropout = s.dropout,
                  .deviation = s.deviation});
  if (s.bf16) model.to(tt::bf16);
  std::printf("%zu characters, %lld of them distinct; %lld parameters\n", text.size(),
              static_cast<long long>(characters.vocabulary()),
              static_cast<long long>(model.parameter_count()));
  t.flops_per_token = tt::training_flops_per_token(model.parameter_count(), s.layers, t.length, s.features);
  t.peak_flops = tt::benchmarking::peak_flops(tt::default_device(), s.bf16 ? tt::bf16 : tt::f32);
  const auto reports = tt::pretrain(model, {path("train.bin"), width}, {path("val.bin"), width}, t);
  if (!s.save_to.empty()) tt::save_hugging_face(model, s.save_to);
  const double loss = reports.empty() ? NAN : reports.back().validation_loss;
  std::printf("validation loss %.4f = %.3f bits per character", loss, loss / std::log(2.0));
  if (floor > 0)
    std::printf("; %.1f %% above the entropy of %.3f", 100 * (loss / floor - 1), floor / std::log(2.0));
  std::printf("\n");
  const std::string of = s.text.empty() ? "a grammar" : std::filesystem::path(s.text).filename().string();
  tt::benchmarking::write_loss_curve(path("loss.svg"), "Characters of " + of, path("log.jsonl"), floor);
  print_sample(s, model, characters, prompt);
  if (temporary) std::filesystem::remove_all(t.folder);
  return s.required > 0 && !(loss <= s.required) ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  Settings s = preset("grammar");
  tt::PretrainingOptions& t = s.training;
  CLI::App app("Train a GPT on the characters of a text file");
  app.option_defaults()->always_capture_default();
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  const CLI::Range counts(1, 1 << 20);
  app.add_option("text", s.text, "Text file, UTF-8; without one, sentences of a grammar")
      ->check(CLI::ExistingFile);
  app.add_option("--preset", s.preset, "Sizes and rates, which the options below change")
      ->check(CLI::IsMember({"grammar", "shakespeare"}));
  app.add_option("--device", s.device, "Where to compute")->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--context", t.length, "Characters per window")->check(counts);
  app.add_option("--features", s.features, "Width; a multiple of the heads")->check(counts);
  app.add_option("--layers", s.layers, "Blocks")->check(counts);
  app.add_option("--heads", s.heads, "Heads of attention")->check(counts);
  app.add_option("--batch", t.batch, "Windows per batch")->check(counts);
  app.add_option("--accumulate", t.accumulate, "Batches per step")->check(counts);
  app.add_option("--steps", t.steps, "Steps of the whole run")->check(counts);
  app.add_option("--stop-after", t.stop_after, "Steps after which this part of the run ends; 0: all");
  app.add_option("--lr", t.lr, "Largest learning rate");
  app.add_option("--dropout", s.dropout, "Probability of dropout")->check(CLI::Range(0.0, 0.9));
  app.add_option("--deviation", s.deviation, "Standard deviation of the initial weights");
  app.add_flag("--bf16,!--f32", s.bf16, "Parameters in bf16, updated through f32");
  app.add_option("--seed", t.seed, "Seed of weights, windows and sample");
  app.add_option("--folder", t.folder, "Folder of the run; if not given, nothing is saved");
  app.add_flag("--resume", t.resume, "Continue the folder's run");
  app.add_option("--save", s.save_to, "Folder to save the model in, in the format of transformers");
  app.add_option("--prompt", s.prompt, "Beginning of the sample");
  app.add_option("--sample", s.sample, "Characters of the sample");
  app.add_option("--temperature", s.temperature, "Temperature of the sample; 0: the most likely character");
  app.add_option("--require", s.required, "Exit with 1 above this validation loss; 0: no limit");
  try {
    app.parse(argc, argv);
    s = preset(s.preset);
    app.parse(argc, argv);  // again, because the preset has replaced the other options
    return run(s);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
