// A small GPT generates text (Radford et al., "Improving language understanding by generative pre-training",
// 2018; its transformer: Vaswani et al., "Attention is all you need", 2017): each character attends to all
// characters before it to predict the next one.
//
// The text comes from a grammar, so its entropy is known, and no model can have a lower loss. A verb agrees
// with a noun up to 20 characters before it, which only attention can transport to the verb.
#include <set>
#include <sstream>
#include <tinytorch/data/grammar.hpp>
#include <tinytorch/layers/adam.hpp>
#include <tinytorch/layers/batch_source.hpp>
#include <tinytorch/layers/schedule.hpp>
#include <tinytorch/transformer/char_tokenizer.hpp>
#include <tinytorch/transformer/generate.hpp>
#include <tinytorch/transformer/gpt2.hpp>

#include "gates.hpp"

namespace tt = tinytorch;

constexpr int64_t kBatch = 16, kLength = 64;
constexpr uint64_t kSteps = 300;
constexpr double kRate = 1e-2;

const tt::grammar::Grammar kGrammar(R"(
sentence = 1 one | 1 many
one      = 1 'the ' noun ' ' place one_does '\n'
many     = 1 'the ' noun 's ' place many_do '\n'
noun     = 3 'cat' | 2 'dog' | 1 'bird'
place    = 2 'here ' | 1 'in the garden ' | 1 'on the hill '
one_does = 3 'sleeps' | 2 'runs' | 1 'sings'
many_do  = 3 'sleep' | 2 'run' | 1 'sing'
)");

// Random windows of the text: inputs i64 [B, T], and as targets the same windows one position later.
tt::Batch windows(const tt::Tokens& text, uint64_t seed) {
  tt::Generator generator(seed);
  std::vector<int64_t> inputs, targets;
  for (int64_t b = 0; b < kBatch; ++b) {
    const double places = static_cast<double>(text.size()) - static_cast<double>(kLength);
    const int32_t* const at = text.data() + static_cast<int64_t>(generator.uniform() * places);
    inputs.insert(inputs.end(), at, at + kLength);
    targets.insert(targets.end(), at + 1, at + kLength + 1);
  }
  return {tt::from_data(inputs, {kBatch, kLength}), tt::from_data(targets, {kBatch, kLength})};
}

// The mean loss over the positions from `first` on.
tt::Tensor loss_of(tt::Gpt2& model, const tt::Batch& batch, int64_t first = 0) {
  const tt::Tensor logits = model(batch.inputs).slice(1, first);  // [B, T, V]
  return tt::cross_entropy(logits.flatten(0, 1), batch.targets.slice(1, first).flatten());
}

void train(tt::Gpt2& model, tt::Optimizer& optimizer, const tt::Tokens& text) {
  const tt::Schedule schedule = tt::cosine(kRate, static_cast<int64_t>(kSteps), 20, kRate / 20);
  double sum = 0;
  for (uint64_t step = 0; step < kSteps; ++step) {
    optimizer.set_lr(schedule(static_cast<int64_t>(step)));
    optimizer.zero_grad();
    const tt::Tensor loss = loss_of(model, windows(text, step));
    loss.backward();
    optimizer.step();
    sum += loss.item<double>();
    if ((step + 1) % 50 != 0) continue;
    std::printf("%4llu  %.4f\n", static_cast<unsigned long long>(step + 1), sum / 50);
    sum = 0;
  }
}

// A window begins inside a sentence whose beginning is unknown, so the loss is computed over its second half.
double loss_on_unseen(tt::Gpt2& model, const tt::Tokens& text) {
  const tt::NoGrad no_grad;
  double sum = 0;
  for (uint64_t i = 0; i < 20; ++i) sum += loss_of(model, windows(text, i), kLength / 2).item<double>();
  return sum / 20;
}

tt::Tensor logits_of(tt::Gpt2& model, const tt::Tokens& tokens) {
  const tt::NoGrad no_grad;
  const std::vector<int64_t> ids(tokens.begin(), tokens.end());
  return model(tt::from_data(ids, {1, static_cast<int64_t>(ids.size())}))[0];  // [T, V]
}

