// micrograd's two examples as captured graphs, against micrograd in Python: the expression of its README with
// the derivatives of two numbers, and one step of its demonstration, a network of 2, 16, 16 and 1 units on
// 100 points, with the hinge loss and gradient descent.
//
//     pip install micrograd
//     bench_micrograd --peer bench/peers/micrograd_peer.py --json out.json
//
// micrograd has one object for each number; here a whole layer is one tensor, and compile_step() makes one
// graph of both passes. Each round measures the library and starts the peer once. All results must agree.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <common/guarded.hpp>
#include <common/provenance.hpp>
#include <common/results_file.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <numbers>
#include <string>
#include <tinytorch/acceleration/compile_step.hpp>
#include <tinytorch/benchmarking/clock.hpp>
#include <tinytorch/benchmarking/statistics.hpp>
#include <tinytorch/layers/sgd.hpp>
#include <tinytorch/tinytorch.hpp>
#include <vector>

using nlohmann::json;
namespace tt = tinytorch;

namespace {

constexpr double kDecay = 1e-4, kRate = 0.1;
constexpr double kA = -4, kB = 2;  // the numbers of the expression
constexpr int64_t kSteps = 3;      // of the peer in a round: each takes a large part of a second

tt::Tensor expression(const tt::Tensor& a, const tt::Tensor& b) {
  tt::Tensor c = a + b, d = a * b + b * b * b;
  c = c + (c + 1);
  c = c + (1 + c + (-a));
  d = d + (d * 2 + tt::relu(b + a));
  d = d + (3 * d + tt::relu(b - a));
  const tt::Tensor e = c - d, f = e * e;
  return f / 2.0 + 10.0 / f;
}

// Two moons of 50 points each, which have noise.
struct Moons {
  tt::Tensor points = tt::empty({100, 2}, tt::f64), labels = tt::empty({100, 1}, tt::f64);
  Moons() {
    tt::Generator random(1337);
    for (int64_t i = 0; i < 100; ++i) {
      const bool second = i >= 50;
      const double angle = std::numbers::pi * static_cast<double>(i % 50) / 49;
      points.data<double>()[2 * i] =
          (second ? 1 - std::cos(angle) : std::cos(angle)) + random.uniform(-0.15, 0.15);
      points.data<double>()[2 * i + 1] =
          (second ? 0.5 - std::sin(angle) : std::sin(angle)) + random.uniform(-0.15, 0.15);
      labels.data<double>()[i] = second ? 1 : -1;
    }
  }
};

struct Network {
  std::vector<tt::Tensor> weights, biases;
  Network() {
    tt::Generator random(7);
    int64_t inputs = 2;
    for (const int64_t outputs : {16, 16, 1}) {
      tt::Tensor w = tt::empty({inputs, outputs}, tt::f64);
      for (int64_t i = 0; i < w.numel(); ++i) w.data<double>()[i] = random.uniform(-1, 1);
      weights.push_back(w.requires_grad_());
      biases.push_back(tt::zeros({1, outputs}, tt::f64).requires_grad_());
      inputs = outputs;
    }
  }
  tt::NamedTensors named() const {
    tt::NamedTensors all;
    for (size_t k = 0; k < weights.size(); ++k) {
      all.push_back({fmt::format("weight{}", k), weights[k]});
      all.push_back({fmt::format("bias{}", k), biases[k]});
    }
    return all;
  }
  tt::Tensor loss(const tt::Tensor& points, const tt::Tensor& labels) const {
    tt::Tensor x = points, squares = tt::zeros({}, tt::f64);
    for (size_t k = 0; k < weights.size(); ++k) {
      x = tt::matmul(x, weights[k]) + biases[k];
      if (k + 1 < weights.size()) x = tt::relu(x);
      squares = squares + tt::square(weights[k]).sum() + tt::square(biases[k]).sum();
    }
    return tt::relu(1 - labels * x).mean() + kDecay * squares;
  }
  json layers() const {
    json all = json::array();
    for (size_t k = 0; k < weights.size(); ++k)
      all.push_back({{"weight", rows_of(weights[k])}, {"bias", rows_of(biases[k]).at(0)}});
    return all;
  }
  static json rows_of(const tt::Tensor& t) {
    json rows = json::array();
    for (int64_t r = 0; r < t.shape()[0]; ++r) {
      const double* const row = t.data<double>() + r * t.shape()[1];
      rows.push_back(std::vector<double>(row, row + t.shape()[1]));
    }
    return rows;
  }
};

double seconds_of(int64_t calls, const std::function<void()>& work) {
  const double start = tt::benchmarking::SteadyClock{}();
  for (int64_t k = 0; k < calls; ++k) work();
  return (tt::benchmarking::SteadyClock{}() - start) / static_cast<double>(calls);
}

// Starts the peer once and returns what it printed.
json run_peer(const std::string& peer, const std::filesystem::path& task) {
  const std::string command = fmt::format("python3 '{}' '{}'", peer, task.string());
  FILE* const out = popen(command.c_str(), "r");
  if (!out) throw std::runtime_error("cannot start " + command);
  std::string text;
  for (int c; (c = std::fgetc(out)) != EOF;) text += static_cast<char>(c);
  if (pclose(out) != 0)
    throw std::runtime_error("failed: " + command + "\n  it needs micrograd: pip install micrograd");
  return json::parse(text);
}

void require_equal(const char* what, const std::vector<double>& mine, const std::vector<double>& theirs) {
  if (mine.size() != theirs.size()) throw std::runtime_error(fmt::format("{}: other results", what));
  for (size_t i = 0; i < mine.size(); ++i)
    if (!(std::abs(mine[i] - theirs[i]) <= 1e-9 * std::abs(theirs[i])))
      throw std::runtime_error(
          fmt::format("{}: result {} is {:.17g}, micrograd's is {:.17g}", what, i, mine[i], theirs[i]));
}

// The expression with both derivatives, as one graph.
class ExpressionStep {
 public:
  std::vector<double> results() {
    const tt::Tensor value = step_.gradients({zero_})[0];
    return {value.item<double>(), a_.grad().item<double>(), b_.grad().item<double>()};
  }
  void call() { (void)step_.gradients({zero_}); }

