// Trainer: the training loop, with what a real run needs around it.
//
//   tt::Trainer trainer(net, optimizer, loader, tt::classification_loss, {.epochs = 5, .schedule = ...});
//   trainer.fit(&test_loader);
//
// One optimizer step: `accumulate` batches forward and backward, each weighted by its share of the samples,
// so that their gradients add up to that of one large batch; clip; set the rate; step. With a checkpoint path
// the run can be stopped anywhere between steps and continued with resume(), to the same bits.
#pragma once

#include <limits>
#include <tinytorch/autograd/engine.hpp>
#include <tinytorch/layers/checkpoint.hpp>
#include <tinytorch/layers/clip.hpp>
#include <tinytorch/layers/data_loader.hpp>
#include <tinytorch/layers/gradient_sum.hpp>
#include <tinytorch/layers/json_lines.hpp>
#include <tinytorch/layers/metrics.hpp>
#include <tinytorch/layers/progress.hpp>
#include <tinytorch/layers/schedule.hpp>

namespace tinytorch::inline TT_BUILD {

// A number that was not measured.
inline constexpr double kNotMeasured = std::numeric_limits<double>::quiet_NaN();

struct EpochReport {
  int64_t epoch = 0;  // counted from 1
  int64_t step = 0;   // optimizer steps so far
  double lr = 0;      // of the last step
  double train_loss = 0, train_metric = 0;
  double eval_loss = kNotMeasured, eval_metric = kNotMeasured;
  double gradient_norm = kNotMeasured;  // before clipping, at the last step
  double seconds = 0;                   // of training, without evaluation
};

struct TrainerOptions {
  int64_t epochs = 1;
  Schedule schedule{};       // rate by optimizer step; without one the optimizer's rate stays
  int64_t accumulate = 1;    // batches per optimizer step
  double clip_norm = 0;      // largest gradient norm; 0 does not clip
  Metric metric = accuracy;  // reported beside the loss
  std::string metric_name = "accuracy";
  std::function<bool(const EpochReport&)> stop_when{};  // early exit after an epoch
  int64_t max_steps = 0;                                // stop after this many optimizer steps; 0: no limit
  std::string log_path{};                               // JSON lines, one per epoch
  std::string checkpoint_path{};
  int64_t checkpoint_every = 0;  // in optimizer steps; 0: after each epoch
  std::FILE* progress = stdout;  // null: silent
};

class Trainer {
 public:
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
    const Tensors parameters = optimizer_.parameters();
    const auto is_narrow = [](const Tensor& p) { return is_16_bit(p.dtype()); };
    if (options_.accumulate > 1 && std::ranges::any_of(parameters, is_narrow)) sums_.emplace(parameters, loc);
  }

  // Trains up to options.epochs epochs in total and reports each; evaluates on `test` after each if given.
  std::vector<EpochReport> fit(DataLoader* test = nullptr) {
    JsonLines log(options_.log_path);
    std::vector<EpochReport> reports;
    while (loader_.state().epoch < options_.epochs && !out_of_steps()) {
      EpochReport report;
      if (!train_epoch(report)) break;
      if (test) {
        const Evaluation result = evaluate(model_, *test, loss_, options_.metric);
        report.eval_loss = result.loss, report.eval_metric = result.metric;
      }
      if (!options_.checkpoint_path.empty()) save(options_.checkpoint_path);
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
  void resume(const std::string& path, TT_LOC) {
    run_ = load_checkpoint(path, model_, optimizer_, loader_, loc);
  }

 private:
  bool out_of_steps() const { return options_.max_steps > 0 && run_.step >= options_.max_steps; }

  // One epoch, or the rest of one. False when stopped by max_steps before its end.
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
    loader_.next();  // past the end: on to the next epoch
    report.step = run_.step;
    report.train_loss = run_.loss_sum / static_cast<double>(run_.samples);
    report.train_metric = run_.metric_sum / static_cast<double>(run_.samples);
    run_.samples = 0, run_.loss_sum = 0, run_.metric_sum = 0;
    report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return true;
  }

  // One optimizer step. Before it the schedule's rate for step run_.step, counted from 0, if there is a schedule;
  // after it a checkpoint, if there is a path and `checkpoint_every` divides the steps taken. Fills report.lr and
  // report.gradient_norm.
  void run_step(EpochReport& report) {
    report.lr = options_.schedule ? options_.schedule(run_.step) : optimizer_.lr();
    optimizer_.set_lr(report.lr);
    report.gradient_norm = train_step();
    if (options_.checkpoint_every > 0 && !options_.checkpoint_path.empty() &&
        run_.step % options_.checkpoint_every == 0) {
      save(options_.checkpoint_path);
    }
  }

  // Samples in the `accumulate` batches of the step that begins at the loader's position: fewer where the epoch ends
  // before, in its last, partial batch or in a last step of fewer batches. Samples that drop_last leaves out are not
  // served, and do not count.
  int64_t samples_of_step() const {
    const int64_t per_batch = loader_.options().batch_size;
    const int64_t first = loader_.state().batch * per_batch;
    const int64_t end = std::min(loader_.samples(), loader_.batches_per_epoch() * per_batch);
    return std::min(options_.accumulate * per_batch, end - first);
  }

  // Gradients to zero; the batches of this step, each forward and backward, with its share of the step's samples as
  // its weight, so that the gradients add up to that of one large batch; clip; update; count. Returns the gradient
  // norm before clipping, or kNotMeasured when options_.clip_norm is 0.
  // For each batch: run_.samples, run_.loss_sum and, with a metric, run_.metric_sum grow, weighted by its samples. A
  // loss that is not finite: TT-TRAIN-02. sums_ (gradient_sum.hpp), if it exists, takes each gradient after backward()
  // and gives back their sum at the end.
  double train_step() {
    optimizer_.zero_grad();
    if (sums_) sums_->clear();
    const int64_t total = samples_of_step();
    const Device device = model_.device();
    for (int64_t done = 0; done < total;) {
      const Batch batch = loader_.next()->to(device);
      const int64_t count = batch.inputs.size(0);
      const Tensor output = model_(batch.inputs);
      const Tensor loss = loss_(output, batch.targets);
      const double value = loss.item<double>();
      if (!std::isfinite(value)) {
        fail("TT-TRAIN-02", "the loss is " + std::to_string(value) + " at step " + std::to_string(run_.step) +
                                "\n  hint: lower the learning rate, warm it up, or set clip_norm");
      }
      run_.samples += count;
      run_.loss_sum += value * static_cast<double>(count);
      if (options_.metric)
        run_.metric_sum += options_.metric(output, batch.targets) * static_cast<double>(count);
      const double share = static_cast<double>(count) / static_cast<double>(total);
      (count == total ? loss : loss * share).backward();
      if (sums_) sums_->add();
      done += count;
    }
    if (sums_) sums_->give();
    const double norm_before = options_.clip_norm > 0
                                   ? clip_gradient_norm(optimizer_.parameters(), options_.clip_norm)
                                   : kNotMeasured;
    optimizer_.step();
    run_.step += 1;
    return norm_before;
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
  std::optional<GradientSum> sums_;  // where the gradients' own dtype would lose what is added
};

}  // namespace tinytorch::inline TT_BUILD
