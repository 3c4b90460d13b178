// LanguageModelTrainer: the training loop of a language model, counted in steps.
//
// The frame of a course header: it has the given parts, and includes the functions of task 4.14.
#pragma once

#include <sys/resource.h>

#include <limits>
#include <tinytorch/backend/cuda/runtime/runtime.hpp>
#include <tinytorch/layers/checkpoint.hpp>
#include <tinytorch/layers/gradient_sum.hpp>
#include <tinytorch/layers/json_lines.hpp>
#include <tinytorch/layers/progress.hpp>
#include <tinytorch/layers/schedule.hpp>
#include <tinytorch/transformer/language_model.hpp>

namespace tinytorch::inline TT_BUILD {

// FLOPs of the forward and backward pass for one token: 6 for each weight, and 6 T C for each layer's causal
// attention, whose two products read half of T keys on average. Source: Chowdhery et al., "PaLM", 2022,
// appendix B; halved for the causal mask.
inline double training_flops_per_token(int64_t parameters, int64_t layers, int64_t T, int64_t C) {
  return 6 * (static_cast<double>(parameters) + static_cast<double>(layers * T) * static_cast<double>(C));
}

// Most bytes so far: taken from the device, or resident in memory for the CPU, of the whole program.
inline double peak_memory(Device device) {
  if (device.is_cuda()) return static_cast<double>(backend::cuda::memory_stats(device.index).peak_reserved);
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024;
}

struct TrainingReport {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();  // was not measured
  int64_t step = 0;                                                             // optimizer steps so far
  int64_t tokens = 0;                                                           // trained on so far
  double lr = 0;                                                                // of the last step
  double train_loss = 0;              // mean since the report before
  double validation_loss = kUnknown;  // at steps that evaluate
  double gradient_norm = kUnknown;    // before clipping, at the last step
  double tokens_per_second = 0;       // of training alone, since the report before
  double share_of_peak = kUnknown;    // of options.peak_flops
  double peak_bytes = 0;
};

struct LanguageModelTrainerOptions {
  int64_t steps = 1000;           // in total
  Schedule schedule{};            // rate by step; without one the optimizer's rate stays
  int64_t accumulate = 1;         // batches per step
  double clip_norm = 1;           // largest gradient norm; 0 does not clip
  int64_t report_every = 10;      // steps between reports, at which the host waits for the device
  int64_t evaluate_every = 0;     // steps; 0: after the last
  int64_t evaluate_batches = 20;  // of the validation data, always the first
  double flops_per_token = 0, peak_flops = 0;  // for share_of_peak; 0: unknown
  bool graphs = true;                          // (the library's own trainer replays captured steps)
  std::string log_path{};                      // JSON lines, one per report
  std::string checkpoint_path{};               // written after the last step too
  int64_t checkpoint_every = 0;                // steps; 0: after the last
  std::FILE* progress = stdout;                // null: silent
};

// Targets of a batch that count: all that are not -100.
inline double counted_targets(const Tensor& targets) {
  return static_cast<double>(sum(ne(targets, full({}, -100, i64, cpu))).item<int64_t>());
}

// Mean loss per target that counts, over the first `batches` of a source (task 4.14).
inline double mean_loss(LanguageModel& model, BatchSource& source, int64_t batches);

class LanguageModelTrainer {
 public:
  LanguageModelTrainer(LanguageModel& model, Optimizer& optimizer, BatchSource& source,
                       LanguageModelTrainerOptions options = {}, TT_LOC)
      : model_(model),
        optimizer_(optimizer),
        source_(source),
        options_(std::move(options)),
        progress_(options_.progress),
        sums_(optimizer_.parameters(), loc) {
    if (options_.steps < 0 || options_.accumulate < 1 || options_.report_every < 1) {
      fail("TT-TRAIN-01", "LanguageModelTrainer: needs steps >= 0, accumulate and report_every >= 1", loc);
    }
    if (!options_.checkpoint_path.empty()) require_writable(options_.checkpoint_path, loc);
  }
  LanguageModelTrainer(const LanguageModelTrainer&) = delete;
  LanguageModelTrainer& operator=(const LanguageModelTrainer&) = delete;
  ~LanguageModelTrainer() { optimizer_.zero_grad(); }

  std::vector<TrainingReport> fit(BatchSource* validation = nullptr);  // task 4.14

  int64_t steps() const { return run_.step; }
  void save(const std::string& path) {
    run_.loader = source_.state();
    run_.random = default_generator().state();
    save_checkpoint(path, model_, optimizer_, source_, run_);
  }
  // Goes on from a checkpoint. The log loses what is trained again (drop_lines_after).
  void resume(const std::string& path, TT_LOC) {
    run_ = load_checkpoint(path, model_, optimizer_, source_, loc);
    const std::string said = drop_lines_after(options_.log_path, run_.step, loc);
    if (!said.empty()) progress_.line(said);
  }

