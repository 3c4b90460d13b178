// Measures the quality that quantization costs a small GPT. The model is trained here on sentences of a
// grammar, quantized in several ways, and compared with itself in f32 on two texts.
//
//   bench_quantized_quality --json bench/results/quantized_quality.json
//   bench_quantized_quality --steps 200 --page quantized.html
//
// The first text has the grammar of the training text; in the second one, rare words and sentences are as
// frequent as common ones. Calibration uses the training text alone. Equal seeds and builds give equal
// results. A loss can hide errors that cancel, so the divergence from f32 and the share of equal guesses are
// shown, too.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <common/guarded.hpp>
#include <common/provenance.hpp>
#include <common/results_file.hpp>
#include <iostream>
#include <tinytorch/data/grammar.hpp>
#include <tinytorch/layers/adam.hpp>
#include <tinytorch/layers/clip.hpp>
#include <tinytorch/layers/schedule.hpp>
#include <tinytorch/quantization/report_page.hpp>
#include <tinytorch/quantization/search.hpp>
#include <tinytorch/tinytorch.hpp>
#include <tinytorch/transformer/char_tokenizer.hpp>

using nlohmann::json;
namespace tt = tinytorch;

namespace {

constexpr int64_t kLength = 64, kBatch = 8, kEvaluated = 256;  // tokens of a window; windows

// The grammar whose words, and kinds of sentences, are equally likely. Rules that refer to themselves keep
// their weights, so that sentences stay short.
std::string even_grammar() {
  const std::string notation = std::string(tt::grammar::detail::kEnglish) + tt::grammar::detail::additions();
  std::string out;
  for (size_t begin = 0; begin < notation.size();) {
    size_t end = notation.find('\n', begin);
    end = end == std::string::npos ? notation.size() : end;
    const std::string line = notation.substr(begin, end - begin);
    bool quoted = false, words = true, after_mark = false;
    for (size_t i = line.find('='); i < line.size(); ++i) {
      if (line[i] == '\'') quoted = !quoted;
      if (!quoted && std::isalpha(static_cast<unsigned char>(line[i]))) words = false;
    }
    const bool even = words || line.rfind("sentence", 0) == 0;
    quoted = false;
    for (const char c : line) {
      if (c == '\'') quoted = !quoted;
      const bool digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
      if (even && !quoted && after_mark && digit) {
        out += '1', after_mark = false;
        continue;
      }
      if (!quoted && (c == '=' || c == '|')) after_mark = true;
      out += c;
    }
    out += '\n', begin = end + 1;
  }
  return out;
}

using Ids = std::vector<int64_t>;
Ids ids_of(const tt::CharTokenizer& characters, const std::string& text) {
  const auto tokens = characters.encode(text);
  return {tokens.begin(), tokens.end()};
}
struct Windows {
  tt::Tensor inputs, targets;  // [count, kLength]
};
Windows windows_at(const Ids& ids, const std::vector<int64_t>& starts) {
  Ids in, out;
  for (const int64_t s : starts) {
    in.insert(in.end(), ids.begin() + s, ids.begin() + s + kLength);
    out.insert(out.end(), ids.begin() + s + 1, ids.begin() + s + kLength + 1);
  }
  const tt::Shape shape{std::ssize(starts), kLength};
  return {tt::from_data(in, shape, tt::cpu), tt::from_data(out, shape, tt::cpu)};
}
std::vector<int64_t> random_starts(const Ids& ids, int64_t count, tt::Generator& g) {
  std::vector<int64_t> starts;
  for (int64_t i = 0; i < count; ++i)
    starts.push_back(static_cast<int64_t>(g.below(static_cast<uint64_t>(std::ssize(ids) - kLength - 1))));
  return starts;
}

tt::Gpt2 new_model(int64_t vocabulary) {
  tt::manual_seed(1);
  return tt::Gpt2({.vocabulary = vocabulary,
                   .context = kLength,
                   .features = 256,
                   .layers = 2,
                   .heads = 4,
                   .embedding_dropout = 0,
                   .attention_dropout = 0,
                   .residual_dropout = 0});
}

void train(tt::Gpt2& model, const Ids& text, int64_t steps) {
  tt::AdamW optimizer(model.named_parameters(), {.lr = 2e-3, .beta2 = 0.99, .weight_decay = 0.01});
  const tt::Schedule rate = tt::cosine(2e-3, steps, std::min<int64_t>(50, steps / 4), 1e-4);
  tt::Generator g(2);
  for (int64_t step = 0; step < steps; ++step) {
    const Windows w = windows_at(text, random_starts(text, kBatch, g));
    optimizer.set_lr(rate(step));
    optimizer.zero_grad();
    const tt::Tensor loss = model.loss(w.inputs, w.targets);
    tt::backward(loss);
    tt::clip_gradient_norm(model.parameters(), 1.0);
    optimizer.step();
    if (step % 100 == 0 || step + 1 == steps)
      fmt::print("step {:5}: loss {:.4f}\n", step, loss.item<double>());
    std::fflush(stdout);
  }
  model.eval();
}

// Loss, and what changed against the outputs of the f32 model. A window begins inside a sentence, which
// cannot be predicted, so its second half counts.
struct Quality {
  double loss = 0, divergence = 0, same = 1;
};
struct Exact {
  std::vector<tt::Tensor> logits;
};
Quality quality(tt::Gpt2& model, const std::vector<Windows>& text, Exact& exact, bool is_exact) {
  const tt::NoGrad no_grad;
  Quality out;
  std::vector<tt::Tensor> logits;
  int64_t same = 0, count = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const tt::Tensor all = model(text[i].inputs).slice(1, kLength / 2).contiguous();
    const tt::Tensor y = all.reshape({-1, all.size(-1)});
    const tt::Tensor targets = text[i].targets.slice(1, kLength / 2).contiguous().reshape({-1});
    out.loss += tt::cross_entropy(y, targets).item<double>() / static_cast<double>(text.size());
    if (is_exact) exact.logits.push_back(y);
    const tt::Tensor equal = tt::eq(tt::argmax(y, -1), tt::argmax(exact.logits[i], -1));
    same += tt::sum(equal.to(tt::i64)).item<int64_t>(), count += y.size(0);
    logits.push_back(y);
  }
  out.divergence = tt::quantization::divergence(exact.logits, logits);
  out.same = static_cast<double>(same) / static_cast<double>(count);
  return out;
}

