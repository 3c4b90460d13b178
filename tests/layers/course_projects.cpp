// Three projects of a course, written as a PyTorch user writes them: an autoencoder, a residual net and a
// recurrent net. Each learns, and the last one is saved and loaded.
#include <doctest/doctest.h>

#include <filesystem>
#include <tinytorch/data/digits.hpp>
#include <tinytorch/layers/layers.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

namespace {

class Autoencoder : public tt::Module {
 public:
  Autoencoder() { add("encoder", encoder), add("decoder", decoder); }
  tt::Tensor forward(const tt::Tensor& x) override { return decoder(encoder(x)); }

  tt::Sequential encoder{tt::Linear(784, 32), tt::ReLU(), tt::Linear(32, 8)};
  tt::Sequential decoder{tt::Linear(8, 32), tt::ReLU(), tt::Linear(32, 784), tt::Sigmoid()};
};

class BasicBlock : public tt::Module {
 public:
  BasicBlock(int64_t in, int64_t out, int64_t stride)
      : conv1(in, out, 3, {.stride = stride, .padding = 1}, false),
        bn1(out),
        conv2(out, out, 3, {.padding = 1}, false),
        bn2(out) {
    add("conv1", conv1), add("bn1", bn1), add("conv2", conv2), add("bn2", bn2);
    if (stride == 1 && in == out) return;
    shortcut = tt::Sequential(tt::Conv2d(in, out, 1, {.stride = stride}, false), tt::BatchNorm2d(out));
    add("shortcut", shortcut);
  }
  tt::Tensor forward(const tt::Tensor& x) override {
    tt::Tensor out = tt::relu(bn1(conv1(x)));
    out = bn2(conv2(out));
    out += shortcut(x);
    return tt::relu(out);
  }

  tt::Conv2d conv1;
  tt::BatchNorm2d bn1;
  tt::Conv2d conv2;
  tt::BatchNorm2d bn2;
  tt::Sequential shortcut;
};

class Recurrent : public tt::Module {
 public:
  Recurrent() : gru(28, 32), head(32, 10) { add("gru", gru), add("head", head); }
  tt::Tensor forward(const tt::Tensor& x) override {
    const auto [out, h] = gru(x);
    return head(out.select(1, -1));
  }

  tt::GRU gru;
  tt::Linear head;
};

// Returns the losses of the first and the last step.
template <class Net, class Loss>
std::pair<double, double> train(Net& net, const tt::Tensor& x, const Loss& loss_of, int steps) {
  tt::Adam optimizer(net.parameters(), {.lr = 1e-2});
  std::pair<double, double> losses;
  net.train();
  for (int step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    tt::Tensor loss = loss_of(net(x));
    loss.backward();
    optimizer.step();
    losses.second = loss.item();
    if (step == 0) losses.first = losses.second;
  }
  net.eval();
  return losses;
}

}  // namespace

TEST_CASE("an autoencoder, a residual net and a recurrent net learn digits") {
  tt::manual_seed(0);
  const auto [host_images, host_labels] = tt::digits(32, 1);
  const tt::Tensor images = host_images.to(tt::default_device());
  const tt::Tensor labels = host_labels.to(tt::default_device());
  const auto cross_entropy = [&](const tt::Tensor& logits) { return tt::cross_entropy(logits, labels); };

  Autoencoder autoencoder;
  const tt::Tensor flat = images.flatten(1);
  const auto distance = [&](const tt::Tensor& y) { return tt::mse_loss(y, flat); };
  const auto restored = train(autoencoder, flat, distance, 30);
  CHECK(restored.second < 0.5 * restored.first);

  tt::Sequential residual(tt::Conv2d(1, 8, 3, {.padding = 1}), tt::ReLU(), BasicBlock(8, 8, 1),
                          BasicBlock(8, 16, 2), tt::AdaptiveAvgPool2d(1), tt::Flatten(), tt::Linear(16, 10));
  const auto seen = train(residual, images, cross_entropy, 8);
  CHECK(seen.second < 0.9 * seen.first);

  Recurrent recurrent;
  const tt::Tensor lines = images.squeeze(1);
  const auto read = train(recurrent, lines, cross_entropy, 20);
  CHECK(read.second < 0.9 * read.first);

  const std::string path = (std::filesystem::temp_directory_path() / "course_project.safetensors").string();
  tt::save(recurrent, path);
  Recurrent again;
  tt::load(again, path);
  std::filesystem::remove(path);
  CHECK(again(lines).to_vector() == recurrent(lines).to_vector());
}
