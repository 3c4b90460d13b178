// Trainer: the training loop with schedule, evaluation, log, progress and checkpoints.
//
//   tt::Trainer trainer(net, optimizer, loader, tt::classification_loss, {.epochs = 5, .schedule = ...});
//   trainer.fit(&test_loader);
//
// One optimizer step takes `accumulate` batches (training_step.hpp). With a checkpoint path, a run can stop
// between any two steps, and resume() continues it with bit-identical results.
#pragma once

#include <tinytorch/layers/checkpoint.hpp>
#include <tinytorch/layers/data_loader.hpp>
#include <tinytorch/layers/json_lines.hpp>
#include <tinytorch/layers/metrics.hpp>
#include <tinytorch/layers/progress.hpp>
#include <tinytorch/layers/training_step.hpp>

namespace tinytorch::inline TT_BUILD {

struct EpochReport {
  int64_t epoch = 0;  // counted from 1
  int64_t step = 0;   // optimizer steps so far
  double lr = 0;      // learning rate of the last step
  double train_loss = 0, train_metric = 0;
  double eval_loss = kNotMeasured, eval_metric = kNotMeasured;
  double gradient_norm = kNotMeasured;  // before clipping, at the last step
  double seconds = 0;                   // time of training, without evaluation
};

// A whole optimizer step with the arguments and the result of training_step(), in its place.
using TrainingStep =
    std::function<StepReport(Module& model, Optimizer& optimizer, std::span<const Batch> batches,
                             const Loss& loss, int64_t step, const StepOptions& options, GradientSum* sums)>;

struct TrainerOptions {
  int64_t epochs = 1;
  Schedule schedule{};       // rate by optimizer step; if empty, the optimizer's rate is kept
  int64_t accumulate = 1;    // batches per optimizer step
  double clip_norm = 0;      // largest gradient norm; 0: no clipping
  Metric metric = accuracy;  // reported beside the loss
  std::string metric_name = "accuracy";
  std::function<bool(const EpochReport&)> stop_when{};  // early exit after an epoch
  int64_t max_steps = 0;                                // stop after this many optimizer steps; 0: no limit
  std::string log_path{};                               // JSON lines, one per epoch
  std::string checkpoint_path{};
  int64_t checkpoint_every = 0;  // in optimizer steps; 0: after each epoch
  std::FILE* progress = stdout;  // null: silent
  // The function that makes a step; if it is empty, training_step() does. compiled_training_step()
  // (acceleration/) captures and replays the passes.
  TrainingStep step{};
};

class Trainer {
 public:
  // Throws TT-TRAIN-01 for invalid options, and TT-IO-02 if the checkpoint could not be written.
  Trainer(Module& model, Optimizer& optimizer, DataLoader& loader, Loss loss, TrainerOptions options = {},
          TT_LOC)
      : model_(model),
        optimizer_(optimizer),
        loader_(loader),
        loss_(std::move(loss)),
        options_(std::move(options)),
        progress_(options_.progress) {
    if (options_.epochs < 0 || options_.accumulate < 1 || !loss_) {
      fail("TT-TRAIN-01", "Trainer: needs a loss, epochs >= 0 and accumulate >= 1", loc);
    }
    if (!options_.checkpoint_path.empty()) require_writable(options_.checkpoint_path, loc);
    const Tensors parameters = optimizer_.parameters();
    const auto is_narrow = [](const Tensor& p) { return is_16_bit(p.dtype()); };
    if (options_.accumulate > 1 && std::ranges::any_of(parameters, is_narrow)) sums_.emplace(parameters, loc);
  }

  // Trains until options.epochs epochs are complete in total, and returns a report of each. If `test` is
  // given, the model is evaluated on it after each epoch. The checkpoint of an epoch is written before the
  // evaluation, the log and the other steps that may fail. Throws TT-IO-02 if the log or the checkpoint
  // cannot be written.
  std::vector<EpochReport> fit(DataLoader* test = nullptr) {
    JsonLines log(options_.log_path);
    std::vector<EpochReport> reports;
    while (loader_.state().epoch < options_.epochs && !out_of_steps()) {
      EpochReport report;
      if (!train_epoch(report)) break;
      if (!options_.checkpoint_path.empty()) save(options_.checkpoint_path);
      if (test) {
        const Evaluation result = evaluate(model_, *test, loss_, options_.metric);
        report.eval_loss = result.loss, report.eval_metric = result.metric;
      }
      progress_.line(describe(report));
      log.write(to_json(report));
      reports.push_back(report);
      if (options_.stop_when && options_.stop_when(report)) break;
    }
    return reports;
  }

