// The training demo of micrograd (a small network that separates two moons) as captured graphs, in f64.
// bench/compare_micrograd.py alternates it with micrograd in Python.
//
//     bench_micrograd demo.json           answers {"rate": r} on stdin with the losses and seconds of a step
// demo.json has "inputs" [n][2], "labels" [n] of -1 and 1, and "layers": for each layer its neurons, as lists
// of the weights and, last, the bias. The same step is done in three forms, each with weights of its own:
//   scalar          every weight is a tensor of one element and every neuron a formula of them, as in
//                   micrograd; one compiled graph for all points
//   tensor          layers are matrices, as usual; compiled
//   eager           the same, not compiled
// Source: Karpathy, "micrograd", 2020, demo.ipynb: hinge loss, 1e-4 of the squared weights, rate 1 to 0.1.
#include <common/guarded.hpp>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <tinytorch/acceleration/compile_step.hpp>
#include <tinytorch/benchmarking/clock.hpp>
#include <tinytorch/layers/sgd.hpp>
#include <tinytorch/tensor/ops.hpp>
#include <tinytorch/tinytorch.hpp>

using nlohmann::json;
namespace tt = tinytorch;
using tt::Tensor;

namespace {

using Neurons = std::vector<std::vector<double>>;  // weights and bias of each neuron of a layer

tt::Tensors parameter_list(const std::vector<tt::Tensors>& groups) {
  tt::Tensors all;
  for (const tt::Tensors& g : groups) all.insert(all.end(), g.begin(), g.end());
  return all;
}
Tensor leaf(const std::vector<double>& values, const tt::Shape& shape) {
  return tt::from_data(values, shape, tt::cpu).requires_grad_();
}
Tensor hinge_loss(const Tensor& scores, const Tensor& labels, const tt::Tensors& parameters) {
  Tensor squares;
  for (const Tensor& p : parameters) {
    const Tensor own = tt::sum(p * p);
    squares = squares.defined() ? squares + own : own;
  }
  return tt::mean(tt::relu(1.0 - labels * scores)) + squares * 1e-4;
}

// Each neuron is w0 x0 + w1 x1 + ... + b, of tensors of one element and columns of all points.
struct ScalarNetwork {
  std::vector<std::vector<tt::Tensors>> layers;  // per neuron: weights and bias

  explicit ScalarNetwork(const std::vector<Neurons>& given) {
    for (const Neurons& layer : given) {
      auto& own = layers.emplace_back();
      for (const std::vector<double>& neuron : layer) {
        auto& numbers = own.emplace_back();
        for (const double w : neuron) numbers.push_back(leaf({w}, {1}));
      }
    }
  }
  tt::Tensors parameters() const {
    tt::Tensors all;
    for (const auto& layer : layers)
      for (const Tensor& p : parameter_list(layer)) all.push_back(p);
    return all;
  }
  Tensor loss(const Tensor& inputs, const Tensor& labels) const {
    tt::Tensors x;
    for (int64_t k = 0; k < inputs.size(1); ++k) x.push_back(inputs.select(1, k).contiguous());
    for (size_t l = 0; l < layers.size(); ++l) {
      tt::Tensors y;
      for (const tt::Tensors& neuron : layers[l]) {
        Tensor sum = neuron[0] * x[0];
        for (size_t k = 1; k < x.size(); ++k) sum = sum + neuron[k] * x[k];
        sum = sum + neuron.back();
        y.push_back(l + 1 < layers.size() ? tt::relu(sum) : sum);
      }
      x = y;
    }
    return hinge_loss(x[0], labels, parameters());
  }
};

struct MatrixNetwork {
  std::vector<tt::Tensors> layers;  // weight [out, in], bias [out]

  explicit MatrixNetwork(const std::vector<Neurons>& given) {
    for (const Neurons& layer : given) {
      std::vector<double> weight, bias;
      for (const std::vector<double>& neuron : layer) {
        weight.insert(weight.end(), neuron.begin(), neuron.end() - 1);
        bias.push_back(neuron.back());
      }
      const auto out = std::ssize(layer), in = std::ssize(layer[0]) - 1;
      layers.push_back({leaf(weight, {out, in}), leaf(bias, {out})});
    }
  }
  tt::Tensors parameters() const { return parameter_list(layers); }
  Tensor loss(const Tensor& inputs, const Tensor& labels) const {
    Tensor x = inputs;
    for (size_t l = 0; l < layers.size(); ++l) {
      x = tt::linear(x, layers[l][0], layers[l][1]);
      if (l + 1 < layers.size()) x = tt::relu(x);
    }
    return hinge_loss(x.select(1, 0), labels, parameters());
  }
};

template <class Network>
struct Training {
  Network network;
  tt::SGD optimizer;
  std::unique_ptr<tt::CompiledStep> step;

  Training(const std::vector<Neurons>& layers, bool compiled)
      : network(layers), optimizer(network.parameters(), {.lr = 1}) {
    if (!compiled) return;
    const auto loss_of = [this](const Tensor& x, const Tensor& t) { return network.loss(x, t); };
    tt::StepCompileOptions options;
    options.compile.strict = true;
    step = std::make_unique<tt::CompiledStep>(optimizer, loss_of, options);
  }
  json timed_step(const Tensor& x, const Tensor& t, double rate) {
    optimizer.set_lr(rate);
    const double start = tt::benchmarking::SteadyClock{}();
    Tensor loss;
    if (step) {
      loss = (*step)(x, t);
    } else {
      optimizer.zero_grad();
      loss = network.loss(x, t);
      loss.backward();
      optimizer.step();
    }
    const auto value = loss.item<double>();
    return {{"loss", value}, {"seconds", tt::benchmarking::SteadyClock{}() - start}};
  }
};

int serve(const std::string& path) {
  const json demo = json::parse(std::ifstream(path));
  const auto layers = demo.at("layers").get<std::vector<Neurons>>();
  std::vector<double> points;
  for (const json& p : demo.at("inputs")) points.insert(points.end(), p.begin(), p.end());
  const auto labels = demo.at("labels").get<std::vector<double>>();
  const Tensor x = tt::from_data(points, {std::ssize(labels), 2}, tt::cpu),
               t = tt::from_data(labels, {std::ssize(labels)}, tt::cpu);
  Training<ScalarNetwork> scalar(layers, true);
  Training<MatrixNetwork> tensor(layers, true), eager(layers, false);
  for (std::string line; std::getline(std::cin, line);) {
    const double rate = json::parse(line).at("rate");
    json answer{{"scalar", scalar.timed_step(x, t, rate)},
                {"tensor", tensor.timed_step(x, t, rate)},
                {"eager", eager.timed_step(x, t, rate)}};
    const tt::VariantReport r =
        scalar.step->reports().empty() ? tt::VariantReport() : scalar.step->reports()[0];
    answer["scalar"]["kernels"] = r.kernels, answer["scalar"]["kernels_captured"] = r.kernels_captured;
    std::cout << answer.dump() << std::endl;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::guarded("bench_micrograd", [&] {
    if (argc != 2) throw std::runtime_error("usage: bench_micrograd demo.json");
    return serve(argv[1]);
  });
}
