// A network with less than a third of its parameters reads digits as well (LeCun, Denker, Solla, "Optimal
// brain damage", 1989; Fang et al., "DepGraph: towards any structural pruning", 2023).
//
// A convolutional network is trained, and half of the channels of each layer are removed: the matrix between
// two layers keeps a quarter of its numbers. The smaller network is trained on for some epochs with the large
// one as its teacher. It counts as smaller when its file is smaller and when it is faster, both measured
// beside the large network. A third network has zeros in place of the same channels. It computes what the
// small one computes, but it has the size and the time of the large one, and this is tested as well.
//
//   conv 1 -> 16 maps, pooled [16, 14, 14] -> 32 maps, pooled [32, 7, 7] -> 64 -> 10     105,866 parameters
//
// Last, nine tenths of the single weights of a copy go while it is trained, and a layer with as many zeros is
// timed as a bitmap for one row of inputs: from which share of zeros on is it faster than dense storage?
#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <filesystem>
#include <tinytorch/data/digits.hpp>
#include <tinytorch/layers/activation.hpp>
#include <tinytorch/layers/adam.hpp>
#include <tinytorch/layers/conv2d.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/layers/metrics.hpp>
#include <tinytorch/layers/pooling.hpp>
#include <tinytorch/layers/sequential.hpp>
#include <tinytorch/pruning/crossover.hpp>
#include <tinytorch/pruning/distill.hpp>
#include <tinytorch/pruning/files.hpp>
#include <tinytorch/pruning/report.hpp>
#include <tinytorch/pruning/schedule.hpp>
#include <tinytorch/pruning/shrink.hpp>

#include "gates.hpp"

namespace tt = tinytorch;
using milestone::Numbers;

constexpr double kRate = 3e-3;

struct Data {
  tt::Digits train = tt::digits(2000, 1), test = tt::digits(2000, 2);
  tt::DataLoader loader{train.images, train.labels, {.batch_size = 50, .shuffle = true, .seed = 1}};
  tt::DataLoader hidden{test.images, test.labels, {.batch_size = 250}};
  double accuracy(tt::Module& model) { return tt::evaluate(model, hidden, tt::classification_loss).metric; }
};

std::shared_ptr<tt::Sequential> new_network() {
  tt::manual_seed(1989);
  return std::make_shared<tt::Sequential>(
      tt::Conv2d(1, 16, 3, {.padding = 1}), tt::ReLU(), tt::MaxPool2d(2),   // [B, 16, 14, 14]
      tt::Conv2d(16, 32, 3, {.padding = 1}), tt::ReLU(), tt::MaxPool2d(2),  // [B, 32,  7,  7]
      tt::Flatten(), tt::Linear(32 * 49, 64), tt::ReLU(), tt::Linear(64, 10));
}
std::shared_ptr<tt::Sequential> copy_of(const tt::Module& model) {
  const auto copy = new_network();
  copy->load_state_dict(model.state_dict());
  return copy;
}

// Trains for some epochs; with a teacher, half of the loss is the divergence from its predictions.
// before_step(step) runs before each step.
template <class BeforeStep>
void train(tt::Module& model, tt::Optimizer& optimizer, Data& data, int epochs, tt::Module* teacher,
           BeforeStep&& before_step) {
  int64_t step = 0;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    for (const tt::Batch& batch : data.loader) {
      before_step(step++);
      optimizer.zero_grad();
      const tt::Tensor logits = model(batch.inputs);
      const tt::Tensor loss =
          teacher ? tt::distillation_loss(logits, tt::teacher_logits(*teacher, batch.inputs), batch.targets)
                  : tt::cross_entropy(logits, batch.targets);
      loss.backward();
      optimizer.step();
    }
  }
}
void train(tt::Module& model, tt::Optimizer& optimizer, Data& data, int epochs,
           tt::Module* teacher = nullptr) {
  train(model, optimizer, data, epochs, teacher, [](int64_t) {});
}

double file_bytes(const tt::Module& model) {
  const auto path = std::filesystem::temp_directory_path() /
                    ("less_is_more_" + std::to_string(::getpid()) + ".safetensors");
  tt::save_sparse(model, path.string());
  const auto bytes = static_cast<double>(std::filesystem::file_size(path));
  std::filesystem::remove(path);
  return bytes;
}

