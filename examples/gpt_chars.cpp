// A GPT that reads characters: trained on any text file, it continues it.
//
//   gpt_chars shakespeare.txt --checkpoint run.safetensors        again with --resume: as if never stopped
//
// Without a file it learns sentences of a grammar, whose entropy is known: no model can do better. Text is
// cut into windows of T characters; at each place the model guesses the next one. A tenth of the text, its
// end, is kept for evaluation. GPT-2's network and initialization, AdamW with decay on matrices alone, a
// cosine after a short rise, clipped gradients.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <tinytorch/data/grammar.hpp>
#include <tinytorch/io/text.hpp>
#include <tinytorch/layers/adam.hpp>
#include <tinytorch/layers/trainer.hpp>
#include <tinytorch/tinytorch.hpp>
#include <tinytorch/transformer/generate.hpp>
#include <tinytorch/transformer/hugging_face.hpp>

namespace tt = tinytorch;

namespace {

struct Settings {
  std::string text, device = "cpu", checkpoint, save_to, prompt = "\n";
  int64_t context = 64, features = 64, layers = 2, heads = 4, batch = 8, epochs = 4, warm_up = 50, steps = 0;
  int64_t sample = 300;
  double lr = 3e-3, dropout = 0, temperature = 0.8, required = 0;
  uint64_t seed = 1;
  bool resume = false;
};

// The distinct characters of a text, in order; a character's place is its token.
class Characters {
 public:
  explicit Characters(const std::string& text) {
    for (const std::string& c : split(text)) tokens_.emplace(c, 0);
    for (auto& [character, token] : tokens_) {
      token = static_cast<int32_t>(characters_.size());
      characters_.push_back(character);
    }
  }
  int64_t size() const { return static_cast<int64_t>(characters_.size()); }
  // Characters that the text never had are left out.
  template <class Token>
  std::vector<Token> encode(const std::string& text) const {
    std::vector<Token> out;
    for (const std::string& c : split(text)) {
      if (const auto found = tokens_.find(c); found != tokens_.end()) out.push_back(found->second);
    }
    return out;
  }
  std::string decode(std::span<const int32_t> tokens) const {
    std::string out;
    for (const int32_t token : tokens) out += characters_.at(static_cast<size_t>(token));
    return out;
  }

