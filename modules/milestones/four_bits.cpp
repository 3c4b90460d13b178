// A trained GPT in four bits a weight (Frantar et al., "GPTQ: accurate post-training quantization for
// generative pre-trained transformers", 2022).
//
// A small GPT is trained on sentences of a grammar, and a copy of it is quantized with other sentences of the
// same text as calibration data. What counts is the text that neither has seen: the loss, and the divergence
// of the predictions from those of the f32 model, which shows errors that cancel in the loss. Rounding each
// weight to the nearest code, which needs no data, is the measure: a method may leave two thirds of its
// divergence. The bits and bytes of the report are checked against the memory and the file. Last, a model
// with the layers of GPT-2 124M writes tokens in f32 and in four bits, in turns: fewer bytes must also be
// less time.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <tinytorch/core/allocation_observer.hpp>
#include <tinytorch/data/grammar.hpp>
#include <tinytorch/kv_cache/contiguous.hpp>
#include <tinytorch/layers/adam.hpp>
#include <tinytorch/layers/batch_source.hpp>
#include <tinytorch/layers/schedule.hpp>
#include <tinytorch/quantization/files.hpp>
#include <tinytorch/quantization/model.hpp>
#include <tinytorch/transformer/char_tokenizer.hpp>
#include <tinytorch/transformer/gpt2.hpp>

#include "gates.hpp"

namespace tt = tinytorch;

constexpr int64_t kBatch = 8, kLength = 48, kSteps = 250;
constexpr double kRate = 5e-3;

// Random windows of the text: inputs i64 [count, T], and as targets the same windows one position later.
tt::Batch windows(const tt::Tokens& text, uint64_t seed, int64_t count = kBatch) {
  tt::Generator generator(seed);
  std::vector<int64_t> inputs, targets;
  for (int64_t b = 0; b < count; ++b) {
    const double places = static_cast<double>(text.size()) - static_cast<double>(kLength);
    const int32_t* const at = text.data() + static_cast<int64_t>(generator.uniform() * places);
    inputs.insert(inputs.end(), at, at + kLength);
    targets.insert(targets.end(), at + 1, at + kLength + 1);
  }
  return {tt::from_data(inputs, {count, kLength}), tt::from_data(targets, {count, kLength})};
}

tt::Gpt2 new_model(int64_t vocabulary) {
  tt::manual_seed(2022);
  tt::Gpt2Config config{.vocabulary = vocabulary, .context = kLength, .features = 64};
  config.layers = 3, config.heads = 4, config.deviation = 0.1;
  config.embedding_dropout = config.attention_dropout = config.residual_dropout = 0;
  return tt::Gpt2(config);
}
tt::Gpt2 copy_of(const tt::Gpt2& model) {
  tt::Gpt2 copy = new_model(model.vocabulary());
  copy.load_state_dict(model.state_dict());
  copy.eval();
  return copy;
}

void train(tt::Gpt2& model, const tt::Tokens& text) {
  tt::AdamW optimizer(model.named_parameters(), {.lr = kRate, .weight_decay = 0.01});
  const tt::Schedule schedule = tt::cosine(kRate, kSteps, 20, kRate / 20);
  for (int64_t step = 0; step < kSteps; ++step) {
    const tt::Batch batch = windows(text, static_cast<uint64_t>(step));
    optimizer.set_lr(schedule(step));
    optimizer.zero_grad();
    model.loss(batch.inputs, batch.targets).backward();
    optimizer.step();
  }
  model.eval();
}

// Predictions on unseen text. A window begins inside a sentence whose beginning is unknown, so its second
// half counts.
struct Predictions {
  double loss = 0;           // mean -log p(target), nats a character
  milestone::Numbers log_p;  // of all characters, [positions, vocabulary]
};
Predictions predict(tt::Gpt2& model, const tt::Tokens& text) {
  const tt::NoGrad no_grad;
  Predictions out;
  double count = 0;
  for (uint64_t i = 0; i < 12; ++i) {
    const tt::Batch batch = windows(text, 1000 + i, 16);
    const milestone::Numbers logits =
        model(batch.inputs).slice(1, kLength / 2).contiguous().to_vector<double>();
    const std::vector<int64_t> targets =
        batch.targets.slice(1, kLength / 2).contiguous().to_vector<int64_t>();
    const size_t V = static_cast<size_t>(model.vocabulary());
    for (size_t t = 0; t < targets.size(); ++t, ++count) {
      double sum = 0;
      for (size_t v = 0; v < V; ++v) sum += std::exp(logits[t * V + v]);
      for (size_t v = 0; v < V; ++v) out.log_p.push_back(logits[t * V + v] - std::log(sum));
      out.loss -= out.log_p[out.log_p.size() - V + static_cast<size_t>(targets[t])];
    }
  }
  out.loss /= count;
  return out;
}
// The mean over positions of sum p log(p / q), in nats.
double divergence(const Predictions& p, const Predictions& q, int64_t vocabulary) {
  double sum = 0;
  for (size_t i = 0; i < p.log_p.size(); ++i) sum += std::exp(p.log_p[i]) * (p.log_p[i] - q.log_p.at(i));
  return sum / (static_cast<double>(p.log_p.size()) / static_cast<double>(vocabulary));
}

