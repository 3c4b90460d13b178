// A run that is interrupted and resumed is bit-identical to an uninterrupted run.
#include <support/few.hpp>
#include <tinytorch/layers/checkpoint.hpp>

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <support/errors.hpp>
#include <tinytorch/io/safetensors.hpp>
#include <tinytorch/layers/activation.hpp>
#include <tinytorch/layers/adam.hpp>
#include <tinytorch/layers/batch_norm.hpp>
#include <tinytorch/layers/dropout.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/layers/pooling.hpp>
#include <tinytorch/layers/sequential.hpp>
#include <tinytorch/layers/trainer.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

namespace {

std::string temporary_name() {
  return (std::filesystem::temp_directory_path() / ("tinytorch-checkpoint-" + std::to_string(::getpid())))
      .string();
}

// A run with all kinds of state: batch norm, dropout, AdamW, a schedule, shuffling, augmentation.
struct Run {
  tt::Sequential net{tt::Flatten(), tt::Linear(36, 16), tt::BatchNorm1d(16),
                     tt::ReLU(),    tt::Dropout(0.3),   tt::Linear(16, 4)};
  tt::AdamW optimizer{net.named_parameters(), {.weight_decay = 0.05}};
  tt::DataLoader loader;
  tt::Trainer trainer;

  static tt::Tensor images() {
    tt::Generator g(11);
    return tt::rand({50, 1, 6, 6}, tt::f32, tt::cpu, g);
  }
  static tt::Tensor labels() {
    tt::Generator g(12);
    return tt::randint(0, 4, {50}, tt::i64, tt::cpu, g);
  }
  explicit Run(tt::TrainerOptions options, int workers = 0, uint64_t loader_seed = 5)
      : loader(images(), labels(),
               {.batch_size = 8,
                .shuffle = true,
                .seed = loader_seed,
                .workers = workers,
                .augment = tt::compose({tt::random_shift(1), tt::random_rotate(20)})}),
        trainer(net, optimizer, loader, tt::classification_loss, with_defaults(std::move(options))) {}

  static tt::TrainerOptions with_defaults(tt::TrainerOptions o) {
    o.epochs = 3, o.schedule = tt::one_cycle(0.02, 12), o.accumulate = 2, o.clip_norm = 1,
    o.progress = nullptr;
    return o;
  }
  // The names and raw bytes of all tensors that training changes.
  std::map<std::string, std::vector<char>> bits() const {
    std::map<std::string, std::vector<char>> all;
    const auto add = [&](const std::string& prefix, const tt::StateDict& state) {
      for (const auto& [name, t] : state) {
        const tt::Tensor host = t.to(tt::cpu).contiguous();
        const char* data = static_cast<const char*>(host.raw());
        all[prefix + name] = std::vector<char>(data, data + t.bytes());
      }
    };
    add("net.", net.state_dict());
    add("optimizer.", optimizer.state_dict());
    return all;
  }
};

}  // namespace

TEST_CASE("interrupted anywhere and resumed elsewhere equals uninterrupted, bit for bit" *
          test::long_on_emulator()) {
  const std::string path = temporary_name();
  tt::manual_seed(100);
  Run whole({});
  const auto expected = whole.trainer.fit();
  REQUIRE(expected.size() == 3);

  for (int64_t stop : {1, 4, 6}) {  // 4 steps per epoch: inside the first, between epochs, inside the second
    INFO("stopped after step ", stop);
    tt::manual_seed(100);
    {
      Run first({.max_steps = stop}, 1);
      first.trainer.fit();
      CHECK(first.trainer.steps() == stop);
      first.trainer.save(path);
      CHECK(first.bits() != whole.bits());
    }
    tt::manual_seed(999);  // the resuming process starts with other weights and another random state
    Run second({}, 2);
    second.trainer.resume(path);
    const auto reports = second.trainer.fit();
    CHECK(second.bits() == whole.bits());
    CHECK(tt::default_generator().state().seed == 100);
    REQUIRE(reports.size() == static_cast<size_t>(3 - stop / 4));
    for (size_t i = 0; i < reports.size(); ++i) {
      const tt::EpochReport& e = expected[expected.size() - reports.size() + i];
      CHECK(reports[i].train_loss == e.train_loss);
      CHECK(reports[i].train_metric == e.train_metric);
      CHECK(reports[i].step == e.step);
    }
  }
  std::filesystem::remove(path);
}

