// A training step of GPT-2 124M on a GPU in bf16: the library's fused layers, the same model composed from
// plain operations, and both compiled (acceleration/compile_step.hpp); the last form computes values twice,
// so that the peak of its intermediate values stays within a share of the compiled step's (--budget).
//
//     bench_compile_step_cuda --json out.json
//     bench_compile_step_cuda --batch 4 --rounds 15 --layers 2
// All forms train equal models on equal batches in turns, and their first losses must agree. A time includes
// the work of the host, up to the end of the step on the GPU. Peaks are those of the allocator during a step,
// above the weights, the optimizer's state and what the others keep. bench_cuda measures the fused step
// against torch.compile.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <common/gpu_results.hpp>
#include <common/guarded.hpp>
#include <common/results_file.hpp>
#include <gpt2_step.hpp>
#include <nlohmann/json.hpp>
#include <tinytorch/acceleration/compile_step.hpp>
#include <tinytorch/benchmarking/clock.hpp>
#include <tinytorch/benchmarking/statistics.hpp>

using nlohmann::json;
namespace tt = tinytorch;
namespace cuda = tt::backend::cuda;

namespace {

// The model by single operations: sums, norms, activations, logits and the loss are steps of their own.
tt::Tensor plain_loss(tt::Gpt2& model, const tt::Tensor& tokens, const tt::Tensor& targets) {
  tt::Tensor x = model.token_embedding(tokens) + model.position_embedding.rows(0, tokens.size(1));
  for (tt::Gpt2::Block& block : model.blocks) {
    x = x + block.attention.forward(block.attention_norm(x), tt::SequencePlace{});
    x = x + block.mlp.down(tt::gelu_tanh(block.mlp.up(block.mlp_norm(x))));
  }
  const tt::Tensor logits = model.head(model.final_norm(x));
  return tt::cross_entropy(logits.reshape({-1, logits.size(-1)}), targets.reshape({-1}));
}

struct Training {
  tt::Gpt2 model;
  tt::AdamW optimizer;
  std::function<tt::Tensor(const tt::Tensor&, const tt::Tensor&)> loss_of;
  std::unique_ptr<tt::CompiledStep> compiled;
  std::vector<double> times;
  double peak = 0, first_seconds = 0, loss = 0;

  Training(const tt::Gpt2Config& config, bool plain)
      : model(config),
        optimizer((model.to(tt::cuda), model.to(tt::bf16), model.named_parameters()),
                  tt::AdamOptions{.lr = 6e-4, .weight_decay = 0.1}) {
    if (plain)
      loss_of = [this](const tt::Tensor& x, const tt::Tensor& t) { return plain_loss(model, x, t); };
    else
      loss_of = [this](const tt::Tensor& x, const tt::Tensor& t) { return model.loss(x, t); };
  }
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  // `memory_budget`: bytes of intermediate values, 0: no limit (CompileOptions).
  void compile(int64_t memory_budget) {
    tt::StepCompileOptions options;
    options.compile.strict = true;
    options.compile.memory_budget = memory_budget;
    compiled = std::make_unique<tt::CompiledStep>(optimizer, loss_of, options);
  }

  void step(const tt::Tensor& x, const tt::Tensor& t) {
    if (compiled) {
      last_ = (*compiled)(x, t);
      return;
    }
    optimizer.zero_grad();
    last_ = loss_of(x, t);
    last_.backward();
    last_ = last_.detach();
    optimizer.step();
  }
  double seconds(const tt::Tensor& x, const tt::Tensor& t) {
    cuda::synchronize_device(0);
    const double start = tt::benchmarking::SteadyClock{}();
    step(x, t);
    cuda::synchronize_device(0);
    return tt::benchmarking::SteadyClock{}() - start;
  }
  void measure(const tt::Tensor& x, const tt::Tensor& t, bool warm_up) {
    if (!compiled) optimizer.zero_grad();
    const size_t before = cuda::memory_stats(0).current;
    cuda::reset_peak(0);
    const double time = seconds(x, t);
    if (warm_up) return;
    times.push_back(time);
    peak = static_cast<double>(cuda::memory_stats(0).peak - before);
    if (!compiled) optimizer.zero_grad();
  }
  double last_loss() const { return last_.item<double>(); }

