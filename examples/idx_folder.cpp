// Trains a convolution net on a folder of IDX files (MNIST, Fashion-MNIST, EMNIST digits ...).
//
// The folder holds <name>-images-idx3-ubyte and <name>-labels-idx1-ubyte, plain or with .gz, for the names
// train and t10k. If only t10k exists, its first four fifths are the training set and the rest is the test
// set.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <tinytorch/io/idx.hpp>
#include <tinytorch/layers/activation.hpp>
#include <tinytorch/layers/adam.hpp>
#include <tinytorch/layers/batch_norm.hpp>
#include <tinytorch/layers/conv2d.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/layers/pooling.hpp>
#include <tinytorch/layers/sequential.hpp>
#include <tinytorch/layers/trainer.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

struct LabelledImages {
  tt::Tensor images, labels;  // f32 [N, 1, H, W] in [0, 1], i64 [N]
};

// The path of the file, compressed or not; "" if there is neither.
std::string find_file(const std::string& folder, const std::string& name) {
  for (const char* ending : {"", ".gz"}) {
    const std::string path = folder + "/" + name + ending;
    if (std::filesystem::exists(path)) return path;
  }
  return "";
}

// Loads <name>-images and <name>-labels; returns undefined tensors if they do not exist.
LabelledImages load_pair(const std::string& folder, const std::string& name) {
  const std::string images = find_file(folder, name + "-images-idx3-ubyte");
  const std::string labels = find_file(folder, name + "-labels-idx1-ubyte");
  if (images.empty() || labels.empty()) return {};
  const tt::Tensor x = tt::load_idx(images);  // u8 [N, H, W]
  const tt::Tensor y = tt::load_idx(labels);  // u8 [N]
  if (x.rank() != 3 || y.rank() != 1 || x.size(0) != y.size(0)) {
    throw std::runtime_error(images + " holds " + x.shape().str() + ", " + labels + " holds " +
                             y.shape().str() + ": expected [N, H, W] images and as many labels");
  }
  return {tt::unsqueeze(x.to(tt::f32), 1) / 255, y.to(tt::i64)};
}

LabelledImages rows(const LabelledImages& all, int64_t from, int64_t to) {
  return {tt::slice(all.images, 0, from, to), tt::slice(all.labels, 0, from, to)};
}

double train(const LabelledImages& train_set, const LabelledImages& test_set, int64_t epochs, uint64_t seed) {
  const int64_t classes = tt::max(train_set.labels).item<int64_t>() + 1;
  const int64_t height = train_set.images.size(2), width = train_set.images.size(3);
  tt::DataLoader loader(train_set.images, train_set.labels,
                        {.batch_size = 64,
                         .shuffle = true,
                         .seed = seed,
                         .workers = 1,
                         .augment = tt::random_affine({.degrees = 10, .shift = 2, .scale = 0.1})});
  tt::DataLoader test_loader(test_set.images, test_set.labels, {.batch_size = 250});
  tt::manual_seed(seed);
  tt::Sequential model(tt::Conv2d(1, 12, 3, {.padding = 1}, false), tt::BatchNorm2d(12), tt::ReLU(),
                       tt::MaxPool2d(2), tt::Conv2d(12, 24, 3, {.padding = 1}, false), tt::BatchNorm2d(24),
                       tt::ReLU(), tt::MaxPool2d(2), tt::Flatten(),
                       tt::Linear(24 * (height / 4) * (width / 4), classes));
  tt::AdamW optimizer(model.named_parameters(), {.weight_decay = 0.02});
  tt::Trainer trainer(
      model, optimizer, loader, tt::classification_loss,
      {.epochs = epochs, .schedule = tt::one_cycle(1e-2, epochs * loader.batches_per_epoch())});
  std::printf("%lld training and %lld test images of %lld x %lld, %lld classes\n",
              static_cast<long long>(loader.samples()), static_cast<long long>(test_loader.samples()),
              static_cast<long long>(height), static_cast<long long>(width), static_cast<long long>(classes));
  return trainer.fit(&test_loader).back().eval_metric;
}

int main(int argc, char** argv) {
  std::string folder;
  int64_t epochs = 3;
  uint64_t seed = 1;
  double required = 0;
  CLI::App app("Train a convolution net on a folder of IDX files, such as MNIST");
  app.add_option("folder", folder, "Folder with the IDX files")->required();
  app.add_option("--epochs", epochs, "Passes over the training images")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  app.add_option("--seed", seed, "Seed of weights and data order")->capture_default_str();
  app.add_option("--require", required, "Exit with 1 below this test accuracy")->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  try {
    const LabelledImages first = load_pair(folder, "train"), second = load_pair(folder, "t10k");
    if (!first.images && !second.images) {
      std::fprintf(
          stderr,
          "There are no IDX files in %s. Put these files there, plain or as .gz:\n"
          "  train-images-idx3-ubyte  train-labels-idx1-ubyte   (optional)\n"
          "  t10k-images-idx3-ubyte   t10k-labels-idx1-ubyte\n"
          "MNIST: https://ossci-datasets.s3.amazonaws.com/mnist/   Fashion-MNIST has the same names.\n",
          folder.c_str());
      return 2;
    }
    double reached = 0;
    if (first.images && second.images) {
      reached = train(first, second, epochs, seed);
    } else {
      const LabelledImages& all = first.images ? first : second;
      const int64_t n = all.labels.numel();
      reached = train(rows(all, 0, n * 4 / 5), rows(all, n * 4 / 5, n), epochs, seed);
    }
    std::printf("test accuracy %.2f %%\n", 100 * reached);
    return reached >= required ? 0 : 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 2;
  }
}
