// compiled_training_step(): a Trainer with it reports and learns what it does without it.
#include <tinytorch/acceleration/compiled_training.hpp>

#include <doctest/doctest.h>

#include <limits>
#include <support/errors.hpp>
#include <tinytorch/layers/layers.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace {
namespace tt = tinytorch;
using tt::Tensor;

struct TrainedNet : tt::Module {
  tt::Linear hidden{5, 24}, back{24, 3};
  tt::Dropout drop{0.25};
  bool reads = false;  // elements, on the host
  TrainedNet() { add("hidden", hidden), add("back", back), add("drop", drop); }
  Tensor forward(const Tensor& x) override {
    const Tensor h = tt::gelu(hidden(x)) * 1.5;
    if (reads && h.sum().item() > 1e30) return back(h);
    return back(drop(h));
  }
};

struct TrainedRun {
  std::vector<tt::EpochReport> reports;
  std::vector<std::vector<double>> weights;
  tt::CompiledTrainingStep step;
};
// Three epochs over 22 samples in batches of 4, so that the last batch has 2.
TrainedRun trained_run(bool compiled, int64_t accumulate, tt::DType dtype, bool reads = false) {
  tt::Generator g(3);
  const Tensor x = tt::randn({22, 5}, tt::f32, tt::default_device(), g).to(dtype),
               t = tt::randint(0, 3, {22}, tt::i64, tt::default_device(), g);
  tt::manual_seed(11);
  TrainedNet net;
  net.to(dtype);
  net.reads = reads;
  tt::AdamW optimizer(net.named_parameters(), {.lr = 1e-2});
  tt::DataLoader loader(x, t, {.batch_size = 4, .shuffle = true, .seed = 8});
  TrainedRun run;
  run.step = tt::compiled_training_step({.kernels = tt::RegionKernels::interpreted, .strict = !reads});
  tt::TrainerOptions options{.epochs = 3, .accumulate = accumulate, .clip_norm = 0.5, .progress = nullptr};
  if (compiled) options.step = run.step;
  tt::Trainer trainer(
      net, optimizer, loader, [](const Tensor& y, const Tensor& c) { return tt::cross_entropy(y, c); },
      options);
  run.reports = trainer.fit();
  for (const Tensor& p : net.parameters()) run.weights.push_back(p.to_vector<double>());
  return run;
}
void check_equal_runs(const TrainedRun& got, const TrainedRun& want) {
  REQUIRE(got.reports.size() == want.reports.size());
  for (size_t k = 0; k < want.reports.size(); ++k) {
    CAPTURE(k);
    CHECK(got.reports[k].train_loss == want.reports[k].train_loss);
    CHECK(got.reports[k].train_metric == want.reports[k].train_metric);
    CHECK(got.reports[k].gradient_norm == want.reports[k].gradient_norm);
    CHECK(got.reports[k].step == want.reports[k].step);
  }
  CHECK(got.weights == want.weights);
}
}  // namespace

TEST_CASE("a trainer that replays its passes has the losses, metrics and weights of one that does not") {
  for (const tt::DType dtype : {tt::f32, tt::f64, tt::bf16}) {
    for (const int64_t accumulate : {1, 3}) {
      CAPTURE(tt::name_of(dtype));
      CAPTURE(accumulate);
      const TrainedRun plain = trained_run(false, accumulate, dtype);
      const TrainedRun compiled = trained_run(true, accumulate, dtype);
      check_equal_runs(compiled, plain);
      CHECK(plain.step.reports().empty());
      // Batches of 4 and of 2 samples. With three of 4 or two and one short, all are parts of a step.
      CHECK(compiled.step.reports().size() == 2);
      CHECK(compiled.step.eager_reason().empty());
      int64_t calls = 0;
      for (const tt::VariantReport& r : compiled.step.reports()) calls += r.calls;
      CHECK(calls == 3 * 6);
    }
  }
}

TEST_CASE("a model that reads elements on the host is trained eagerly, or refused") {
  const TrainedRun plain = trained_run(false, 1, tt::f32, true), run = trained_run(true, 1, tt::f32, true);
  check_equal_runs(run, plain);
  CHECK(run.step.eager_reason().find("TT-COMPILE-03") != std::string::npos);
  CHECK(run.step.reports().empty());

  TrainedNet net;
  net.reads = true;
  tt::SGD sgd(net.named_parameters(), {.lr = 0.1});
  const auto strict = tt::compiled_training_step({.strict = true});
  const tt::Batch batches[] = {{tt::ones({4, 5}), tt::zeros({4}, tt::i64)}};
  const tt::Loss loss = [](const Tensor& y, const Tensor& c) { return tt::cross_entropy(y, c); };
  test::expect_error("TT-COMPILE-03", "reads elements", [&] { strict(net, sgd, batches, loss, 0); });
}

TEST_CASE("a loss that is not finite stops before the update, and another model is captured anew") {
  const auto step = tt::compiled_training_step({.kernels = tt::RegionKernels::interpreted, .strict = true});
  const tt::Loss loss = [](const Tensor& y, const Tensor& t) { return tt::mse_loss(y, t); };
  tt::Linear one(2, 1), two(2, 1);
  tt::SGD first(one.named_parameters(), {.lr = 0.1}), second(two.named_parameters(), {.lr = 0.1});
  const tt::Batch good[] = {{tt::ones({3, 2}), tt::ones({3, 1})}};
  const tt::Batch bad[] = {{tt::full({3, 2}, std::numeric_limits<double>::infinity()), tt::ones({3, 1})}};
  for (int64_t k = 0; k < 5; ++k) step(one, first, good, loss, k);
  const std::vector<float> before = one.weight.to_vector();
  test::expect_error("TT-TRAIN-02", "the loss is", [&] { step(one, first, bad, loss, 5); });
  CHECK(one.weight.to_vector() == before);
  const double expected = loss(two(good[0].inputs), good[0].targets).item<double>();
  const tt::StepReport report = step(two, second, good, loss, 0);
  CHECK(report.loss_sum == expected * 3);
  CHECK(report.samples == 3);
  CHECK(one.weight.to_vector() == before);
}
