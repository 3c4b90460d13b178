// A compiler for tensor programs (Chen et al., "TVM: An automated end-to-end optimizing compiler for deep
// learning", 2018; since 2022 in PyTorch as torch.compile): a program that was written one operation at a
// time runs as fewer kernels, in less memory.
//
// The program is a training step of a GPT of plain operations: its norms, its softmax and its GELU are
// written out, as in a first draft. The step is captured once, forward and backward. Neighbouring elementwise
// operations become one kernel, and every intermediate value has an address in one arena. Nothing may change:
// the losses and the weights must have the bits of the same training without the compiler.
#include <tinytorch/acceleration/compile_step.hpp>
#include <tinytorch/data/grammar.hpp>
#include <tinytorch/layers/adam.hpp>
#include <tinytorch/layers/batch_source.hpp>
#include <tinytorch/layers/init.hpp>
#include <tinytorch/transformer/char_tokenizer.hpp>

#include "gates.hpp"

namespace tt = tinytorch;
using tt::Tensor;

constexpr int64_t kBatch = 8, kLength = 64, kWidth = 32, kHeads = 8, kLayers = 2;
constexpr uint64_t kSteps = 60;
constexpr double kRate = 5e-3;

const tt::grammar::Grammar kGrammar(R"(
sentence = 1 one | 1 many
one      = 1 'the ' noun ' ' does '\n'
many     = 1 'the ' noun 's ' do '\n'
noun     = 3 'cat' | 2 'dog' | 1 'bird'
does     = 3 'sleeps' | 2 'runs' | 1 'sings'
do       = 3 'sleep' | 2 'run' | 1 'sing'
)");

// Random windows of the text: inputs i64 [B, T], and as targets the same windows one position later.
tt::Batch windows(const tt::Tokens& text, uint64_t seed) {
  tt::Generator generator(seed);
  std::vector<int64_t> inputs, targets;
  for (int64_t b = 0; b < kBatch; ++b) {
    const auto places = static_cast<uint64_t>(text.size()) - static_cast<uint64_t>(kLength);
    const int32_t* const at = text.data() + generator.below(places);
    inputs.insert(inputs.end(), at, at + kLength);
    targets.insert(targets.end(), at + 1, at + kLength + 1);
  }
  return {tt::from_data(inputs, {kBatch, kLength}), tt::from_data(targets, {kBatch, kLength})};
}

// x W + b, with a sum of its own.
struct Affine : tt::Module {
  Affine(int64_t from, int64_t to, tt::Generator& random) {
    weight = add_parameter("weight", tt::empty({from, to}));
    bias = add_parameter("bias", tt::zeros({to}));
    tt::init::normal(weight, 0, 0.1, random);
  }
  Tensor forward(const Tensor& x) override { return tt::matmul(x, weight) + bias; }
  Tensor weight, bias;
};

struct Norm : tt::Module {
  Norm() {
    gain = add_parameter("gain", tt::ones({kWidth}));
    shift = add_parameter("shift", tt::zeros({kWidth}));
  }
  Tensor forward(const Tensor& x) override {
    const Tensor centered = x - x.sum({-1}, true) / double{kWidth};
    const Tensor variance = (centered * centered).sum({-1}, true) / double{kWidth};
    return centered / tt::sqrt(variance + 1e-5) * gain + shift;
  }
  Tensor gain, shift;
};

Tensor plain_softmax(const Tensor& x) {
  const Tensor e = tt::exp(x - tt::max(x.detach(), {-1}, true));
  return e / e.sum({-1}, true);
}
Tensor plain_gelu(const Tensor& x) {
  return x * 0.5 * (tt::tanh((x + x * x * x * 0.044715) * 0.7978845608) + 1.0);
}

struct Block : tt::Module {
  explicit Block(tt::Generator& random)
      : query(kWidth, kWidth, random),
        key(kWidth, kWidth, random),
        value(kWidth, kWidth, random),
        out(kWidth, kWidth, random),
        up(kWidth, 4 * kWidth, random),
        down(4 * kWidth, kWidth, random) {
    add("first", first), add("second", second), add("query", query), add("key", key), add("value", value);
    add("out", out), add("up", up), add("down", down);
    future = tt::triu(tt::ones({kLength, kLength}), 1) * -1e9;
  }
  Tensor forward(const Tensor& x) override {
    const auto heads = [](const Tensor& t) {
      return t.reshape({kBatch, kLength, kHeads, kWidth / kHeads}).transpose(1, 2);
    };
    const Tensor n = first(x);
    const Tensor scores = tt::matmul(heads(query(n)), heads(key(n)).transpose(2, 3)) /
                              std::sqrt(static_cast<double>(kWidth / kHeads)) +
                          future;
    const Tensor mixed = tt::matmul(plain_softmax(scores), heads(value(n)));
    const Tensor h = x + out(mixed.transpose(1, 2).reshape({kBatch, kLength, kWidth}));
    return h + down(plain_gelu(up(second(h))));
  }
  Norm first, second;
  Affine query, key, value, out, up, down;
  Tensor future;
};

