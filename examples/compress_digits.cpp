// A convolution net on generated digits is made to fit a third of its bytes: channels are removed, the rest
// learns from the net as it was (distillation), and its linear layers are packed. The report shows what each
// of these steps is worth, and that zeros alone ("mask only") save neither bytes nor time.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <tinytorch/data/digits.hpp>
#include <tinytorch/layers/activation.hpp>
#include <tinytorch/layers/adam.hpp>
#include <tinytorch/layers/batch_norm.hpp>
#include <tinytorch/layers/conv2d.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/layers/pooling.hpp>
#include <tinytorch/layers/sequential.hpp>
#include <tinytorch/layers/trainer.hpp>
#include <tinytorch/pruning/compress.hpp>
#include <tinytorch/pruning/distill.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

// Convolution, batch norm, ReLU, and pooling to half the resolution: [B, in, H, W] -> [B, out, H / 2, W / 2].
tt::Sequential stage(int64_t in, int64_t out) {
  return tt::Sequential(tt::Conv2d(in, out, 3, {.padding = 1}, false), tt::BatchNorm2d(out), tt::ReLU(),
                        tt::MaxPool2d(2));
}
std::unique_ptr<tt::Sequential> net() {
  return std::make_unique<tt::Sequential>(stage(1, 32), stage(32, 64), tt::Flatten(), tt::Linear(3136, 128),
                                          tt::ReLU(), tt::Linear(128, 10));
}

double accuracy(tt::Module& model, const tt::Tensor& images, const tt::Tensor& labels) {
  const tt::NoGrad no_grad;
  const tt::EvalMode eval(model);
  const tt::Tensor right = tt::eq(tt::argmax(model(images), 1), labels);
  return tt::mean(right.to(tt::f32)).item<double>();
}

int main(int argc, char** argv) {
  int64_t samples = 2000, epochs = 2;
  uint64_t seed = 1;
  double share = 0.32, required = 0.9;
  CLI::App app("Compress a convolution net on generated digits");
  app.add_option("--samples", samples, "Training images")
      ->capture_default_str()
      ->check(CLI::Range(100, 1000000));
  app.add_option("--epochs", epochs, "Epochs of training, and of distillation")->capture_default_str();
  app.add_option("--share", share, "Bytes to keep, as a share")->capture_default_str();
  app.add_option("--seed", seed, "Seed of data and weights")->capture_default_str();
  app.add_option("--require", required, "Exit with 1 below this test accuracy")->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  const tt::Digits train = tt::digits(samples, seed), test = tt::digits(500, seed + 1);
  tt::DataLoader loader(train.images, train.labels, {.batch_size = 50, .shuffle = true, .seed = seed});

  tt::manual_seed(seed);
  const std::unique_ptr<tt::Sequential> model = net();
  tt::AdamW optimizer(model->named_parameters());
  tt::Trainer(*model, optimizer, loader, tt::classification_loss,
              {.epochs = epochs, .schedule = tt::one_cycle(4e-3, epochs * loader.batches_per_epoch())})
      .fit(nullptr);
  const double before = accuracy(*model, test.images, test.labels);

  tt::CompressionTask task;
  task.build = net;
  task.input = test.images.slice(0, 0, 50);
  task.loss = [&](tt::Module& m) { return tt::cross_entropy(m(test.images), test.labels).item<double>(); };
  task.distill = [&](tt::Module& student, tt::Module& teacher) {
    tt::AdamW steps(student.named_parameters(), {.lr = 2e-3});
    student.train();
    for (int64_t epoch = 0; epoch < epochs; ++epoch) {
      for (const tt::Batch& batch : loader) {
        steps.zero_grad();
        const tt::Tensor goal = tt::teacher_logits(teacher, batch.inputs);
        tt::distillation_loss(student(batch.inputs), goal, batch.targets, {.temperature = 3, .soft = 0.7})
            .backward();
        steps.step();
      }
    }
  };
  const auto bytes = static_cast<int64_t>(share * static_cast<double>(tt::quantization::bytes_of(*model)));
  const tt::CompressionReport report =
      tt::compress(*model, bytes, task, {.sparsities = {0, 0.25, 0.5, 0.75}});
  std::printf("%s", report.text().c_str());
  const double after = accuracy(*model, test.images, test.labels);
  std::printf("test accuracy %.2f %%, before %.2f %%\n", 100 * after, 100 * before);
  return after >= required ? 0 : 1;
}
