// Training in steps: the loss falls, a resumed run is bit-identical, replayed steps equal direct steps, and
// accumulated small batches equal a large one.
#include <support/few.hpp>
#include <tinytorch/transformer/language_model_trainer.hpp>

#include <io/files.hpp>
#include <numeric>
#include <support/device.hpp>
#include <support/errors.hpp>
#include <tinytorch/io/text.hpp>
#include <tinytorch/layers/adam.hpp>
#include <tinytorch/tinytorch.hpp>
#include <tinytorch/transformer/gpt2.hpp>
#include <tinytorch/transformer/token_data.hpp>

namespace tt = tinytorch;

namespace {

// The text 0 1 2 ... 10 0 1 ..., in which each token determines the next.
tt::TokenFile circle(const files::TempFolder& folder) {
  tt::Tokens tokens(500);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i % 11);
  tt::TokenWriter writer(folder / "circle.bin", tt::TokenWidth::u16);
  writer.append(tokens);
  writer.commit();
  return tt::TokenFile(folder / "circle.bin", tt::TokenWidth::u16);
}

tt::Gpt2Config tiny(double dropout) {
  return {.vocabulary = 11,
          .context = 8,
          .features = 16,
          .layers = 1,
          .heads = 2,
          .embedding_dropout = dropout,
          .attention_dropout = dropout,
          .residual_dropout = dropout};
}

// A model with all kinds of state, and its data and optimizer.
struct Run {
  tt::Gpt2 model;
  std::unique_ptr<tt::AdamW> optimizer;
  tt::RandomWindows windows;
  tt::SequentialWindows validation;
  std::unique_ptr<tt::LanguageModelTrainer> trainer;

  Run(const tt::TokenFile& file, tt::DType dtype, tt::LanguageModelTrainerOptions options,
      double dropout = 0.1, int64_t batch = 3)
      : model(tiny(dropout)),
        windows(file, {.batch_size = batch, .length = 8, .seed = 4}),
        validation(file, {.batch_size = 4, .length = 8}) {
    model.to(dtype);
    optimizer = std::make_unique<tt::AdamW>(model.named_parameters(), tt::AdamOptions{.weight_decay = 0.1});
    options.schedule = tt::cosine(1e-2, 60, 3);
    options.progress = nullptr;
    trainer = std::make_unique<tt::LanguageModelTrainer>(model, *optimizer, windows, options);
  }
  // All tensors and numbers that training changes.
  std::map<std::string, std::vector<double>> values() const {
    std::map<std::string, std::vector<double>> all;
    for (const auto& [name, t] : model.state_dict()) all["model." + name] = t.to_vector<double>();
    for (const auto& [name, t] : optimizer->state_dict()) all["optimizer." + name] = t.to_vector<double>();
    const auto random = tt::default_generator().state();
    all["random"] = {static_cast<double>(random.seed), static_cast<double>(random.next_block),
                     static_cast<double>(windows.state().batch)};
    return all;
  }
};

}  // namespace

TEST_CASE("a deterministic text is learned, and training reports its progress" * test::long_on_emulator()) {
  const files::TempFolder folder;
  tt::manual_seed(1);
  const int64_t steps = tt::default_device().is_cpu() ? 60 : 20;
  Run run(circle(folder), tt::f32,
          {.steps = steps,
           .report_every = 10,
           .evaluate_every = 20,
           .evaluate_batches = 3,
           .flops_per_token = 1e6,
           .peak_flops = 1e12,
           .log_path = folder / "log.jsonl"},
          0, 8);
  const std::vector<tt::TrainingReport> reports = run.trainer->fit(&run.validation);
  REQUIRE(reports.size() == static_cast<size_t>(steps / 10));
  CHECK(reports[0].train_loss > 1.5);
  CHECK(reports.back().train_loss < (steps == 60 ? 0.3 : 1.8));
  CHECK(std::abs(reports.back().validation_loss - reports.back().train_loss) < (steps == 60 ? 0.3 : 1.0));
  CHECK(std::isnan(reports[0].validation_loss));
  CHECK(!std::isnan(reports[1].validation_loss));
  CHECK(reports[0].tokens == 10 * 8 * 8);
  CHECK(reports[0].lr == tt::cosine(1e-2, 60, 3)(9));
  CHECK(reports[0].gradient_norm > 0);
  CHECK(reports[0].tokens_per_second > 0);
  CHECK(reports[0].share_of_peak == doctest::Approx(reports[0].tokens_per_second * 1e-6));
  CHECK(reports[0].peak_bytes > 1000);
  const std::vector<std::string> lines = tt::load_lines(folder / "log.jsonl");
  REQUIRE(lines.size() == reports.size());
  CHECK(lines[0].starts_with(R"({"step": 10, "tokens": 640, "lr": 0.00)"));
  CHECK(lines[0].find(R"("validation_loss": null)") != std::string::npos);
  CHECK(tt::mean_loss(run.model, run.validation, 3) == reports.back().validation_loss);
}

