#include <tinytorch/layers/trainer.hpp>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <support/errors.hpp>
#include <support/values.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/layers/sgd.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

namespace {

// Data of y = x [2, -1, 0.5]^T + 3 in 23 random rows.
struct Regression {
  tt::Tensor x, y;
  Regression() {
    tt::Generator g(1);
    x = tt::randn({23, 3}, tt::f32, tt::cpu, g);
    y = tt::linear(x, tt::from_data({2.f, -1.f, 0.5f}, {1, 3}, x.device())) + 3;
  }
};
tt::Tensor squared_error(const tt::Tensor& a, const tt::Tensor& b) { return tt::mean(tt::square(a - b)); }
tt::Linear model(uint64_t seed = 2) {
  tt::Generator g(seed);
  return tt::Linear(3, 1, true, g);
}
std::vector<double> weights(const tt::Module& m) {
  std::vector<double> all;
  for (const tt::Tensor& p : m.parameters()) {
    for (double v : p.to_vector<double>()) all.push_back(v);
  }
  return all;
}

}  // namespace

TEST_CASE("fit finds the true weights, and the loss falls") {
  const Regression data;
  tt::Linear net = model();
  tt::DataLoader loader(data.x, data.y, {.batch_size = 5, .shuffle = true});
  tt::DataLoader test(data.x, data.y, {.batch_size = 23});
  tt::SGD optimizer(net.named_parameters(), {.lr = 0.1});
  tt::Trainer trainer(net, optimizer, loader, squared_error, {.epochs = 60, .progress = nullptr});
  const auto reports = trainer.fit(&test);
  REQUIRE(reports.size() == 60);
  CHECK(trainer.steps() == 60 * 5);
  CHECK(reports.back().step == 300);
  CHECK(reports.back().epoch == 60);
  CHECK(reports.front().train_loss > 1);
  CHECK(reports.back().eval_loss < 1e-6);
  check_values(weights(net), {2, -1, 0.5, 3}, 1e-3);
}

TEST_CASE("accumulated batches give the step of one large batch, also with a short last batch") {
  const Regression data;
  std::vector<std::vector<double>> results;
  for (int64_t accumulate : {1, 2, 4}) {
    tt::Linear net = model();
    net.to(tt::f64);
    tt::DataLoader loader(data.x.to(tt::f64), data.y.to(tt::f64), {.batch_size = 8 / accumulate});
    tt::SGD optimizer(net.named_parameters(), {.lr = 0.05, .momentum = 0.9});
    tt::Trainer trainer(net, optimizer, loader, squared_error,
                        {.epochs = 2, .accumulate = accumulate, .progress = nullptr});
    trainer.fit();
    CHECK(trainer.steps() == 6);
    results.push_back(weights(net));
  }
  check_values(results[1], results[0], 1e-13);
  check_values(results[2], results[0], 1e-13);
}

TEST_CASE("the schedule sets the rate of each step, and clipping bounds each step") {
  const Regression data;
  tt::Linear net = model();
  const std::vector<double> before = weights(net);
  tt::DataLoader loader(data.x, data.y, {.batch_size = 23});
  tt::SGD optimizer(net.named_parameters(), {.lr = 123});
  tt::Trainer trainer(net, optimizer, loader, squared_error,
                      {.epochs = 2,
                       .schedule = [](int64_t step) { return step == 0 ? 0.5 : 0.0; },
                       .clip_norm = 0.1,
                       .progress = nullptr});
  const auto reports = trainer.fit();
  CHECK(reports[0].lr == 0.5);
  CHECK(reports[1].lr == 0);
  CHECK(reports[0].gradient_norm > 1);
  double moved = 0;
  const std::vector<double> after = weights(net);
  for (size_t i = 0; i < after.size(); ++i) moved += (after[i] - before[i]) * (after[i] - before[i]);
  CHECK(std::sqrt(moved) == doctest::Approx(0.5 * 0.1).epsilon(1e-4));
}

TEST_CASE("stop_when ends training after an epoch, max_steps inside an epoch") {
  const Regression data;
  tt::Linear net = model();
  tt::DataLoader loader(data.x, data.y, {.batch_size = 5});
  tt::SGD optimizer(net.named_parameters());
  tt::TrainerOptions options{.epochs = 9, .progress = nullptr};
  options.stop_when = [](const tt::EpochReport& r) { return r.epoch == 3; };
  CHECK(tt::Trainer(net, optimizer, loader, squared_error, options).fit().size() == 3);
  tt::DataLoader again(data.x, data.y, {.batch_size = 5});
  tt::Trainer short_run(net, optimizer, again, squared_error,
                        {.epochs = 9, .max_steps = 7, .progress = nullptr});
  CHECK(short_run.fit().size() == 1);
  CHECK(short_run.steps() == 7);
  CHECK(again.state() == tt::LoaderState{1, 2});
}

