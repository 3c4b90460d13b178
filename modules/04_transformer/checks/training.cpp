#include <tinytorch/layers/sgd.hpp>
#include <tinytorch/transformer/language_model_trainer.hpp>

#include "bigram.hpp"
#include "layers.hpp"

using namespace course;

namespace {

constexpr int64_t V = 7, C = 5;

// A data source that repeats the given batches.
struct Batches : BatchSource {
  std::vector<Batch> all;
  LoaderState place;
  std::optional<Batch> next() override {
    if (place.batch == static_cast<int64_t>(all.size())) {
      place = {place.epoch + 1, 0};
      return std::nullopt;
    }
    return all[static_cast<size_t>(place.batch++)];
  }
  LoaderState state() const override { return place; }
  void set_state(LoaderState state, Loc) override { place = state; }
  std::string signature() const override { return "batches"; }
};
Batches random_batches(int count, int64_t B = 2, int64_t T = 3) {
  Batches source;
  for (int i = 0; i < count; ++i) source.all.push_back({random_tokens({B, T}, V), random_tokens({B, T}, V)});
  return source;
}

// A model, and the expected model `twin`: steps of plain SGD on means over several batches.
struct Run {
  Bigram model{V, C, false}, twin{V, C, false};
  SGD optimizer{twins(), {.lr = 0.5}};
  double norm = 0;  // norm of the gradients of the last step

  NamedTensors twins() {  // makes both models equal, in f64
    randomize(twin, 0.7);
    model.to(f64);
    const NoGrad no_grad;
    model.table.weight.copy_(twin.table.weight), model.out.weight.copy_(twin.out.weight);
    return model.named_parameters();
  }
  void step_by_hand(const std::vector<Batch>& batches, double lr, double clip = 0) {
    const Tensors parameters = twin.parameters();
    std::vector<Numbers> sums;
    for (const Tensor& p : parameters) sums.emplace_back(static_cast<size_t>(p.numel()));
    for (const Batch& b : batches) {
      twin.zero_grad();
      twin.loss(b.inputs, b.targets).backward();
      for (size_t i = 0; i < sums.size(); ++i) sums[i] = plus(sums[i], numbers_of(parameters[i].grad()));
    }
    norm = 0;
    for (Numbers& sum : sums) {
      for (double& g : sum) g /= static_cast<double>(batches.size()), norm += g * g;
    }
    norm = std::sqrt(norm);
    const double factor = clip > 0 && norm > clip ? clip / norm : 1;
    const NoGrad no_grad;
    for (size_t i = 0; i < sums.size(); ++i) {
      Tensor p = parameters[i];
      p.add_(tensor_of(p.shape(), sums[i], f64), -lr * factor);
    }
  }
  void expect_twins(const std::string& what) {
    const Tensors got = model.parameters(), want = twin.parameters();
    for (size_t i = 0; i < got.size(); ++i) {
      expect_close(what + ": " + model.named_parameters()[i].name, got[i], numbers_of(want[i]),
                   want[i].shape(), {.roundings = 1e5});
    }
  }
};

LanguageModelTrainerOptions silent(int64_t steps) {
  return {.steps = steps, .clip_norm = 0, .progress = nullptr};
}

}  // namespace

TEST_CASE("4.14 a step computes loss and gradients, and updates") {
  Run run;
  Batches source = random_batches(1);
  const double before = run.twin.loss(source.all[0].inputs, source.all[0].targets).item<double>();
  LanguageModelTrainer trainer(run.model, run.optimizer, source, silent(1));
  const std::vector<TrainingReport> reports = trainer.fit();
  run.step_by_hand(source.all, 0.5);
  run.expect_twins("one step, SGD with rate 0.5");
  expect_equal("reports of a run of one step", reports.size(), size_t{1});
  expect("train_loss of the report is the loss before the step, " + shown(before),
         std::abs(reports[0].train_loss - before) < 1e-6, "it is " + shown(reports[0].train_loss));
  expect_equal("trainer.steps()", trainer.steps(), int64_t{1});
}

TEST_CASE("4.14 gradients of one step do not reach the next") {
  Run run;
  Batches source = random_batches(3);
  run.model.loss(source.all[1].inputs, source.all[1].targets)
      .backward();  // a gradient from an earlier computation
  LanguageModelTrainer(run.model, run.optimizer, source, silent(3)).fit();
  for (const Batch& b : source.all) run.step_by_hand({b}, 0.5);
  run.expect_twins("three steps on three batches, with an old gradient before the first step");
}

TEST_CASE("4.14 after the last batch the first one comes again") {
  Run run;
  Batches source = random_batches(2);
  LanguageModelTrainer(run.model, run.optimizer, source, silent(5)).fit();
  for (int i = 0; i < 5; ++i) run.step_by_hand({source.all[static_cast<size_t>(i % 2)]}, 0.5);
  run.expect_twins("five steps on two batches");
}

TEST_CASE("4.14 small batches add up to the step of one large batch") {
  Run run;
  Batches source = random_batches(6);
  LanguageModelTrainerOptions options = silent(2);
  options.accumulate = 3;
  const TrainingReport last = LanguageModelTrainer(run.model, run.optimizer, source, options).fit().back();
  run.step_by_hand({source.all[0], source.all[1], source.all[2]}, 0.5);
  run.step_by_hand({source.all[3], source.all[4], source.all[5]}, 0.5);
  run.expect_twins("two steps of three batches each");
  expect_equal("trained tokens in two steps of three batches of 6", last.tokens, int64_t{36});
}