struct PlainGpt : tt::Module {
  PlainGpt(int64_t characters, tt::Generator random) : blocks{Block(random), Block(random)} {
    table = add_parameter("table", tt::empty({characters, kWidth}));
    places = add_parameter("places", tt::empty({kLength, kWidth}));
    tt::init::normal(table, 0, 0.1, random), tt::init::normal(places, 0, 0.1, random);
    add("0", blocks[0]), add("1", blocks[1]), add("norm", norm);
  }
  Tensor forward(const Tensor& index) override {
    Tensor h = tt::embedding(table, index) + places;
    for (Block& block : blocks) h = block(h);
    return tt::matmul(norm(h), table.t()).flatten(0, 1);
  }
  Block blocks[kLayers];
  Norm norm;
  Tensor table, places;
};

// Counts the operations that run a kernel.
struct KernelCount : tt::OpObserver {
  int64_t kernels = 0;
  void after(const tt::PrimitiveBase& op, const tt::Tensors&, const tt::Tensors&, tt::Cost) override {
    kernels += op.is_view() ? 0 : 1;
  }
};

// The bytes that f allocates on top of what is in use, at most.
template <class F>
double peak_of(F&& f) {
  tt::reset_peak();
  const size_t before = tt::allocator_stats().current;
  f();
  return static_cast<double>(tt::allocator_stats().peak - before);
}

int main() {
  return milestone::run([](milestone::Gates& gates) {
    const std::string text = kGrammar.text(8000, 1);
    const tt::CharTokenizer characters = tt::CharTokenizer::from_text(text);
    const tt::Tokens tokens = characters.encode(text);
    PlainGpt eager(characters.vocabulary(), tt::Generator(2)),
        model(characters.vocabulary(), tt::Generator(2));
    const tt::NamedTensors plain = eager.named_parameters(), parameters = model.named_parameters();
    const std::vector<milestone::Numbers> before = milestone::values_of(parameters);
    tt::AdamW one(plain, {.lr = kRate, .weight_decay = 0.01}),
        two(parameters, {.lr = kRate, .weight_decay = 0.01});
    const auto loss_of = [](const Tensor& logits, const Tensor& target) {
      return tt::cross_entropy(logits, target.flatten());
    };
    auto step =
        tt::compile_step(model, two, loss_of, {.compile = {.kernels = tt::RegionKernels::interpreted}});

    int64_t other_losses = 0;
    double first = 0, last = 0, eager_peak = 0;
    KernelCount counted;
    for (uint64_t k = 0; k < kSteps; ++k) {
      const tt::Batch batch = windows(tokens, k);
      Tensor want;
      one.zero_grad();
      eager_peak = peak_of([&] {
        const tt::Observing observing(counted);
        want = loss_of(eager(batch.inputs), batch.targets);
        want.backward();
      });
      one.step();
      const Tensor got = step(batch.inputs, batch.targets);
      last = got.item<double>();
      first = k == 0 ? last : first;
      other_losses += !(got.item() == want.item());
    }
    const std::vector<milestone::Numbers> a = milestone::values_of(parameters),
                                          b = milestone::values_of(plain);
    const std::vector<tt::VariantReport> reports = step.reports();
    const tt::VariantReport report = reports.empty() ? tt::VariantReport{} : reports[0];
    const double kernels = static_cast<double>(counted.kernels) / static_cast<double>(kSteps);
    const auto compiled = static_cast<double>(report.kernels), arena = static_cast<double>(report.planned);
    std::printf("loss %.4f -> %.4f\nkernels of a step: %.0f eager, %.0f compiled\n", first, last, kernels,
                compiled);
    std::printf("memory of a step: %.0f bytes eager, %.0f in one arena\n", eager_peak, arena);
    gates.check("the step was captured", step.eager_reason().empty() && reports.size() == 1,
                "one captured step", step.eager_reason());
    gates.at_most("every loss has the bits of training without the compiler",
                  static_cast<double>(other_losses), 0);
    gates.check("every weight has the bits of training without the compiler", a == b, "equal weights",
                "others");
    gates.gradients_arrived(parameters);
    gates.parameters_moved(parameters, before, 0.02);
    gates.at_most("the loss is at most half of what it was", last, first / 2);
    gates.at_most("kernels are at most 0.6 of the eager ones", compiled / kernels, 0.6);
    gates.at_most("the planned memory is at most 0.85 of the eager peak", arena / eager_peak, 0.85);
  });
}