 private:
  tt::Tensor zero_ = tt::zeros({}, tt::f64);  // a step has an argument; this one changes nothing
  tt::Tensor a_ = tt::full({}, kA, tt::f64).requires_grad_(), b_ = tt::full({}, kB, tt::f64).requires_grad_();
  tt::SGD optimizer_{{{"a", a_}, {"b", b_}}, {.lr = kRate}};
  tt::CompiledStep step_{optimizer_,
                         [this](const tt::Tensors& x) { return tt::Tensors{expression(a_, b_) + x[0]}; },
                         {.compile = {.kernels = tt::RegionKernels::compiled, .strict = true}}};
};

int run(int argc, char** argv) {
  CLI::App app{"micrograd's examples as captured graphs, against micrograd in Python"};
  int64_t rounds = 5;
  std::string path, peer;
  app.add_option("--peer", peer, "bench/peers/micrograd_peer.py")->required()->check(CLI::ExistingFile);
  app.add_option("--rounds", rounds, "times that both are measured, one after the other")
      ->check(CLI::Range(1, 1000));
  app.add_option("--json", path, "also write the numbers here");
  CLI11_PARSE(app, argc, argv);
  const bench::ResultsFile file(path);

  const Moons moons;
  Network net;
  const auto points = Network::rows_of(moons.points);
  std::vector<double> labels;
  for (const auto& row : Network::rows_of(moons.labels)) labels.push_back(row.at(0));
  const json task = {{"points", points}, {"labels", labels}, {"layers", net.layers()}, {"decay", kDecay},
                     {"rate", kRate},    {"steps", kSteps},  {"expression", {kA, kB}}};
  const std::filesystem::path asked =
      std::filesystem::temp_directory_path() / fmt::format("bench_micrograd_{}.json", ::getpid());
  std::ofstream(asked) << task;

  ExpressionStep formula;
  tt::SGD optimizer(net.named(), {.lr = kRate});
  tt::CompiledStep step(optimizer, [&](const tt::Tensor& x, const tt::Tensor& t) { return net.loss(x, t); },
                        {.compile = {.kernels = tt::RegionKernels::compiled, .strict = true}});
  std::vector<double> losses, expression_ratios, step_ratios, expression_times, step_times;
  for (int k = 0; k < 10; ++k) formula.call();  // compiles it, and takes the second looks
  for (int64_t k = 0; k < kSteps; ++k) losses.push_back(step(moons.points, moons.labels).item<double>());
  for (int64_t round = 0; round < rounds; ++round) {
    const double mine = seconds_of(2000, [&] { formula.call(); });
    const double my_step = seconds_of(200, [&] { (void)step(moons.points, moons.labels); });
    const json theirs = run_peer(peer, asked);
    require_equal("the expression", formula.results(), theirs.at("expression").at("results"));
    require_equal("the loss", losses, theirs.at("network").at("results"));
    expression_times.push_back(mine), step_times.push_back(my_step);
    expression_ratios.push_back(theirs.at("expression").at("seconds").get<double>() / mine);
    step_ratios.push_back(theirs.at("network").at("seconds").get<double>() / my_step);
  }
  std::filesystem::remove(asked);
  const auto row = [](const std::vector<double>& times, const std::vector<double>& ratios) -> json {
    return {{"us", 1e6 * tt::statistics::median(times)},
            {"times_as_fast", tt::statistics::median(ratios)},
            {"least", std::ranges::min(ratios)},
            {"ratios", ratios}};
  };
  const json out = {{"machine", bench::provenance()},
                    {"rounds", rounds},
                    {"expression", row(expression_times, expression_ratios)},
                    {"network", row(step_times, step_ratios)}};
  for (const char* name : {"expression", "network"})
    fmt::print("{:12} {:9.2f} us, {:7.0f} times as fast as micrograd (at least {:.0f})\n", name,
               out.at(name).at("us").get<double>(), out.at(name).at("times_as_fast").get<double>(),
               out.at(name).at("least").get<double>());
  file.finish(out);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::guarded("bench_micrograd", [&] { return run(argc, argv); });
}
