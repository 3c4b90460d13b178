// A convolution net on generated digits is made to fit a third of its bytes: channels are removed, the rest
// learns from the net as it was (distillation), and with --pack its linear layers are packed. The report
// shows what each of these steps is worth, and that zeros alone ("mask only") save neither bytes nor time.
//
//   compress_digits                                  half of the channels, three quarters of the parameters
//   compress_digits --pack --share 0.1               fewer bits as well
//   compress_digits --faster 1.8 --json report.json  fails if it is not 1.8 times as fast
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

// The figures of a model: its parameters and bytes, its accuracy, and the time of a call.
struct Figures {
  int64_t parameters = 0, bytes = 0;
  double accuracy = 0, seconds = 0;
};

struct Settings {
  int64_t samples = 2000, epochs = 2;
  uint64_t seed = 1;
  double share = 0.32, required = 0.99, faster = 0;
  bool pack = false;
  std::string json{};
};

void print(const Settings& s, const Figures& before, const Figures& after) {
  const auto ratio = [](auto a, auto b) { return static_cast<double>(a) / static_cast<double>(b); };
  std::printf("\nparameters     %9lld -> %9lld, %.1f %% removed\n", static_cast<long long>(before.parameters),
              static_cast<long long>(after.parameters),
              100 * (1 - ratio(after.parameters, before.parameters)));
  std::printf("bytes          %9lld -> %9lld, %.3f of before\n", static_cast<long long>(before.bytes),
              static_cast<long long>(after.bytes), ratio(after.bytes, before.bytes));
  std::printf("50 images      %6.3f ms -> %6.3f ms, %.2f times as fast\n", 1e3 * before.seconds,
              1e3 * after.seconds, before.seconds / after.seconds);
  std::printf("test accuracy  %7.2f %% -> %7.2f %%, %.4f of before (required: %g)\n", 100 * before.accuracy,
              100 * after.accuracy, after.accuracy / before.accuracy, s.required);
}

std::string json_of(const Figures& f) {
  tt::JsonObject out;
  return out.add("parameters", f.parameters)
      .add("bytes", f.bytes)
      .add("accuracy", f.accuracy)
      .add("seconds", f.seconds)
      .str();
}

int run(const Settings& s) {
  const tt::Digits train = tt::digits(s.samples, s.seed), test = tt::digits(1000, s.seed + 1),
                   held_out = tt::digits(1000, s.seed + 2);
  tt::DataLoader loader(train.images, train.labels, {.batch_size = 50, .shuffle = true, .seed = s.seed});

  tt::manual_seed(s.seed);
  const std::unique_ptr<tt::Sequential> model = net();
  tt::AdamW optimizer(model->named_parameters());
  tt::Trainer(*model, optimizer, loader, tt::classification_loss,
              {.epochs = s.epochs, .schedule = tt::one_cycle(4e-3, s.epochs * loader.batches_per_epoch())})
      .fit(nullptr);
  Figures before{model->parameter_count(), tt::quantization::bytes_of(*model),
                 accuracy(*model, test.images, test.labels)};

  tt::CompressionTask task;
  task.build = net;
  task.input = test.images.slice(0, 0, 50);
  // The choice is made by images that the accuracy does not use.
  task.loss = [&](tt::Module& m) {
    return tt::cross_entropy(m(held_out.images), held_out.labels).item<double>();
  };
  task.distill = [&](tt::Module& student, tt::Module& teacher) {
    tt::AdamW steps(student.named_parameters(), {.lr = 2e-3});
    student.train();
    for (int64_t epoch = 0; epoch < s.epochs; ++epoch) {
      for (const tt::Batch& batch : loader) {
        steps.zero_grad();
        const tt::Tensor goal = tt::teacher_logits(teacher, batch.inputs);
        tt::distillation_loss(student(batch.inputs), goal, batch.targets, {.temperature = 3, .soft = 0.7})
            .backward();
        steps.step();
      }
    }
  };
  tt::CompressionOptions options{.sparsities = {0, 0.25, 0.5, 0.75}};
  if (!s.pack) options.formats = {""};
  const tt::CompressionReport report =
      tt::compress(*model, static_cast<int64_t>(s.share * static_cast<double>(before.bytes)), task, options);
  before.seconds = report.rows[0].seconds;
  const Figures after{model->parameter_count(), report.chosen().bytes,
                      accuracy(*model, test.images, test.labels), report.chosen().seconds};
  std::printf("%s", report.text().c_str());
  print(s, before, after);
  if (!s.json.empty()) {
    tt::write_file(s.json, "{\"before\": " + json_of(before) + ", \"after\": " + json_of(after) +
                               ", \"report\": " + report.json() + "}\n");
  }
  return after.accuracy >= s.required * before.accuracy && before.seconds >= s.faster * after.seconds ? 0 : 1;
}

int main(int argc, char** argv) {
  Settings s;
  CLI::App app("Compress a convolution net on generated digits");
  app.add_option("--samples", s.samples, "Training images")
      ->capture_default_str()
      ->check(CLI::Range(100, 1000000));
  app.add_option("--epochs", s.epochs, "Epochs of training, and of distillation")->capture_default_str();
  app.add_option("--share", s.share, "Bytes to keep, as a share")->capture_default_str();
  app.add_flag("--pack", s.pack, "Linear layers may be packed to 8 or 4 bits, too");
  app.add_option("--seed", s.seed, "Seed of data and weights")->capture_default_str();
  app.add_option("--require", s.required, "Exit with 1 below this share of the accuracy")
      ->capture_default_str();
  app.add_option("--faster", s.faster, "Exit with 1 if it is not so many times as fast")
      ->capture_default_str();
  app.add_option("--json", s.json, "Also write the report here");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(s);
  } catch (const tt::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 2;
  }
}