double seconds_of(tt::Module& model, const tt::Tensor& images) {
  const tt::NoGrad no_grad;
  const std::clock_t begin = std::clock();
  (void)model(images).to_vector();
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

// Processor time of one thread. The networks run in turns, in both orders, and the fastest turn of each
// counts, because other programs only make a turn slower.
std::vector<double> fastest_turns(const std::vector<tt::Module*>& models, const tt::Tensor& images) {
  std::vector<double> best(models.size(), HUGE_VAL);
  for (int turn = 0; turn < 30; ++turn) {
    for (size_t i = 0; i < models.size(); ++i) {
      const size_t at = turn % 2 == 0 ? i : models.size() - 1 - i;
      best[at] = std::min(best[at], seconds_of(*models[at], images));
    }
  }
  return best;
}

// The accuracy right after half of the channels became 0: those with the largest weights.
double accuracy_without_largest(const tt::Module& model, Data& data) {
  const auto copy = copy_of(model);
  tt::ShrinkOptions options;
  for (const tt::NamedTensor& p : tt::prunable(*copy))
    options.scores[p.name] = tt::square(p.tensor.detach()) * -1.0;
  tt::mask_channels(*copy, tt::plan_shrink(*copy, data.test.images.slice(0, 0, 2), options));
  return data.accuracy(*copy);
}

void channels(milestone::Gates& gates, Data& data, tt::Sequential& dense, double exact) {
  const tt::Tensor images = data.test.images.slice(0, 0, 250);
  const auto small = copy_of(dense), zeros = copy_of(dense);
  tt::AdamW optimizer(small->named_parameters(), {.lr = kRate, .weight_decay = 0.01});
  train(*small, optimizer, data, 1);  // the optimizer has moments of all channels
  zeros->load_state_dict(small->state_dict());

  const double largest = accuracy_without_largest(*small, data);
  const tt::ShrinkPlan plan = tt::plan_shrink(*small, images.slice(0, 0, 2), {.sparsity = 0.5});
  tt::mask_channels(*zeros, plan);
  tt::shrink(*small, plan, &optimizer);
  const double masked = data.accuracy(*zeros), parameters = static_cast<double>(dense.parameter_count());
  std::printf("without the largest half of the channels %.1f %%, without the smallest %.1f %%\n",
              100 * largest, 100 * masked);
  gates.at_least("without the smallest channels more is read than without the largest", masked,
                 largest + 0.1);
  gates.at_most("70 % of the parameters are removed",
                static_cast<double>(small->parameter_count()) / parameters, 0.3);
  Numbers few, many;
  {
    const tt::NoGrad no_grad;
    few = (*small)(images).to_vector<double>(), many = (*zeros)(images).to_vector<double>();
  }
  gates.at_most("the smaller network computes what zeros in its place compute",
                milestone::norm(milestone::difference(few, many)) / milestone::norm(many), 1e-5);
  gates.check("the report calls the zeros a mask only", tt::pruning_report(*zeros).mask_only(), "mask only",
              "no mask, or fewer bytes");

  train(*small, optimizer, data, 4, &dense);
  const double accuracy = data.accuracy(*small);
  std::printf("%lld of %lld parameters read %.1f %%, all of them %.1f %%\n",
              static_cast<long long>(small->parameter_count()),
              static_cast<long long>(dense.parameter_count()), 100 * accuracy, 100 * exact);
  gates.at_least("the accuracy is at least 99 % of that of the whole network", accuracy / exact, 0.99);
  const double bytes = file_bytes(dense);
  gates.at_most("the file has at most 0.32 of the bytes", file_bytes(*small) / bytes, 0.32);
  gates.at_least("zeros alone make no file smaller", file_bytes(*zeros) / bytes, 0.99);

  const std::vector<double> turns = fastest_turns({&dense, zeros.get(), small.get()}, images);
  std::printf("250 images: %.2f ms, with zeros %.2f ms, smaller %.2f ms\n", 1e3 * turns[0], 1e3 * turns[1],
              1e3 * turns[2]);
  gates.at_least("it is at least 1.8 times as fast", turns[0] / turns[2], 1.8);
  gates.at_most("zeros alone are at most 1.5 times as fast", turns[0] / turns[1], 1.5);
}

// Nine tenths of the weights go during training, most of them early.
void single_weights(milestone::Gates& gates, Data& data, tt::Sequential& dense, double exact) {
  const auto sparse = copy_of(dense);
  tt::AdamW optimizer(sparse->named_parameters(), {.lr = kRate, .weight_decay = 0.01});
  const tt::NamedTensors weights = tt::prunable(*sparse);
  tt::Tensors values;
  for (const tt::NamedTensor& p : weights) values.push_back(p.tensor);
  tt::PruningMasks masks;
  const int64_t steps = 4 * data.loader.batches_per_epoch();
  const tt::SparsitySchedule schedule = tt::cubic_sparsity(0, 0.9, 0, steps / 2);
  const auto remove = [&](int64_t step) {
    if (step % 10 != 0 || step > steps / 2) return;
    const tt::Tensors next = tt::magnitude_masks(values, schedule(step), tt::MaskScope::global);
    for (size_t i = 0; i < weights.size(); ++i) masks.prune(weights[i], next[i]);
    if (step == 0) masks.keep_in(optimizer);
  };
  train(*sparse, optimizer, data, 4, &dense, remove);
  double zero = 0, all = 0;
  for (const tt::Tensor& w : values)
    for (const double x : w.to_vector<double>()) zero += x == 0, ++all;
  gates.at_least("nine tenths of the single weights stay 0 through training", zero / all, 0.899);
  const double accuracy = data.accuracy(*sparse), bytes = file_bytes(*sparse);
  gates.at_least("a tenth of the weights keeps 98 % of the accuracy", accuracy / exact, 0.98);
  gates.at_least("two linear layers are smaller as a bitmap",
                 static_cast<double>(tt::store_sparse(*sparse, "bitmap")), 2);
  gates.at_most("their file has at most 0.25 of the bytes", file_bytes(*sparse) / bytes, 0.25);
  gates.at_least("the network of bitmaps reads the same", data.accuracy(*sparse), accuracy - 0.002);
}

void crossover(milestone::Gates& gates) {
  const tt::CrossoverTable table = tt::measure_crossover({.size = 1024,
                                                          .device = tt::cpu,
                                                          .formats = {"bitmap"},
                                                          .sparsities = {0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95},
                                                          .rounds = 21,
                                                          .seconds = 5e-4});
  std::puts(table.text().c_str());
  gates.at_least("a bitmap with 90 % zeros is at least 1.5 times as fast for one row",
                 table.ratio("bitmap", 0.9).value_or(0), 1.5);
}

int main() {
  return milestone::run([](milestone::Gates& gates) {
    Data data;
    const auto dense = new_network();
    tt::AdamW optimizer(dense->named_parameters(), {.lr = kRate, .weight_decay = 0.01});
    train(*dense, optimizer, data, 5);
    const double exact = data.accuracy(*dense);
    channels(gates, data, *dense, exact);
    single_weights(gates, data, *dense, exact);
    crossover(gates);
  });
}