struct Case {
  std::string name, format, head, method;
};

// The trained model, what it is evaluated on, and the rows measured so far.
struct Study {
  bench::ResultsFile file;
  std::string page;
  int64_t vocabulary = 0;
  tt::StateDict weights{};
  std::vector<tt::Tensor> calibration{};
  std::vector<std::vector<Windows>> texts{};
  std::vector<Exact> exact = std::vector<Exact>(2);
  std::vector<Quality> reference{};
  json rows = json::array();

  tt::Gpt2 model() const {
    tt::Gpt2 copy = new_model(vocabulary);
    copy.load_state_dict(weights);
    copy.eval();
    return copy;
  }
  // Quantizes a copy of the model, prints and keeps its row, and returns its bytes.
  int64_t measure(const std::string& name, const tt::QuantizationConfig& config) {
    tt::Gpt2 packed = model();
    const tt::QuantizationReport report = tt::quantize(packed, config);
    if (config.measure) tt::save_html_report(report, page);
    json row{{"name", name},
             {"method", config.method},
             {"head", config.head},
             {"bytes", report.bytes},
             {"bits_per_weight", report.bits_per_weight()}};
    fmt::print("{:24} {:5.2f} bits", name, report.bits_per_weight());
    for (size_t t = 0; t < 2; ++t) {
      const Quality q = quality(packed, texts[t], exact[t], false);
      const double change = q.loss / reference[t].loss - 1;
      fmt::print("   {:+8.4f} % loss, KL {:.2e}, {:.2f} % equal", 100 * change, q.divergence, 100 * q.same);
      row["texts"].push_back({{"text", t == 0 ? "grammar" : "even"},
                              {"loss", q.loss},
                              {"change", change},
                              {"divergence", q.divergence},
                              {"equal_guesses", q.same}});
    }
    fmt::print("\n"), std::fflush(stdout);
    rows.push_back(row), file.keep(rows);
    return report.bytes;
  }
};

std::vector<Windows> consecutive_windows(const Ids& ids) {
  std::vector<Windows> out;
  for (int64_t i = 0; i < kEvaluated; i += 32) {
    std::vector<int64_t> starts;
    for (int64_t k = i; k < i + 32; ++k) starts.push_back(k * kLength);
    out.push_back(windows_at(ids, starts));
  }
  return out;
}