TEST_CASE("a resumed run is bit-identical to an uninterrupted one: dropout, accumulation, bf16" *
          test::long_on_emulator()) {
  const files::TempFolder folder;
  const tt::TokenFile file = circle(folder);
  for (const tt::DType dtype : {tt::f32, tt::bf16}) {
    for (const int64_t accumulate : {1, 3}) {
      if (tt::default_device().is_cuda() && test::kEmulated && (accumulate == 1) != (dtype == tt::f32))
        continue;
      const tt::LanguageModelTrainerOptions options{
          .steps = 7, .accumulate = accumulate, .report_every = 5, .evaluate_batches = 2};
      tt::manual_seed(100);
      Run whole(file, dtype, options);
      const double loss = whole.trainer->fit(&whole.validation).back().train_loss;
      const auto expected = whole.values();
      for (const int64_t stop : {1, 6}) {
        if (stop == 6 && tt::default_device().is_cuda() && test::kEmulated) continue;
        INFO(std::string(name_of(dtype)), " accumulate ", accumulate, " stopped after ", stop);
        tt::LanguageModelTrainerOptions first = options;
        first.checkpoint_path = folder / "run.safetensors", first.steps = stop;
        tt::manual_seed(100);
        Run(file, dtype, first).trainer->fit();
        tt::manual_seed(999);  // a new process with other weights
        Run second(file, dtype, options);
        second.trainer->resume(folder / "run.safetensors");
        CHECK(second.trainer->steps() == stop);
        const auto reports = second.trainer->fit(&second.validation);
        CHECK(second.values() == expected);
        if (stop == 6) CHECK(reports.back().step == 7);
        if (stop == 1) CHECK(reports.back().train_loss == loss);
      }
    }
  }
  tt::manual_seed(0);
}

namespace {

// Validation data that can no longer be read.
struct Broken : tt::BatchSource {
  std::optional<tt::Batch> next() override { tt::fail("TT-IO-01", "the disk is gone"); }
  tt::LoaderState state() const override { return {}; }
  void set_state(tt::LoaderState, tt::Loc) override {}
  std::string signature() const override { return "broken"; }
};

}  // namespace

TEST_CASE("a step is saved before its evaluation and its log, which may fail" * test::long_on_emulator()) {
  const files::TempFolder folder;
  const tt::TokenFile file = circle(folder);
  const std::string path = folder / "run.safetensors";
  Broken broken;
  {
    Run run(file, tt::f32, {.steps = 2, .checkpoint_path = path});
    CHECK(message_of([&] { run.trainer->fit(&broken); }).starts_with("TT-IO-01: the disk is gone"));
  }
  Run again(file, tt::f32, {.steps = 3});
  again.trainer->resume(path);
  CHECK(again.trainer->steps() == 2);
  if (std::filesystem::exists("/dev/full")) {
    Run run(file, tt::f32, {.steps = 1, .log_path = "/dev/full", .checkpoint_path = path});
    CHECK(message_of([&] { run.trainer->fit(); }).starts_with("TT-IO-02"));
    again.trainer->resume(path);
    CHECK(again.trainer->steps() == 1);
  }
  // A loss that is not finite overwrites no checkpoint.
  const auto before = tt::read_file(path);
  Run spoiled(file, tt::f32, {.steps = 2, .checkpoint_path = path});
  spoiled.model.token_embedding.weight.detach().fill_(NAN);
  CHECK(message_of([&] { spoiled.trainer->fit(); }).starts_with("TT-TRAIN-02"));
  CHECK(tt::read_file(path) == before);
  CHECK(message_of([&] {
          Run nowhere(file, tt::f32, {.checkpoint_path = folder / "none/run.safetensors"});
        }).starts_with("TT-IO-02"));
}

