// A training step of GPT-2 on the CPU, eager and compiled (acceleration/compile_step.hpp): time, peak of
// memory, and what compiling costs.
//
//     bench_compile_step                              GPT-2 124M, 4 sequences of 64 tokens, f32, no dropout
//     bench_compile_step --batch 1 --tokens 128 --rounds 3 --json out.json
//     bench_compile_step --layers 2 --features 64 --heads 2 --vocabulary 512 --dropout 0.1
//     bench_compile_step --forward                    compiles the forward pass alone, in processes of its
//     own
// Each round makes one eager and one compiled step in turns of order, from equal weights, on equal batches
// and with equal random numbers: the losses must be equal. Peaks are those of the allocator, above what is in
// use between two steps; what the compiled step keeps, its arena with the gradients, is a part of its peak,
// and is measured by what is freed with it.
#include <fmt/format.h>

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <common/guarded.hpp>
#include <common/provenance.hpp>
#include <common/results_file.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <tinytorch/acceleration/compile_page.hpp>
#include <tinytorch/acceleration/compile_step.hpp>
#include <tinytorch/acceleration/compiled.hpp>
#include <tinytorch/benchmarking/clock.hpp>
#include <tinytorch/benchmarking/statistics.hpp>
#include <tinytorch/layers/adam.hpp>
#include <tinytorch/tinytorch.hpp>
#include <tinytorch/transformer/gpt2.hpp>

using nlohmann::json;
namespace tt = tinytorch;