 private:
  tt::Tensor last_;
};

// The arena of a compiled step is in use between steps; it belongs to the step's peak.
double kept_bytes(Training& training) {
  if (!training.compiled) return 0;
  training.optimizer.zero_grad();
  const size_t with = cuda::memory_stats(0).current;
  training.compiled.reset();
  return static_cast<double>(with - cuda::memory_stats(0).current);
}

// The numbers of a form, against the fused step's; they are also printed.
json row_of(const char* name, Training& of, double fused_seconds, double fused_peak) {
  json row = {{"form", name},
              {"seconds", tt::statistics::median(of.times)},
              {"speed_of_fused", fused_seconds / tt::statistics::median(of.times)},
              {"first_call_seconds", of.first_seconds},
              {"loss", of.loss}};
  if (of.compiled) {
    const tt::VariantReport report = of.compiled->reports()[0];
    row["kernels"] = report.kernels, row["kernels_captured"] = report.kernels_captured;
    row["planned_mb"] = static_cast<double>(report.planned) * 1e-6;
    row["recomputed_steps"] = report.recomputed;
  }
  const double peak = of.peak + kept_bytes(of);
  row["peak_mb"] = peak * 1e-6;
  row["peak_of_fused"] = peak / fused_peak;
  fmt::print(
      "{:16} {:8.2f} ms, {:.2f} of the fused step's speed, peak {:.0f} MB ({:.2f}), first call {:.2f} s\n",
      name, row["seconds"].get<double>() * 1e3, row["speed_of_fused"].get<double>(),
      row["peak_mb"].get<double>(), row["peak_of_fused"].get<double>(), of.first_seconds);
  std::fflush(stdout);
  return row;
}

json measure(const tt::Gpt2Config& config, int64_t batch, int64_t rounds, double budget) {
  struct Form {
    const char* name;
    bool plain, compile, within_budget;
  };
  constexpr Form kForms[] = {{"fused", false, false, false},
                             {"fused, compiled", false, true, false},
                             {"plain", true, false, false},
                             {"plain, compiled", true, true, false},
                             {"fused, budget", false, true, true}};
  const tt::Tensor x = tt::randint(0, config.vocabulary, {batch, config.context}, tt::i64, tt::cuda),
                   t = tt::randint(0, config.vocabulary, {batch, config.context}, tt::i64, tt::cuda);
  std::vector<std::unique_ptr<Training>> all;
  for (const Form& form : kForms) {
    all.push_back(std::make_unique<Training>(config, form.plain));
    if (all.size() > 1) all.back()->model.load_state_dict(all[0]->model.state_dict());
  }
  for (size_t k = 0; k < all.size(); ++k) {
    Training& of = *all[k];
    double bytes = 0;
    if (kForms[k].within_budget)
      bytes = budget * static_cast<double>(all[1]->compiled->reports()[0].peak_fused);
    if (kForms[k].compile) of.compile(static_cast<int64_t>(bytes));
    of.first_seconds = of.seconds(x, t);
    of.loss = of.last_loss();
    if (!(std::abs(of.loss - all[0]->loss) < 0.05))
      throw std::runtime_error(
          fmt::format("the loss of \"{}\" is {}, and not {}", kForms[k].name, of.loss, all[0]->loss));
  }
  for (int64_t r = 0; r < rounds + 3; ++r) {
    for (size_t k = 0; k < all.size(); ++k)
      all[(k + static_cast<size_t>(r)) % all.size()]->measure(x, t, r < 3);
  }
  json out = {{"batch", batch},
              {"tokens", config.context},
              {"layers", config.layers},
              {"dtype", "bf16"},
              {"budget", budget}};
  const double seconds = tt::statistics::median(all[0]->times), peak = all[0]->peak;
  for (size_t k = 0; k < all.size(); ++k)
    out["forms"].push_back(row_of(kForms[k].name, *all[k], seconds, peak));
  return out;
}

int run(int argc, char** argv) {
  int64_t batch = 8, rounds = 9;
  double budget = 0.7;
  tt::Gpt2Config config{
      .vocabulary = 50304, .embedding_dropout = 0, .attention_dropout = 0, .residual_dropout = 0};
  std::string path;
  CLI::App app{"Eager and compiled training steps of GPT-2 on a GPU"};
  app.add_option("--batch", batch, "sequences")->check(CLI::PositiveNumber);
  app.add_option("--tokens", config.context, "tokens of a sequence");
  app.add_option("--layers", config.layers, "layers");
  app.add_option("--vocabulary", config.vocabulary, "tokens of the vocabulary");
  app.add_option("--budget", budget, "share of the compiled step's peak that the last form may use")
      ->check(CLI::Range(0.1, 1.0));
  app.add_option("--rounds", rounds, "measured steps of each form")->check(CLI::PositiveNumber);
  app.add_option("--json", path, "also write the numbers here");
  CLI11_PARSE(app, argc, argv);
  bench::require_gpu("bench_compile_step measures the CPU");
  const bench::ResultsFile file(path);
  tt::manual_seed(1);
  json out = bench::gpu_results(rounds);
  out["step"] = measure(config, batch, rounds, budget);
  file.finish(out);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::guarded("bench_compile_step_cuda", [&] { return run(argc, argv); });
}