// Codes from -7 to 7 with one scale for each matrix of the blocks: what four bits cost without groups.
void round_by_matrix(tt::Gpt2& model) {
  const tt::NoGrad no_grad;
  for (const tt::NamedTensor& p : model.named_parameters()) {
    if (p.tensor.rank() != 2 || p.name.find("embedding") != std::string::npos) continue;
    std::vector<float> w = p.tensor.to_vector();
    float largest = 0;
    for (const float v : w) largest = std::max(largest, std::abs(v));
    for (float& v : w) v = std::nearbyint(v / (largest / 7)) * (largest / 7);
    p.tensor.detach().copy_(tt::from_data(w, p.tensor.shape()));
  }
}

// Bytes that are allocated and not yet freed.
class LiveBytes : public tt::AllocationObserver {
 public:
  LiveBytes() : before_(tt::observe_allocations(this)) {}
  ~LiveBytes() override { tt::observe_allocations(before_); }
  void allocated(tt::Device, const void*, size_t bytes) override { live += static_cast<double>(bytes); }
  void freed(tt::Device, const void*, size_t bytes) noexcept override { live -= static_cast<double>(bytes); }
  double live = 0;

 private:
  tt::AllocationObserver* before_;
};

// Numbers and bytes of the packed layers, counted in the model itself.
struct Packed {
  double numbers = 0, bytes = 0;
};
Packed packed_layers(tt::Module& model) {
  Packed sum;
  model.for_each_module([&](const std::string&, tt::Module& m) {
    const auto* const layer = dynamic_cast<const tt::QuantizedLinear*>(&m);
    if (!layer) return;
    sum.numbers += static_cast<double>(layer->weight().shape().numel());
    for (const tt::NamedTensor& t : m.named_buffers())
      if (t.name != "bias")
        sum.bytes +=
            static_cast<double>(t.tensor.numel()) * static_cast<double>(tt::size_of(t.tensor.dtype()));
  });
  return sum;
}

class File {
 public:
  explicit File(const std::string& name)
      : path_((std::filesystem::temp_directory_path() / ("four_bits_" + std::to_string(::getpid()) + name))
                  .string()) {}
  ~File() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  const std::string& path() const { return path_; }
  double bytes() const { return static_cast<double>(std::filesystem::file_size(path_)); }

 private:
  std::string path_;
};

bool equal_numbers(const tt::Module& a, const tt::Module& b) {
  const tt::StateDict first = a.state_dict(), second = b.state_dict();
  const auto equal = [](const auto& p, const auto& q) {
    return p.first == q.first && p.second.dtype() == q.second.dtype() &&
           p.second.template to_vector<double>() == q.second.template to_vector<double>();
  };
  return std::equal(first.begin(), first.end(), second.begin(), second.end(), equal);
}