  int64_t steps() const { return run_.step; }
  void save(const std::string& path) {
    run_.loader = loader_.state();
    run_.random = default_generator().state();
    save_checkpoint(path, model_, optimizer_, loader_, run_);
  }
  // Continues from a checkpoint. The lines of steps that will be repeated are removed from the log
  // (drop_lines_after).
  void resume(const std::string& path, TT_LOC) {
    run_ = load_checkpoint(path, model_, optimizer_, loader_, loc);
    const std::string said = drop_lines_after(options_.log_path, run_.step, loc);
    if (!said.empty()) progress_.line(said);
  }

 private:
  bool out_of_steps() const { return options_.max_steps > 0 && run_.step >= options_.max_steps; }

  // Trains one epoch, or the rest of one. Returns false if max_steps stopped it before the end of the epoch.
  bool train_epoch(EpochReport& report) {
    const auto start = std::chrono::steady_clock::now();
    model_.train();
    report.epoch = loader_.state().epoch + 1;
    const int64_t batches = loader_.batches_per_epoch();
    while (loader_.state().batch < batches) {
      if (out_of_steps()) return false;
      run_step(report);
      char text[64];
      std::snprintf(text, sizeof text, "loss %.4f", run_.loss_sum / static_cast<double>(run_.samples));
      progress_.update(loader_.state().batch, batches, text);
    }
    loader_.next();  // past the last batch: moves to the next epoch
    report.step = run_.step;
    report.train_loss = run_.loss_sum / static_cast<double>(run_.samples);
    report.train_metric = run_.metric_sum / static_cast<double>(run_.samples);
    run_.samples = 0, run_.loss_sum = 0, run_.metric_sum = 0;
    report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return true;
  }

  // One optimizer step on the next `accumulate` batches, or on fewer at the end of the epoch.
  void run_step(EpochReport& report) {
    std::vector<Batch> batches;
    while (std::ssize(batches) < options_.accumulate && loader_.state().batch < loader_.batches_per_epoch()) {
      batches.push_back(*loader_.next());
    }
    const StepOptions rules{options_.schedule, options_.clip_norm, options_.metric};
    GradientSum* const sums = sums_ ? &*sums_ : nullptr;
    const StepReport step = options_.step
                                ? options_.step(model_, optimizer_, batches, loss_, run_.step, rules, sums)
                                : training_step(model_, optimizer_, batches, loss_, run_.step, rules, sums);
    run_.step += 1;
    run_.samples += step.samples;
    run_.loss_sum += step.loss_sum, run_.metric_sum += step.metric_sum;
    report.lr = step.lr, report.gradient_norm = step.gradient_norm;
    if (options_.checkpoint_every > 0 && !options_.checkpoint_path.empty() &&
        run_.step % options_.checkpoint_every == 0) {
      save(options_.checkpoint_path);
    }
  }

  std::string describe(const EpochReport& r) const {
    char text[256];
    int n = std::snprintf(text, sizeof text, "epoch %lld/%lld  loss %.4f", static_cast<long long>(r.epoch),
                          static_cast<long long>(options_.epochs), r.train_loss);
    std::string line(text, static_cast<size_t>(n));
    const auto add = [&](const char* label, double value) {
      if (std::isnan(value)) return;
      n = std::snprintf(text, sizeof text, "%s %.4f", label, value);
      line.append(text, static_cast<size_t>(n));
    };
    const std::string name = options_.metric_name;
    add((" " + name).c_str(), options_.metric ? r.train_metric : kNotMeasured);
    add("  test loss", r.eval_loss);
    add((" " + name).c_str(), r.eval_metric);
    n = std::snprintf(text, sizeof text, "  lr %.2e  %.1f s", r.lr, r.seconds);
    return line.append(text, static_cast<size_t>(n));
  }
  JsonObject to_json(const EpochReport& r) const {
    JsonObject json;
    json.add("epoch", r.epoch).add("step", r.step).add("lr", r.lr).add("train_loss", r.train_loss);
    json.add("train_" + options_.metric_name, options_.metric ? r.train_metric : kNotMeasured);
    json.add("eval_loss", r.eval_loss).add("eval_" + options_.metric_name, r.eval_metric);
    return json.add("gradient_norm", r.gradient_norm).add("seconds", r.seconds);
  }

  Module& model_;
  Optimizer& optimizer_;
  DataLoader& loader_;
  Loss loss_;
  TrainerOptions options_;
  Progress progress_;
  RunState run_;
  std::optional<GradientSum> sums_;  // for 16-bit parameters, whose gradients would lose precision in a sum
};

}  // namespace tinytorch::inline TT_BUILD