 private:
  void step();  // task 4.14

  // --- around it: batches, reports, checkpoints ---

  Batch next_batch() {
    std::optional<Batch> batch = source_.next();
    if (!batch) batch = source_.next();  // the next epoch
    if (!batch) fail("TT-TRAIN-03", "LanguageModelTrainer: the source of batches is empty");
    tokens_of_batch_ = batch->inputs.numel();
    tokens_ += tokens_of_batch_;
    return batch->to(model_.device());
  }
  // Adds a batch's loss to those since the report before.
  void note(const Tensor& loss) {
    run_.loss_sum += loss.item<double>();
    run_.samples += 1;
  }
  bool due(int64_t every) const { return every > 0 && run_.step % every == 0; }
  void after_step(double lr, BatchSource* validation, JsonLines& log, std::vector<TrainingReport>& reports) {
    const bool last = run_.step == options_.steps,
               evaluates = validation && (last || due(options_.evaluate_every));
    const bool reported = last || evaluates || due(options_.report_every);
    if (reported) reports.push_back(report(lr));  // a loss that is no number overwrites no checkpoint
    if (!options_.checkpoint_path.empty() && (last || due(options_.checkpoint_every))) {
      save(options_.checkpoint_path);
    }
    if (reported) finish(reports.back(), evaluates ? validation : nullptr, log);
  }
  void start_clock() { start_ = std::chrono::steady_clock::now(), tokens_ = 0; }
  // Sums up the steps since the last report. Throws TT-TRAIN-02 when their loss is no number.
  TrainingReport report(double lr) {
    TrainingReport r;
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start_;
    r.train_loss = run_.loss_sum / static_cast<double>(run_.samples);
    if (!std::isfinite(r.train_loss)) {
      fail("TT-TRAIN-02", "the loss is " + std::to_string(r.train_loss) + " at step " +
                              std::to_string(run_.step) +
                              "\n  hint: lower the learning rate, warm it up, or set clip_norm");
    }
    r.step = run_.step, r.lr = lr;
    r.tokens = run_.step * options_.accumulate * tokens_of_batch_;
    if (norm_.defined()) r.gradient_norm = norm_.item<double>();
    r.tokens_per_second = static_cast<double>(tokens_) / seconds.count();
    if (options_.flops_per_token > 0 && options_.peak_flops > 0) {
      r.share_of_peak = r.tokens_per_second * options_.flops_per_token / options_.peak_flops;
    }
    run_.samples = 0, run_.loss_sum = 0;
    return r;
  }
  // Evaluates, where there is something to evaluate on; tells the report and logs it.
  void finish(TrainingReport& r, BatchSource* validation, JsonLines& log) {
    if (validation) r.validation_loss = mean_loss(model_, *validation, options_.evaluate_batches);
    r.peak_bytes = peak_memory(model_.device());
    progress_.line(describe(r));
    log.write(to_json(r));
    start_clock();
  }

  std::string describe(const TrainingReport& r) const {
    std::string line;
    const auto add = [&](const char* format, double value) {
      if (std::isnan(value)) return;
      char text[64];
      line.append(text, static_cast<size_t>(std::snprintf(text, sizeof text, format, value)));
    };
    add("step %.0f", static_cast<double>(r.step));
    add("/%.0f", static_cast<double>(options_.steps));
    add("  loss %.4f", r.train_loss);
    add("  validation %.4f", r.validation_loss);
    add("  norm %.2f", r.gradient_norm);
    add("  lr %.2e", r.lr);
    add("  %.0f tokens/s", r.tokens_per_second);
    add(" (%.1f %% of the peak)", 100 * r.share_of_peak);
    add("  %.2f GB", r.peak_bytes * 1e-9);
    return line;
  }
  static JsonObject to_json(const TrainingReport& r) {
    JsonObject json;
    json.add("step", r.step).add("tokens", r.tokens).add("lr", r.lr).add("train_loss", r.train_loss);
    json.add("validation_loss", r.validation_loss).add("gradient_norm", r.gradient_norm);
    json.add("tokens_per_second", r.tokens_per_second).add("share_of_peak", r.share_of_peak);
    return json.add("peak_bytes", r.peak_bytes);
  }

  LanguageModel& model_;
  Optimizer& optimizer_;
  BatchSource& source_;
  LanguageModelTrainerOptions options_;
  Progress progress_;
  GradientSum sums_;
  RunState run_;  // samples, loss_sum: of the batches since the last report
  Tensor norm_;   // of the last step's gradients, before clipping
  int64_t tokens_ = 0, tokens_of_batch_ = 0;
  std::chrono::steady_clock::time_point start_{};
};

}  // namespace tinytorch::inline TT_BUILD

#include <tasks/transformer/language_model_trainer.hpp>