void measure_cases(Study& study) {
  const std::vector<Case> cases{
      {"Q8_0", "Q8_0", "Q8_0", "nearest"},           {"Q4_0, head Q4_0", "Q4_0", "Q4_0", "nearest"},
      {"Q4_0", "Q4_0", "Q8_0", "nearest"},           {"Q4_0 mse", "Q4_0", "Q8_0", "mse"},
      {"Q4_0 gptq", "Q4_0", "Q8_0", "gptq"},         {"Q4_0 awq", "Q4_0", "Q8_0", "awq"},
      {"Q4_0 awq+gptq", "Q4_0", "Q8_0", "awq+gptq"}, {"Q4_K", "Q4_K", "Q8_0", "nearest"},
      {"Q4_K gptq", "Q4_K", "Q8_0", "gptq"},         {"Q4_K awq+gptq", "Q4_K", "Q8_0", "awq+gptq"}};
  int64_t budget = 0;
  for (const Case& c : cases) {
    tt::QuantizationConfig config{
        .format = c.format, .head = c.head, .method = c.method, .calibration = study.calibration};
    config.measure = !study.page.empty() && c.name == "Q4_0 gptq";
    const int64_t bytes = study.measure(c.name, config);
    if (c.name == "Q4_0") budget = bytes + bytes / 50;
  }
  tt::Gpt2 model = study.model();
  const std::vector<tt::Tensor> few(study.calibration.begin(), study.calibration.begin() + 2);
  const tt::FormatSearch found =
      tt::search_formats(model, {.formats = {"Q4_0", "Q4_K", "Q4_1", "Q6_K", "Q8_0"},
                                 .bytes = budget,
                                 .calibration = few,
                                 .head = true,
                                 .method = "gptq"});
  tt::QuantizationConfig mixed = found.config;
  mixed.calibration = study.calibration;
  study.measure("searched, +2 % bytes, gptq", mixed);
}

int run(int64_t steps, int64_t characters, const std::string& path, const std::string& page) {
  Study study{.file = bench::ResultsFile(path), .page = page};
  const std::string training = tt::grammar::text(characters, 1);
  const tt::CharTokenizer tokenizer = tt::CharTokenizer::from_text(training);
  const Ids ids = ids_of(tokenizer, training);
  const int64_t length = kEvaluated * kLength + 1;
  for (const std::string& text :
       {tt::grammar::text(length, 77), tt::grammar::Grammar(even_grammar()).text(length, 78)})
    study.texts.push_back(consecutive_windows(ids_of(tokenizer, text)));
  study.vocabulary = tokenizer.vocabulary();
  tt::Gpt2 trained = new_model(study.vocabulary);
  train(trained, ids, steps);
  study.weights = trained.state_dict();
  tt::Generator g(3);
  for (int i = 0; i < 8; ++i) study.calibration.push_back(windows_at(ids, random_starts(ids, 16, g)).inputs);
  for (size_t t = 0; t < 2; ++t)
    study.reference.push_back(quality(trained, study.texts[t], study.exact[t], true));
  const int64_t bytes = tt::quantization::bytes_of(trained);
  const double on_text = study.reference[0].loss, on_even = study.reference[1].loss;
  fmt::print("f32: loss {:.5f} on the text, {:.5f} on the even text; {} bytes\n", on_text, on_even, bytes);
  measure_cases(study);
  study.file.finish({{"machine", bench::provenance()},
                     {"steps", steps},
                     {"parameters", trained.parameter_count()},
                     {"f32", {{"bytes", bytes}, {"loss", {on_text, on_even}}}},
                     {"entropy", tt::grammar::entropy_bits_per_character() * std::log(2.0)},
                     {"rows", study.rows}});
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::guarded("bench_quantized_quality", [&] {
    CLI::App app{"The loss of a small GPT in few bits"};
    int64_t steps = 300, characters = 1'000'000;
    std::string path, page;
    app.add_option("--steps", steps, "training steps of 512 tokens")->check(CLI::Range(1, 1'000'000));
    app.add_option("--characters", characters, "characters of the training text")
        ->check(CLI::Range(1000, 100'000'000));
    app.add_option("--json", path, "also write the numbers here");
    app.add_option("--page", page, "write the report of Q4_0 with GPTQ as an HTML page");
    CLI11_PARSE(app, argc, argv);
    return run(steps, characters, path, page);
  });
}