void quality(milestone::Gates& gates) {
  const std::string text = tt::grammar::text(200000, 1);
  const tt::CharTokenizer characters = tt::CharTokenizer::from_text(text);
  const tt::Tokens tokens = characters.encode(text), unseen = characters.encode(tt::grammar::text(40000, 2));
  const int64_t V = characters.vocabulary();
  tt::Gpt2 model = new_model(V);
  train(model, tokens);
  const Predictions exact = predict(model, unseen);
  std::printf("%lld parameters, f32: loss %.4f\n", static_cast<long long>(model.parameter_count()),
              exact.loss);

  std::vector<tt::Tensor> calibration;
  for (uint64_t i = 0; i < 8; ++i) calibration.push_back(windows(tokens, 5000 + i, 16).inputs);
  const tt::QuantizationConfig config{.format = "Q4_0", .method = "gptq", .calibration = calibration};
  tt::Gpt2 four = copy_of(model), nearest = copy_of(model), coarse = copy_of(model), again = copy_of(model);
  double freed = 0;
  tt::QuantizationReport report;
  {
    const LiveBytes bytes;
    report = tt::quantize(four, config);
    freed = -bytes.live;
  }
  tt::quantize(nearest, {.format = "Q4_0"});
  round_by_matrix(coarse);
  const Predictions of_four = predict(four, unseen), of_nearest = predict(nearest, unseen),
                    of_coarse = predict(coarse, unseen);
  const double kl = divergence(exact, of_four, V), kl_nearest = divergence(exact, of_nearest, V);
  const auto show = [&](const char* name, const Predictions& p) {
    std::printf("%-24s loss %+.2f %%, divergence %.2e\n", name, 100 * (p.loss / exact.loss - 1),
                divergence(exact, p, V));
  };
  show("Q4_0, the method", of_four), show("Q4_0, nearest", of_nearest),
      show("one scale for a matrix", of_coarse);

  const Packed packed = packed_layers(four);
  gates.at_most("the blocks have at most 4.6 bits a weight", 8 * packed.bytes / packed.numbers, 4.6);
  gates.at_most("the report counts the bits that are stored",
                std::abs(report.bits_per_weight() * packed.numbers / 8 / packed.bytes - 1), 1e-9);
  gates.at_least("the float weights are freed", freed / (4 * packed.numbers - packed.bytes), 0.95);
  gates.at_most("the loss is at most 1 % above that of f32", of_four.loss / exact.loss, 1.01);
  gates.at_most("the divergence is at most 2/3 of that of rounding to nearest", kl / kl_nearest, 2.0 / 3);
  gates.at_least("one scale for a matrix costs more than 1 %", of_coarse.loss / exact.loss, 1.01);

  const File f32("f32"), file("packed");
  tt::save_packed(model, f32.path());
  tt::save_packed(four, file.path());
  std::printf("file: %.0f bytes instead of %.0f\n", file.bytes(), f32.bytes());
  gates.at_most("the file has at most a fifth of the bytes", file.bytes() / f32.bytes(), 0.2);
  tt::Gpt2 loaded = copy_of(model);
  tt::load_packed(loaded, file.path());
  gates.check("the model of the file makes the same predictions",
              predict(loaded, unseen).log_p == of_four.log_p, "equal bits", "others");
  tt::quantize(again, config);
  gates.check("equal weights and calibration data give equal bytes", equal_numbers(four, again),
              "equal bytes", "others");
}

double seconds_of_a_token(tt::Gpt2& model, tt::KvCache& cache) {
  const tt::NoGrad no_grad;
  const auto begin = std::chrono::steady_clock::now();
  const tt::Tensor token = tt::from_data(std::vector<int64_t>{7}, {1, 1});
  (void)model.head(model.features(token, &cache).select(1, -1)).to_vector();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Three of the twelve layers of GPT-2 124M, and its head: more bytes than a cache of the processor holds. The
// fastest of some turns counts, because other programs only make a turn slower.
void speed(milestone::Gates& gates) {
  tt::manual_seed(124);
  tt::Gpt2Config shape;
  shape.layers = 3, shape.context = 64;
  tt::Gpt2 model(shape), packed(shape);
  model.eval(), packed.eval();
  tt::quantize(packed, {.format = "Q4_0", .head = "Q4_0"});
  const tt::KvCacheOptions options{.capacity = shape.context};
  tt::ContiguousCache cache(model.kv_shape(), options), packed_cache(model.kv_shape(), options);
  double f32 = HUGE_VAL, four = HUGE_VAL;
  for (int turn = 0; turn < 12; ++turn) {
    f32 = std::min(f32, seconds_of_a_token(model, cache));
    four = std::min(four, seconds_of_a_token(packed, packed_cache));
  }
  std::printf("a token: %.1f ms in f32, %.1f ms in Q4_0\n", 1e3 * f32, 1e3 * four);
  gates.at_least("a token is 2.5 times as fast as in f32", f32 / four, 2.5);
}

int main() {
  return milestone::run([](milestone::Gates& gates) {
    quality(gates);
    speed(gates);
  });
}