// Changes one token at a time, at several positions, and counts the logits of earlier positions whose bits
// change.
double leaks(tt::Gpt2& model, tt::Tokens tokens) {
  const std::vector<float> before = logits_of(model, tokens).to_vector();
  const size_t vocabulary = before.size() / tokens.size();
  int64_t changed = 0;
  for (size_t place = 1; place < tokens.size(); place += 7) {
    tt::Tokens other = tokens;
    other[place] = (other[place] + 1) % static_cast<int32_t>(vocabulary);
    const std::vector<float> after = logits_of(model, other).to_vector();
    for (size_t i = 0; i < place * vocabulary; ++i) changed += !(after[i] == before[i]);
  }
  return static_cast<double>(changed);
}

// The probability of the last character after the others.
double probability(tt::Gpt2& model, const tt::Tokens& tokens) {
  const tt::Tensor last = logits_of(model, {tokens.begin(), tokens.end() - 1}).select(0, -1);  // [V]
  return tt::softmax(last).to_vector<double>().at(static_cast<size_t>(tokens.back()));
}

// The share of a text's complete lines that are sentences of the grammar.
double share_of_sentences(const std::string& text) {
  std::set<std::string> sentences;
  for (uint64_t i = 0; i < 5000; ++i) sentences.insert(kGrammar.sentence(3, i).text);
  std::istringstream lines(text.substr(0, text.rfind('\n') + 1));
  double all = 0, right = 0;
  for (std::string line; std::getline(lines, line); ++all) right += sentences.contains(line + "\n");
  return right / all;
}

int main() {
  return milestone::run([](milestone::Gates& gates) {
    const double entropy = kGrammar.entropy_bits_per_character() * std::log(2.0);
    const std::string text = kGrammar.text(200000, 1);
    const tt::CharTokenizer characters = tt::CharTokenizer::from_text(text);
    const tt::Tokens tokens = characters.encode(text), unseen = characters.encode(kGrammar.text(20000, 2));
    tt::manual_seed(2017);
    tt::Gpt2Config config{.vocabulary = characters.vocabulary(), .context = kLength, .features = 32};
    config.layers = 2, config.heads = 4, config.deviation = 0.1;
    config.embedding_dropout = config.attention_dropout = config.residual_dropout = 0;
    tt::Gpt2 model(config);
    const tt::NamedTensors parameters = model.named_parameters();
    const std::vector<milestone::Numbers> before = milestone::values_of(parameters);
    tt::AdamW optimizer(parameters, {.lr = kRate / 20, .weight_decay = 0.01});
    const tt::Batch first = windows(tokens, kSteps);
    const double step_error = milestone::distance_from_hand(
        optimizer, parameters, [&] { return loss_of(model, first); }, milestone::AdamWByHand{kRate / 20});
    std::printf("%lld parameters\nstep  loss\n", static_cast<long long>(model.parameter_count()));
    train(model, optimizer, tokens);
    const double loss = loss_on_unseen(model, unseen);
    std::printf("a character of unseen text: %.4f, at best the entropy of %.4f\n", loss, entropy);
    const tt::Generated written = tt::generate(
        model, characters.encode("\n"), {.max_tokens = 600, .sampling = {.temperature = 0.7}, .seed = 1});
    const std::string sample = characters.decode(written.tokens);
    std::printf("\n%s\n\n", sample.substr(0, 300).c_str());
    gates.at_most("the future does not leak: earlier logits stay bit-equal",
                  leaks(model, {unseen.begin(), unseen.begin() + kLength}), 0);
    gates.gradients_arrived(parameters);
    gates.at_most("steps of AdamW equal the reference in double", step_error, 1e-3);
    gates.parameters_moved(parameters, before, 0.02);
    gates.at_most("the loss is within 10 % of the entropy", loss, 1.1 * entropy);
    gates.at_least("the verb after a singular noun is `sleeps`",
                   probability(model, characters.encode("\nthe cat in the garden sleeps")), 0.75);
    gates.at_least("the verb after a plural noun is `sleep`",
                   probability(model, characters.encode("\nthe cats in the garden sleep\n")), 0.75);
    gates.at_least("the generated lines are sentences of the grammar", share_of_sentences(sample), 0.8);
  });
}
