// Trains the bundled models and the recipes of training benchmarks: AdamW or SGD, a schedule of the learning
// rate, the loss of the benchmark, and batches in a seeded order.
//
// The result depends only on recipe, data and options, so every race on one machine starts from the same
// bundled entries. The loss of an epoch is the mean over its batches. Quality is measured on samples that are
// not trained on.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <tinymlperf/benchmarks/benchmarks.hpp>
#include <tinymlperf/entries/bundled.hpp>
#include <tinymlperf/entries/text_model.hpp>
#include <tinymlperf/support/output_folder.hpp>
#include <tinymlperf/training/curve.hpp>
#include <tinytorch/autograd/engine.hpp>
#include <tinytorch/benchmarking/clock.hpp>
#include <tinytorch/layers/adam.hpp>
#include <tinytorch/layers/schedule.hpp>
#include <tinytorch/layers/sgd.hpp>
#include <utility>
#include <vector>

namespace tinymlperf {

struct TrainOptions {
  int64_t batch = 64;
  double weight_decay = 0.01;
  uint64_t seed = 0;  // of the initial weights and of the order of samples
};

struct Trained {
  EntrySpec spec;
  std::shared_ptr<tt::Module> layers;
  TrainingCurve curve;
};

namespace detail {

// The numbers 0 to n - 1 in a random order.
inline std::vector<int64_t> shuffled(int64_t n, tt::Generator& random) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

// Trains one epoch, advances `step`, and returns the mean loss. An incomplete last batch is left out.
inline double train_epoch(tt::Module& net, tt::Optimizer& optimizer, const tt::Schedule& schedule,
                          int64_t& step, const TrainingData& data, int64_t batch, tt::Generator& random) {
  net.train();
  const auto order = shuffled(data.size(), random);
  double loss_sum = 0;
  int64_t batches = 0;
  for (int64_t start = 0; start + batch <= data.size(); start += batch, ++step, ++batches) {
    const std::vector<int64_t> picks(order.begin() + start, order.begin() + start + batch);
    const tt::Tensor rows = tt::from_data(picks);
    optimizer.set_lr(schedule(step));
    optimizer.zero_grad();
    const tt::Tensor loss =
        data.loss(net, tt::index_select(data.inputs, 0, rows), tt::index_select(data.targets, 0, rows));
    loss.backward();
    optimizer.step();
    loss_sum += loss.item<double>();
  }
  return loss_sum / static_cast<double>(batches);
}

inline std::unique_ptr<tt::Optimizer> make_optimizer(const Recipe& recipe, const tt::Module& net,
                                                     double weight_decay) {
  std::unique_ptr<tt::Optimizer> optimizer;
  if (recipe.optimizer == "sgd")
    optimizer = std::make_unique<tt::SGD>(
        net.named_parameters(),
        tt::SgdOptions{.lr = recipe.learning_rate, .momentum = 0.9, .weight_decay = weight_decay});
  else
    optimizer = std::make_unique<tt::AdamW>(
        net.named_parameters(), tt::AdamOptions{.lr = recipe.learning_rate, .weight_decay = weight_decay});
  optimizer->exclude_from_weight_decay([](const tt::NamedTensor& p) { return p.tensor.rank() < 2; });
  return optimizer;
}

inline tt::Schedule make_schedule(const Recipe& recipe, int64_t steps) {
  if (recipe.schedule == "constant") return tt::constant(recipe.learning_rate);
  if (recipe.schedule == "cosine") return tt::cosine(recipe.learning_rate, steps);
  return tt::one_cycle(recipe.learning_rate, steps);
}

}  // namespace detail

inline std::shared_ptr<tt::Module> build_model(const EntrySpec& spec, tt::Generator& random, uint64_t seed) {
  if (!spec.gpt) return build_layers(spec, random);
  tt::manual_seed(seed);
  return build_gpt(spec);
}

// Trains a new model. Calls progress(curve) after every epoch.
template <class Progress>
Trained train(const Recipe& recipe, const TrainingData& data, const TrainOptions& options,
              Progress&& progress) {
  tt::Generator random(options.seed);
  Trained result{recipe.spec, build_model(recipe.spec, random, options.seed), {}};
  const auto optimizer = detail::make_optimizer(recipe, *result.layers, options.weight_decay);
  const int64_t steps = recipe.epochs * (data.size() / options.batch);
  const tt::Schedule schedule = detail::make_schedule(recipe, steps);
  TrainingCurve& curve = result.curve;
  curve.name = recipe.spec.name;
  const tinytorch::benchmarking::SteadyClock clock;
  const double start = clock();
  int64_t step = 0;
  for (int64_t epoch = 1; epoch <= recipe.epochs; ++epoch) {
    const double loss =
        detail::train_epoch(*result.layers, *optimizer, schedule, step, data, options.batch, random);
    curve.epoch.push_back(static_cast<double>(epoch));
    curve.loss.push_back(loss);
    curve.validation.push_back(data.validate(*result.layers));
    curve.seconds = clock() - start;
    progress(curve);
  }
  return result;
}

// Trains a new model, prints a line for each epoch, and writes the model as an entry.
inline TrainingCurve train_entry(const Recipe& recipe, const TrainingData& data,
                                 const std::filesystem::path& folder) {
  const auto progress = [&](const TrainingCurve& c) {
    fmt::print("train {:<14} epoch {}/{}  loss {:.4f}  validation {} {:.4f}  {:.1f} s\n", c.name,
               c.epoch.size(), recipe.epochs, c.loss.back(), data.metric, c.validation.back(), c.seconds);
    std::fflush(stdout);
  };
  const OutputFolder made(folder, {kWeightsFile, kModelFile});
  const Trained trained = train(recipe, data, {.batch = recipe.batch, .seed = kTrainingSeed}, progress);
  save_entry(folder, trained.spec, trained.layers->state_dict());
  return trained.curve;
}

}  // namespace tinymlperf