 private:
  // UTF-8: bytes 10xxxxxx belong to the character before.
  static std::vector<std::string> split(const std::string& text) {
    std::vector<std::string> out;
    for (const char byte : text) {
      if ((byte & 0xc0) == 0x80 && !out.empty()) {
        out.back() += byte;
      } else {
        out.emplace_back(1, byte);
      }
    }
    return out;
  }
  std::map<std::string, int32_t> tokens_;
  std::vector<std::string> characters_;
};

struct Windows {
  tt::Tensor inputs, targets;  // i64 [N, T]; targets are one place further
};
// Neighbouring windows of T tokens.
Windows windows_of(const std::vector<int64_t>& tokens, int64_t T) {
  const int64_t N = (static_cast<int64_t>(tokens.size()) - 1) / T;
  const auto cut = [&](int64_t shift) {
    const auto first = tokens.begin() + shift;
    return tt::from_data(std::vector<int64_t>(first, first + N * T), {N, T}, tt::cpu);
  };
  return {cut(0), cut(1)};
}

tt::Gpt2Config config_of(const Settings& s, int64_t vocabulary) {
  return {.vocabulary = vocabulary,
          .context = s.context,
          .features = s.features,
          .layers = s.layers,
          .heads = s.heads,
          .embedding_dropout = s.dropout,
          .attention_dropout = s.dropout,
          .residual_dropout = s.dropout};
}

// Trains; returns the last evaluation's loss, NaN without one.
double train(const Settings& s, tt::Gpt2& model, const Windows& training, const Windows& held_out) {
  tt::DataLoader loader(training.inputs, training.targets,
                        {.batch_size = s.batch, .shuffle = true, .seed = s.seed, .drop_last = true});
  tt::DataLoader test_loader(held_out.inputs, held_out.targets, {.batch_size = s.batch});
  const tt::Loss loss = [](const tt::Tensor& logits, const tt::Tensor& targets) {
    return tt::cross_entropy(logits.flatten(0, 1), targets.flatten());
  };
  tt::AdamW optimizer(model.named_parameters(), {.lr = s.lr, .beta2 = 0.99, .weight_decay = 0.1});
  optimizer.exclude_from_weight_decay([](const tt::NamedTensor& p) { return p.tensor.rank() < 2; });
  const int64_t total = s.epochs * loader.batches_per_epoch();
  const double tokens = static_cast<double>(loader.batches_per_epoch() * s.batch * s.context);
  tt::TrainerOptions options{.epochs = s.epochs,
                             .schedule = tt::cosine(s.lr, total, std::min(s.warm_up, total - 1), s.lr / 10),
                             .clip_norm = 1,
                             .metric = nullptr,
                             .max_steps = s.steps,
                             .checkpoint_path = s.checkpoint,
                             .checkpoint_every = 200};
  options.stop_when = [&](const tt::EpochReport& r) {
    std::printf("  %.0f tokens/s, %.3f bits per character\n", tokens / r.seconds,
                r.eval_loss / std::log(2.0));
    return false;
  };
  tt::Trainer trainer(model, optimizer, loader, loss, options);
  if (s.resume) trainer.resume(s.checkpoint);
  const std::vector<tt::EpochReport> reports = trainer.fit(&test_loader);
  if (!s.checkpoint.empty()) trainer.save(s.checkpoint);
  return reports.empty() ? tt::evaluate(model, test_loader, loss, nullptr).loss : reports.back().eval_loss;
}

void print_sample(const Settings& s, tt::Gpt2& model, const Characters& characters) {
  std::vector<int32_t> prompt = characters.encode<int32_t>(s.prompt);
  if (prompt.empty()) prompt.push_back(0);
  std::printf("\n%s", characters.decode(prompt).c_str());
  tt::generate(model, prompt,
               {.max_tokens = s.sample,
                .sampling = {.temperature = s.temperature},
                .seed = s.seed,
                .decode = [&](std::span<const int32_t> tokens) { return characters.decode(tokens); },
                .on_token =
                    [](int32_t, std::string_view text) {
                      std::fwrite(text.data(), 1, text.size(), stdout);
                      std::fflush(stdout);
                      return true;
                    }});
  std::printf("\n");
}

int run(const Settings& s) {
  if (s.resume && s.checkpoint.empty()) throw CLI::ValidationError("--resume needs --checkpoint");
  tt::set_default_device(s.device == "cuda" ? tt::cuda : tt::cpu);
  const std::string text = s.text.empty() ? tt::grammar::text(60000, s.seed) : tt::load_text(s.text);
  if (s.text.empty())
    std::printf("a grammar's text: %.3f bits per character at best\n",
                tt::grammar::entropy_bits_per_character());
  const Characters characters(text);
  const std::vector<int64_t> tokens = characters.encode<int64_t>(text);
  const int64_t kept = std::ssize(tokens) * 9 / 10;
  if (std::ssize(tokens) - kept <= s.context || kept <= s.batch * s.context) {
    std::fprintf(stderr, "the text is too short for this batch and context\n");
    return 1;
  }
  const Windows training = windows_of({tokens.begin(), tokens.begin() + kept}, s.context);
  const Windows held_out = windows_of({tokens.begin() + kept, tokens.end()}, s.context);

  tt::manual_seed(s.seed);
  tt::Gpt2 model(config_of(s, characters.size()));
  std::printf("%lld characters, %lld of them distinct; %lld parameters\n",
              static_cast<long long>(tokens.size()), static_cast<long long>(characters.size()),
              static_cast<long long>(model.parameter_count()));
  const double loss = train(s, model, training, held_out);
  if (!s.save_to.empty()) tt::save_hugging_face(model, s.save_to);
  print_sample(s, model, characters);
  return s.required > 0 && !(loss <= s.required) ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  Settings s;
  CLI::App app("Train a GPT on the characters of a text file");
  app.option_defaults()->always_capture_default();
  const CLI::Range counts(1, 1 << 20);
  app.add_option("text", s.text, "Text file, UTF-8; without one, sentences of a grammar")
      ->check(CLI::ExistingFile);
  app.add_option("--device", s.device, "Where to compute")->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--context", s.context, "Characters seen at once")->check(counts);
  app.add_option("--features", s.features, "Width; a multiple of the heads")->check(counts);
  app.add_option("--layers", s.layers, "Blocks")->check(counts);
  app.add_option("--heads", s.heads, "Heads of attention")->check(counts);
  app.add_option("--batch", s.batch, "Windows per step")->check(counts);
  app.add_option("--epochs", s.epochs, "Passes over the text")->check(counts);
  app.add_option("--steps", s.steps, "Stop after this many steps; 0: at the end");
  app.add_option("--lr", s.lr, "Largest learning rate");
  app.add_option("--warm-up", s.warm_up, "Steps of rising rate");
  app.add_option("--dropout", s.dropout, "Probability of dropout")->check(CLI::Range(0.0, 0.9));
  app.add_option("--seed", s.seed, "Seed of weights, order and sample");
  app.add_option("--checkpoint", s.checkpoint, "File to keep the run in");
  app.add_flag("--resume", s.resume, "Continue the run of the checkpoint");
  app.add_option("--save", s.save_to, "Folder for the model, as transformers reads it");
  app.add_option("--prompt", s.prompt, "Beginning of the sample");
  app.add_option("--sample", s.sample, "Characters of the sample");
  app.add_option("--temperature", s.temperature, "Of the sample; 0: the likeliest character");
  app.add_option("--require", s.required, "Exit with 1 above this loss on held-out text; 0: any");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(s);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