TEST_CASE("eight batches of 4 give the gradient of one of 32, to the precision of bf16" *
          test::long_on_emulator()) {
  const files::TempFolder folder;
  const tt::TokenFile file = circle(folder);
  tt::manual_seed(3);
  tt::Gpt2 model(tiny(0));
  model.to(tt::bf16);
  tt::Gpt2 exact(tiny(0));
  exact.load_state_dict(model.state_dict());
  exact.to(tt::f64);
  tt::RandomWindows large(file, {.batch_size = 32, .length = 8, .seed = 4});
  tt::RandomWindows small(file, {.batch_size = 4, .length = 8, .seed = 4});
  const tt::Batch whole = large.next()->to(tt::default_device());
  exact.loss(whole.inputs, whole.targets).backward();
  model.loss(whole.inputs, whole.targets).backward();
  std::vector<std::vector<double>> once, wanted;
  for (const tt::Tensor& p : model.parameters()) once.push_back(p.grad().to_vector<double>());
  for (const tt::Tensor& p : exact.parameters()) wanted.push_back(p.grad().to_vector<double>());

  model.zero_grad();
  tt::GradientSum sum(model.parameters());
  for (int i = 0; i < 8; ++i) {
    const tt::Batch batch = small.next()->to(tt::default_device());
    (model.loss(batch.inputs, batch.targets) * (1.0 / 8)).backward();
    sum.add();
  }
  sum.give();
  const auto distance = [](const std::vector<double>& a, const std::vector<double>& b) {
    double d = 0, size = 0;
    for (size_t k = 0; k < a.size(); ++k) d += (a[k] - b[k]) * (a[k] - b[k]), size += b[k] * b[k];
    return std::sqrt(d / size);
  };
  const tt::Tensors parameters = model.parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const std::vector<double> got = parameters[i].grad().to_vector<double>();
    // The error is as small as that of one large batch: only its own rounding remains.
    CHECK(distance(got, wanted[i]) < 1.5 * distance(once[i], wanted[i]) + 2 * tt::epsilon_of(tt::bf16));
    CHECK(distance(once[i], wanted[i]) < 0.05);
  }
}

TEST_CASE("replayed steps are bit-identical to direct steps" * test::needs_devices() *
          test::takes_minutes()) {
  const files::TempFolder folder;
  const tt::TokenFile file = circle(folder);
  const tt::Device before = tt::default_device();
  tt::set_default_device(tt::cuda);
  for (const int64_t accumulate : {1, 2}) {
    std::vector<std::map<std::string, std::vector<double>>> results;
    std::vector<double> losses;
    for (const bool graphs : {false, true}) {
      tt::manual_seed(5);
      Run run(file, tt::bf16, {.steps = 4, .accumulate = accumulate, .evaluate_every = 3, .graphs = graphs},
              0.1, 2);
      losses.push_back(run.trainer->fit(&run.validation).back().train_loss);
      results.push_back(run.values());
    }
    CHECK(results[0] == results[1]);
    CHECK(losses[0] == losses[1]);
  }
  tt::set_default_device(before);
  tt::manual_seed(0);
}

TEST_CASE("invalid data and options throw; a loss that is not finite ends the run" *
          test::long_on_emulator()) {
  const files::TempFolder folder;
  const tt::TokenFile file = circle(folder);
  CHECK(message_of([&] { Run run(file, tt::f32, {.accumulate = 0}); }).starts_with("TT-TRAIN-01"));
  Run run(file, tt::f32, {.steps = 200});
  tt::SequentialWindows uneven(file, {.batch_size = 40, .length = 8});
  tt::LanguageModelTrainer trainer(run.model, *run.optimizer, uneven, {.steps = 9, .progress = nullptr});
  CHECK(message_of([&] {
          trainer.fit();
        }).starts_with("TT-TRAIN-03: LanguageModelTrainer: batches must have one"));
  tt::Tensor weight = run.model.token_embedding.weight.detach();
  weight.fill_(NAN);
  CHECK(message_of([&] { run.trainer->fit(); }).starts_with("TT-TRAIN-02: the loss is nan at step 10"));
}

TEST_CASE("FLOPs of a token: six per parameter, and half of the attention matrix") {
  CHECK(tt::training_flops_per_token(124'439'808, 12, 1024, 768) == 6 * (124439808.0 + 12.0 * 1024 * 768));
}