TEST_CASE("4.14 gradients are clipped together") {
  Run run;
  Batches source = random_batches(2);
  LanguageModelTrainerOptions options = silent(2);
  options.clip_norm = 0.01, options.report_every = 1;
  const std::vector<TrainingReport> reports =
      LanguageModelTrainer(run.model, run.optimizer, source, options).fit();
  for (const size_t i : {0, 1}) {
    run.step_by_hand({source.all[i]}, 0.5, 0.01);
    expect("gradient_norm of step " + std::to_string(i) + " is the norm before clipping, " + shown(run.norm),
           std::abs(reports[i].gradient_norm / run.norm - 1) < 1e-4,
           "it is " + shown(reports[i].gradient_norm));
  }
  run.expect_twins("two steps, clip_norm 0.01");
}

TEST_CASE("4.14 the schedule sets the learning rate, counted from step 0") {
  Run run;
  Batches source = random_batches(3);
  LanguageModelTrainerOptions options = silent(3);
  std::vector<int64_t> asked;
  options.report_every = 1;
  options.schedule = [&](int64_t step) { return asked.push_back(step), 0.1 * static_cast<double>(step + 1); };
  const std::vector<TrainingReport> reports =
      LanguageModelTrainer(run.model, run.optimizer, source, options).fit();
  expect_equal("steps for which the schedule is called", asked, std::vector<int64_t>{0, 1, 2});
  for (size_t i = 0; i < 3; ++i) run.step_by_hand({source.all[i]}, 0.1 * static_cast<double>(i + 1));
  run.expect_twins("three steps with rates 0.1, 0.2, 0.3");
  expect_close("lr of the last report", Numbers{reports.back().lr}, {0.3}, Shape{1}, {.dtype = f64});
}

TEST_CASE("4.14 mean_loss weights each target equally") {
  Run run;
  Batches source = random_batches(3, 1, 4);
  source.all[1].targets = tensor_of({1, 4}, {-100, 3, -100, -100}, i64);
  source.all[2].targets = tensor_of({1, 4}, {-100, -100, -100, -100}, i64);
  source.place = {0, 2};
  run.model.train();
  const double got = mean_loss(run.model, source, 10);
  const auto loss = [&](size_t i) {
    return run.twin.loss(source.all[i].inputs, source.all[i].targets).item<double>();
  };
  const double want = (4 * loss(0) + loss(1)) / 5;
  expect("mean_loss of batches with 4, 1 and 0 targets that are not ignored: " + shown(want),
         std::abs(got - want) < 1e-6, "it is " + shown(got));
  expect("mean_loss of the first batch alone: " + shown(loss(0)),
         std::abs(mean_loss(run.model, source, 1) - loss(0)) < 1e-6);
  expect("after mean_loss the model is in training mode, as before", run.model.training());
  run.model.eval();
  mean_loss(run.model, source, 1);
  expect("a model in evaluation mode stays in it", !run.model.training());
}

TEST_CASE("4.14 mean_loss runs in evaluation mode, without a graph") {
  struct Watched : Bigram {
    using Bigram::Bigram;
    bool trained = false, recorded = false;
    Tensor features(const Tensor& tokens, AttentionCache* cache) override {
      const Tensor x = Bigram::features(tokens, cache);
      trained = trained || training(), recorded = recorded || x.requires_grad();
      return x;
    }
  } model(V, C, false);
  Batches source = random_batches(2);
  mean_loss(model, source, 2);
  expect("mean_loss: the model is in evaluation mode", !model.trained);
  expect("mean_loss: no graph is recorded", !model.recorded, "use const NoGrad no_grad;");
}

TEST_CASE("4.14 training lowers the loss of a predictable text to almost 0") {
  // The successor of each token is the token three higher, modulo 7.
  Run run;
  Batches source;
  for (int i = 0; i < 4; ++i) {
    Numbers tokens, targets;
    for (int k = 0; k < 12; ++k) {
      tokens.push_back((k + i) % 7);
      targets.push_back((k + i + 3) % 7);
    }
    source.all.push_back({tensor_of({3, 4}, tokens, i64), tensor_of({3, 4}, targets, i64)});
  }
  run.model.eval();
  const std::vector<Numbers> start = {numbers_of(run.model.table.weight), numbers_of(run.model.out.weight)};
  LanguageModelTrainerOptions options = silent(150);
  options.report_every = 50;
  const std::vector<TrainingReport> reports =
      LanguageModelTrainer(run.model, run.optimizer, source, options).fit(&source);
  expect("fit() trains in training mode", run.model.training());
  expect_equal("reports: every 50 steps of 150", reports.size(), size_t{3});
  expect(
      "the successor of each token is certain, so the validation loss at the end is below 0.2 (an untrained "
      "model has log 7 = 1.95)",
      reports.back().validation_loss < 0.2, "it is " + shown(reports.back().validation_loss));
  for (const auto& [name, weight, before] :
       {std::tuple<const char*, Tensor, Numbers>{"table.weight", run.model.table.weight, start[0]},
        {"out.weight", run.model.out.weight, start[1]}}) {
    double moved = 0, size = 0;
    const Numbers now = numbers_of(weight);
    for (size_t i = 0; i < now.size(); ++i)
      moved += std::pow(now[i] - before[i], 2), size += before[i] * before[i];
    expect(std::string(name) + " changed by at least a tenth of its initial norm", moved > 0.01 * size,
           "it changed by " + shown(std::sqrt(moved / size)) + " of the norm");
  }
}