TEST_CASE("the trainer writes checkpoints at its interval") {
  const std::string path = temporary_name();
  tt::manual_seed(7);
  Run run({.max_steps = 7, .checkpoint_path = path, .checkpoint_every = 5});
  run.trainer.fit();
  Run other({});
  other.trainer.resume(path);
  CHECK(other.trainer.steps() == 5);
  CHECK(other.loader.state() == tt::LoaderState{1, 2});
  std::filesystem::remove(path);
}

TEST_CASE("load_checkpoint names what does not match, and changes nothing") {
  const std::string path = temporary_name();
  tt::manual_seed(8);
  Run run({.max_steps = 2});
  run.trainer.fit();
  run.trainer.save(path);

  Run other({}, 0, 6);
  const auto before = other.bits();
  CHECK(message_of([&] { other.trainer.resume(path); }) ==
        "TT-CKPT-02: " + path +
            ": the data loader differs\n  saved: 50 samples, batches of 8, shuffled, seed 5, augmented\n"
            "  here:  50 samples, batches of 8, shuffled, seed 6, augmented\n"
            "  hint: resume with the same data and options");
  tt::Sequential small(tt::Flatten(), tt::Linear(36, 4));
  tt::AdamW small_optimizer(small.named_parameters());
  const std::string message =
      message_of([&] { tt::load_checkpoint(path, small, small_optimizer, run.loader); });
  CHECK(message.rfind("TT-NN-04: load_checkpoint: the state does not fit this model\n  unexpected (7): ",
                      0) == 0);
  CHECK(other.bits() == before);

  tt::save_safetensors(path, run.net.state_dict());
  CHECK(message_of([&] { run.trainer.resume(path); }).rfind("TT-CKPT-01", 0) == 0);
  std::filesystem::remove(path);
  CHECK_FALSE(message_of([&] { run.trainer.resume(path); }).empty());
}

TEST_CASE("numbers are restored bit for bit, and a damaged number throws") {
  const std::string path = temporary_name();
  Run run({});
  tt::RunState state;
  state.step = 3, state.random = {~uint64_t{0}, 1};
  state.loss_sum = 0.1, state.metric_sum = 4.9e-324;
  tt::save_checkpoint(path, run.net, run.optimizer, run.loader, state);
  const tt::RunState back = tt::load_checkpoint(path, run.net, run.optimizer, run.loader);
  CHECK(back.step == 3);
  CHECK(back.random.seed == ~uint64_t{0});
  CHECK(back.loss_sum == 0.1);
  CHECK(back.metric_sum == 4.9e-324);

  tt::Metadata whole;
  const tt::TensorMap tensors = tt::load_safetensors(path, &whole);
  const auto message_with = [&](const std::string& key, const char* text) {
    tt::Metadata damaged = whole;
    REQUIRE(damaged.erase(key) == 1);
    if (text) damaged[key] = text;
    tt::save_safetensors(path, tensors, damaged);
    return message_of([&] { tt::load_checkpoint(path, run.net, run.optimizer, run.loader); });
  };
  for (const std::string key : {"step", "random.seed", "epoch.loss_sum"}) {
    for (const char* text : {"12x", "", "nothing", static_cast<const char*>(nullptr)}) {
      INFO(key, " is ", std::string(text ? text : "absent"));
      const std::string message = message_with(key, text);
      CHECK(message.rfind("TT-CKPT-01: " + path + ": ", 0) == 0);
      CHECK(message.find("the field '" + key + "'") != std::string::npos);
    }
  }
  CHECK(message_with("step", "99999999999999999999").rfind("TT-CKPT-01", 0) == 0);
  CHECK(message_with("format", "another").rfind("TT-CKPT-01", 0) == 0);
  tt::TensorMap more = tensors;
  more["modle.weight"] = tt::zeros({1});
  tt::save_safetensors(path, more, whole);
  CHECK(message_of([&] {
          tt::load_checkpoint(path, run.net, run.optimizer, run.loader);
        }).find("the tensor 'modle.weight' belongs neither to the model nor to the optimizer") !=
        std::string::npos);
  std::filesystem::remove(path);
}