namespace {

struct Training {
  tt::Gpt2 model;
  tt::AdamW optimizer{model.named_parameters(), {.lr = 3e-4, .beta2 = 0.95, .weight_decay = 0.1}};
  explicit Training(const tt::Gpt2Config& config) : model(config) {}
};

double seconds_of(const std::function<void()>& work) {
  const double start = tt::benchmarking::SteadyClock{}();
  work();
  return tt::benchmarking::SteadyClock{}() - start;
}
size_t in_use() { return tt::allocator_stats().current; }
// The largest number of bytes in use during `work`, above those in use before it.
double peak_of(const std::function<void()>& work) {
  const size_t before = in_use();
  tt::reset_peak();
  work();
  return static_cast<double>(tt::allocator_stats().peak - before);
}

// Microseconds of a compiled call that computes next to nothing: 8 arguments and 150 parameters of one
// element each. So it is the time of guards, binding and dispatch.
json host_time() {
  tt::Tensors parameters, arguments;
  for (int k = 0; k < 150; ++k) parameters.push_back(tt::full({1}, 1 + k * 1e-4).requires_grad_());
  for (int k = 0; k < 8; ++k) arguments.push_back(tt::ones({1}));
  const tt::NoGrad guard;
  auto f = tt::compile(
      [&](const tt::Tensors& x) {
        tt::Tensor y = x[0];
        for (size_t k = 1; k < x.size(); ++k) y = y + x[k];
        for (const tt::Tensor& p : parameters) y = y * p;
        return y;
      },
      {.kernels = tt::RegionKernels::compiled, .strict = true});
  for (int k = 0; k < 10; ++k) f(arguments);
  std::vector<double> all;
  for (int round = 0; round < 20; ++round)
    all.push_back(1e6 / 40 * seconds_of([&] {
                    for (int k = 0; k < 40; ++k) f(arguments);
                  }));
  return {{"us_per_call", tt::statistics::median(all)},
          {"arguments", arguments.size()},
          {"parameters", parameters.size()},
          {"kernels", f.reports()[0].kernels}};
}

// Seconds to compile the forward pass of GPT-2: the first call less the three passes in it, which are the
// capture, the trial and the call itself. Kernels come from the cache on disk, or are compiled.
json forward_seconds(const tt::Gpt2Config& config, int64_t batch, int64_t length) {
  tt::Gpt2 model(config);
  model.eval();
  const tt::NoGrad guard;
  const tt::Tensor x = tt::randint(0, config.vocabulary, {batch, length});
  auto f = tt::compile([&](const tt::Tensor& tokens) { return model.features(tokens); },
                       {.kernels = tt::RegionKernels::compiled, .strict = true});
  model.features(x);
  std::vector<double> passes;
  for (int k = 0; k < 5; ++k) passes.push_back(seconds_of([&] { model.features(x); }));
  const double first = seconds_of([&] { f(x); }), pass = tt::statistics::median(passes);
  return {{"first_call_seconds", first}, {"pass_seconds", pass}, {"compile_seconds", first - 3 * pass}};
}
// Measures forward passes in fresh processes: with an empty cache of kernels, and with what the first process
// left there.
json forward_cold_and_warm(int64_t batch, int64_t length, int64_t layers) {
  namespace fs = std::filesystem;
  const fs::path cache = fs::temp_directory_path() / fmt::format("bench_compile_step_{}", ::getpid());
  const std::string self = fs::read_symlink("/proc/self/exe").string();
  std::vector<double> cold, warm;
  json last;
  for (int round = 0; round < 3; ++round) {
    for (std::vector<double>* times : {&cold, &warm}) {
      if (times == &cold) fs::remove_all(cache), fs::create_directories(cache);
      const fs::path out = cache.string() + ".json";
      const std::string command = fmt::format(
          "TINYTORCH_KERNEL_CACHE='{}' '{}' --forward --batch {} --tokens {} --layers {} --json '{}' > "
          "/dev/null",
          cache.string(), self, batch, length, layers, out.string());
      if (std::system(command.c_str()) != 0) throw std::runtime_error("failed: " + command);
      last = json::parse(std::ifstream(out));
      times->push_back(last.at("compile_seconds"));
      fs::remove(out);
    }
  }
  fs::remove_all(cache);
  return {{"tokens", length},
          {"cold_seconds", tt::statistics::median(cold)},
          {"warm_seconds", tt::statistics::median(warm)},
          {"pass_seconds", last.at("pass_seconds")}};
}

// The results of all rounds; peaks are in bytes.
struct Measured {
  std::vector<double> times, compiled_times, ratios;
  double eager_peak = 0, compiled_peak = 0, kept = 0, cold = 0, first_eager = 0, loss = 0;
};
json row_of(const Measured& m, const tt::VariantReport& report) {
  const auto planned = static_cast<double>(report.planned);
  return {{"eager_seconds", tt::statistics::median(m.times)},
          {"compiled_seconds", tt::statistics::median(m.compiled_times)},
          {"speed_of_eager", tt::statistics::median(m.ratios)},
          {"eager_peak_mb", m.eager_peak * 1e-6},
          {"compiled_peak_mb", m.compiled_peak * 1e-6},
          {"peak_of_eager", m.compiled_peak / m.eager_peak},
          {"planned_mb", planned * 1e-6},
          {"planned_of_bound", planned / static_cast<double>(report.peak_fused)},
          {"kept_mb", m.kept * 1e-6},
          {"estimate_error", std::abs(planned - m.compiled_peak) / m.compiled_peak},
          {"first_call_seconds", m.cold},
          {"first_eager_seconds", m.first_eager},
          {"kernels_captured", report.kernels_captured},
          {"kernels", report.kernels},
          {"rounds", m.ratios.size()},
          {"ratios", m.ratios},
          {"loss", m.loss}};
}

void write_page(const tt::CompiledStep& step, const std::string& page, int64_t batch, int64_t length) {
  std::ofstream out(page);
  out << tt::compile_page(step, fmt::format("A training step of GPT-2, {} x {} tokens", batch, length));
  if (!out.flush()) throw std::runtime_error("cannot write " + page);
}

json measure(const tt::Gpt2Config& config, int64_t batch, int64_t length, int64_t rounds,
             const std::string& page) {
  Training eager(config), compiled(config);
  compiled.model.load_state_dict(eager.model.state_dict());
  const tt::Tensor x = tt::randint(0, config.vocabulary, {batch, length}),
                   t = tt::randint(0, config.vocabulary, {batch, length});
  double eager_loss = 0, compiled_loss = 0;
  const auto eager_step = [&] {
    eager.optimizer.zero_grad();
    const tt::Tensor loss = eager.model.loss(x, t);
    loss.backward();
    eager.optimizer.step();
    eager_loss = loss.item<double>();
  };
  tt::StepCompileOptions options;
  options.compile.strict = true;
  auto step = std::make_unique<tt::CompiledStep>(
      compiled.optimizer, [&](const tt::Tensor& a, const tt::Tensor& b) { return compiled.model.loss(a, b); },
      options);
  const auto compiled_step = [&] { compiled_loss = (*step)(x, t).item<double>(); };
  const auto both = [&](const std::function<void()>& first, const std::function<void()>& second) {
    const tt::GeneratorState random = tt::default_generator().state();
    first();
    tt::default_generator().set_state(random);
    second();
    if (eager_loss != compiled_loss)
      throw std::runtime_error(fmt::format("losses differ: {} and {}", eager_loss, compiled_loss));
  };
  Measured m;
  both([&] { m.first_eager = seconds_of(eager_step); }, [&] { m.cold = seconds_of(compiled_step); });
  for (int k = 0; k < 2; ++k) both(eager_step, compiled_step);  // the second looks
  const auto measure_eager = [&] {
    eager.optimizer.zero_grad();
    m.eager_peak = std::max(m.eager_peak, peak_of([&] { m.times.push_back(seconds_of(eager_step)); }));
    eager.optimizer.zero_grad();
  };
  const auto measure_compiled = [&] {
    m.compiled_peak =
        std::max(m.compiled_peak, peak_of([&] { m.compiled_times.push_back(seconds_of(compiled_step)); }));
  };
  for (int64_t k = 0; k < rounds; ++k) {
    k % 2 == 0 ? both(measure_eager, measure_compiled) : both(measure_compiled, measure_eager);
    m.ratios.push_back(m.times.back() / m.compiled_times.back());
  }
  const tt::VariantReport report = step->reports()[0];
  std::fputs(step->report().c_str(), stdout);
  if (!page.empty()) write_page(*step, page, batch, length);
  const size_t with_step = in_use();
  compiled.optimizer.zero_grad();
  step.reset();
  m.kept = static_cast<double>(with_step - in_use());
  m.compiled_peak += m.kept;
  m.loss = compiled_loss;
  json row = row_of(m, report);
  row.update(
      {{"batch", batch}, {"tokens", length}, {"layers", config.layers}, {"features", config.features}});
  row["dropout"] = config.residual_dropout;
  return row;
}

int run(int argc, char** argv) {
  tt::Gpt2Config config;
  int64_t batch = 4, length = 64, rounds = 3;
  double dropout = 0;
  bool forward = false;
  std::string path, page;
  CLI::App app{"Eager and compiled training steps of GPT-2 on the CPU"};
  app.add_option("--batch", batch, "sequences");
  app.add_option("--tokens", length, "tokens of a sequence");
  app.add_option("--layers", config.layers, "layers");
  app.add_option("--features", config.features, "features");
  app.add_option("--heads", config.heads, "heads");
  app.add_option("--vocabulary", config.vocabulary, "tokens of the vocabulary");
  app.add_option("--dropout", dropout, "probability of all dropouts");
  app.add_option("--rounds", rounds, "measured steps of both kinds")->check(CLI::PositiveNumber);
  app.add_flag("--forward", forward, "only compile the forward pass, with the cache of kernels as it is");
  app.add_option("--page", page, "write the report of the first step with its charts to this HTML file");
  app.add_option("--json", path, "write the results to this file");
  CLI11_PARSE(app, argc, argv);
  config.embedding_dropout = config.attention_dropout = config.residual_dropout = dropout;
  const bench::ResultsFile file(path);
  json result;
  if (forward) {
    result = forward_seconds(config, batch, length);
  } else {
    result["steps"] = json::array();
    result["steps"].push_back(measure(config, batch, length, rounds, page));
    if (batch != 1)
      result["steps"].push_back(measure(config, 1, 2 * length, std::max<int64_t>(rounds / 2, 1), {}));
    result["host"] = host_time();
    result["forward"] = forward_cold_and_warm(1, length, config.layers);
  }
  result["machine"] = bench::provenance();
  fmt::print("{}\n", result.dump(1));
  file.finish(result);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::guarded("bench_compile_step", [&] { return run(argc, argv); });
}