TEST_CASE("each epoch writes a line to the log, and a line of progress to a file") {
  const Regression data;
  tt::Linear net = model();
  const std::string path =
      (std::filesystem::temp_directory_path() / ("tinytorch-train-" + std::to_string(::getpid()))).string();
  std::filesystem::remove(path);
  std::FILE* shown = std::tmpfile();
  tt::DataLoader loader(data.x, data.y, {.batch_size = 5});
  tt::SGD optimizer(net.named_parameters());
  tt::Trainer trainer(net, optimizer, loader, squared_error,
                      {.epochs = 2, .metric = nullptr, .log_path = path, .progress = shown});
  const auto reports = trainer.fit();
  std::ifstream file(path);
  int64_t epoch = 0;
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line);
    CHECK(json["epoch"] == ++epoch);
    CHECK(json["train_loss"].get<double>() == reports[static_cast<size_t>(epoch - 1)].train_loss);
    CHECK(json["train_accuracy"].is_null());
    CHECK(json["eval_loss"].is_null());
  }
  CHECK(epoch == 2);
  std::filesystem::remove(path);
  std::string text(1000, '\0');
  std::rewind(shown);
  text.resize(std::fread(text.data(), 1, text.size(), shown));
  std::fclose(shown);
  CHECK(text.rfind("epoch 1/2  loss ", 0) == 0);
  CHECK(text.find("\nepoch 2/2  loss ") != std::string::npos);
  CHECK(text.find('\x1b') == std::string::npos);
}

TEST_CASE(
    "an epoch is saved before its evaluation, which may fail; a path that cannot be written throws before "
    "training") {
  const Regression data;
  const std::string path =
      (std::filesystem::temp_directory_path() / ("tinytorch-saved-" + std::to_string(::getpid()))).string();
  tt::Linear net = model();
  tt::DataLoader loader(data.x, data.y, {.batch_size = 5}),
      misfit(tt::ones({4, 2}, tt::f32, tt::cpu), tt::ones({4, 1}, tt::f32, tt::cpu));
  tt::SGD optimizer(net.named_parameters());
  tt::TrainerOptions options{
      .epochs = 2, .log_path = path + ".jsonl", .checkpoint_path = path, .progress = nullptr};
  tt::Trainer trainer(net, optimizer, loader, squared_error, options);
  CHECK(message_of([&] { trainer.fit(&misfit); }).rfind("TT-SHAPE", 0) == 0);
  const std::vector<double> trained = weights(net);

  tt::Linear other = model(3);
  tt::SGD again(other.named_parameters());
  std::ofstream(options.log_path) << R"({"epoch": 1, "step": 5})"
                                     "\n"
                                     R"({"epoch": 2, "step": 10})"
                                     "\n"
                                     R"({"ep)";
  tt::Trainer second(other, again, loader, squared_error, options);
  second.resume(path);
  CHECK(weights(other) == trained);
  CHECK(second.fit().size() == 1);
  std::vector<int64_t> steps;
  std::ifstream file(options.log_path);
  for (std::string line; std::getline(file, line);) steps.push_back(nlohmann::json::parse(line)["step"]);
  CHECK(steps == std::vector<int64_t>{5, 10});
  std::filesystem::remove(path), std::filesystem::remove(options.log_path);

  options.checkpoint_path = path + "/no/folder";
  CHECK(message_of([&] {
          tt::Trainer nowhere(other, again, loader, squared_error, options);
        }).rfind("TT-IO-02", 0) == 0);
}

TEST_CASE("a loss that is not finite throws with a hint, before the weights are changed") {
  const Regression data;
  tt::Linear net = model();
  tt::DataLoader loader(data.x * std::numeric_limits<float>::infinity(), data.y, {.batch_size = 5});
  tt::SGD optimizer(net.named_parameters());
  const std::vector<double> before = weights(net);
  tt::Trainer trainer(net, optimizer, loader, squared_error, {.progress = nullptr});
  CHECK(message_of([&] { trainer.fit(); }).rfind("TT-TRAIN-02", 0) == 0);
  CHECK(weights(net) == before);
  CHECK(message_of([&] { tt::Trainer t(net, optimizer, loader, nullptr); }).rfind("TT-TRAIN-01", 0) == 0);
}

TEST_CASE("a step of the caller takes the place of training_step, with its arguments") {
  const Regression data;
  std::vector<std::vector<double>> results;
  std::vector<int64_t> steps, batches;
  for (const bool own : {false, true}) {
    tt::Linear net = model();
    tt::DataLoader loader(data.x, data.y, {.batch_size = 8});
    tt::SGD optimizer(net.named_parameters(), {.lr = 0.05});
    tt::TrainerOptions options{.epochs = 2, .accumulate = 2, .clip_norm = 0.5, .progress = nullptr};
    if (own) {
      options.step = [&](tt::Module& m, tt::Optimizer& o, std::span<const tt::Batch> b, const tt::Loss& loss,
                         int64_t step, const tt::StepOptions& rules, tt::GradientSum* sums) {
        CHECK(&m == &net);
        CHECK(&o == &optimizer);
        CHECK(rules.clip_norm == 0.5);
        steps.push_back(step), batches.push_back(std::ssize(b));
        return tt::training_step(m, o, b, loss, step, rules, sums);
      };
    }
    tt::Trainer trainer(net, optimizer, loader, squared_error, options);
    trainer.fit();
    results.push_back(weights(net));
  }
  CHECK(results[0] == results[1]);
  CHECK(steps == std::vector<int64_t>{0, 1, 2, 3});
  CHECK(batches == std::vector<int64_t>{2, 1, 2, 1});
}
