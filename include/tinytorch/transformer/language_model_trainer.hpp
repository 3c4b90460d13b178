// LanguageModelTrainer: the training loop of a language model, whose length is a number of steps.
//
//   RandomWindows windows(train_file, {.batch_size = 32, .length = 1024});
//   LanguageModelTrainer trainer(model, optimizer, windows, {.steps = 5000, .schedule = cosine(...)});
//   trainer.fit(&validation_windows);
//
// A step sets the rate, runs `accumulate` batches forward and backward, sums their gradients
// (gradient_sum.hpp), clips, and updates. On a CUDA device this work is captured once as CUDA graphs and
// replayed on fixed input tensors; the loss is summed on the device, and the host reads it once per report.
// With a checkpoint path, a run can stop between any two steps, and resume() continues it with bit-identical
// results.
#pragma once

#include <sys/resource.h>

#include <tinytorch/backend/cuda/runtime/graph.hpp>
#include <tinytorch/layers/gradient_sum.hpp>
#include <tinytorch/layers/trainer.hpp>
#include <tinytorch/transformer/language_model.hpp>

namespace tinytorch::inline TT_BUILD {

// FLOPs of forward and backward per token: 6 per parameter, and 6 T C per layer for the two products of
// causal attention, in which a query sees half of the T keys on average.
// Source: Chowdhery et al., "PaLM", 2022, appendix B; halved for the causal mask.
inline double training_flops_per_token(int64_t parameters, int64_t layers, int64_t T, int64_t C) {
  return 6 * (static_cast<double>(parameters) + static_cast<double>(layers * T) * static_cast<double>(C));
}

// The peak number of bytes of the whole program so far: reserved on a CUDA device, or resident in memory for
// the CPU.
inline double peak_memory(Device device) {
  if (device.is_cuda()) return static_cast<double>(backend::cuda::memory_stats(device.index).peak_reserved);
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024;
}

struct TrainingReport {
  int64_t step = 0;                       // optimizer steps so far
  int64_t tokens = 0;                     // training tokens so far
  double lr = 0;                          // rate of the last step
  double train_loss = 0;                  // mean since the previous report
  double validation_loss = kNotMeasured;  // measured at steps that evaluate
  double gradient_norm = kNotMeasured;    // before clipping, at the last step
  double tokens_per_second = 0;           // rate of training without evaluation, since the previous report
  double share_of_peak = kNotMeasured;    // fraction of options.peak_flops
  double peak_bytes = 0;
};

struct LanguageModelTrainerOptions {
  int64_t steps = 1000;                        // total number of steps
  Schedule schedule{};                         // rate by step; if empty, the optimizer's rate is kept
  int64_t accumulate = 1;                      // batches per step
  double clip_norm = 1;                        // largest gradient norm; 0: no clipping
  int64_t report_every = 10;                   // steps between reports, each of which waits for the device
  int64_t evaluate_every = 0;                  // steps; 0: after the last
  int64_t evaluate_batches = 20;               // batches of the validation data, always the first ones
  double flops_per_token = 0, peak_flops = 0;  // for share_of_peak; 0: unknown
  bool graphs = true;                          // on a CUDA device: capture steps as graphs and replay them
  std::string log_path{};                      // JSON lines, one per report
  std::string checkpoint_path{};               // written after the last step too
  int64_t checkpoint_every = 0;                // steps; 0: after the last
  std::FILE* progress = stdout;                // null: silent
};

// The mean loss over all targets other than -100 in the first `batches` batches of a source, in evaluation
// mode without a graph. NaN if there are no such targets.
inline double mean_loss(LanguageModel& model, BatchSource& source, int64_t batches) {
  const NoGrad no_grad;
  const bool was_training = model.training();
  const Device device = model.device();
  model.eval();
  source.set_state({});
  double total = 0, tokens = 0;
  for (int64_t i = 0; i < batches; ++i) {
    const std::optional<Batch> loaded = source.next();
    if (!loaded) break;
    const Batch batch = loaded->to(device);
    const auto count =
        static_cast<double>(sum(ne(loaded->targets, full({}, -100, i64, cpu))).item<int64_t>());
    if (count == 0) continue;
    total += model.loss(batch.inputs, batch.targets).item<double>() * count;
    tokens += count;
  }
  model.train(was_training);
  return total / tokens;
}

class LanguageModelTrainer {
 public:
  // Throws TT-TRAIN-01 for invalid options, and TT-IO-02 if the checkpoint could not be written.
  LanguageModelTrainer(LanguageModel& model, Optimizer& optimizer, BatchSource& source,
                       LanguageModelTrainerOptions options = {}, TT_LOC)
      : model_(model),
        optimizer_(optimizer),
        source_(source),
        options_(std::move(options)),
        progress_(options_.progress),
        device_(model.device()),
        loss_sum_(zeros(Shape{}, f64, device_, loc)),
        norm_(full(Shape{}, kNotMeasured, f64, device_, loc)) {
    if (options_.steps < 0 || options_.accumulate < 1 || options_.report_every < 1) {
      fail("TT-TRAIN-01", "LanguageModelTrainer: needs steps >= 0, accumulate and report_every >= 1", loc);
    }
    if (!options_.checkpoint_path.empty()) require_writable(options_.checkpoint_path, loc);
    if (options_.accumulate > 1) sums_.emplace(optimizer_.parameters(), loc);
  }
  LanguageModelTrainer(const LanguageModelTrainer&) = delete;
  LanguageModelTrainer& operator=(const LanguageModelTrainer&) = delete;
  // The memory of gradients may belong to the graphs, which are destroyed with this object.
  ~LanguageModelTrainer() { optimizer_.zero_grad(); }

  // Trains until options.steps steps are complete in total. `validation` is evaluated by mean_loss(). The
  // checkpoint of a step is written before the evaluation and the log, which may fail. Throws TT-IO-02 if the
  // log or the checkpoint cannot be written, TT-TRAIN-02 if the loss is not finite, and TT-TRAIN-03 for an
  // empty source or batches of different shapes.
  std::vector<TrainingReport> fit(BatchSource* validation = nullptr) {
    JsonLines log(options_.log_path);
    std::vector<TrainingReport> reports;
    model_.train();
    start_clock();
    while (run_.step < options_.steps) {
      const double lr = options_.schedule ? options_.schedule(run_.step) : optimizer_.lr();
      optimizer_.set_lr(lr);
      step();
      const bool last = run_.step == options_.steps,
                 evaluates = validation && (last || due(options_.evaluate_every));
      const bool reported = last || evaluates || due(options_.report_every);
      if (reported)
        reports.push_back(
            report(lr));  // throws if the loss is not finite, so that no checkpoint is overwritten
      if (!options_.checkpoint_path.empty() && (last || due(options_.checkpoint_every))) {
        save(options_.checkpoint_path);
      }
      if (reported) {
        finish(reports.back(), evaluates ? validation : nullptr, log);
      } else {
        progress_.update(run_.step, options_.steps, "");
      }
    }
    return reports;
  }

  int64_t steps() const { return run_.step; }
  void save(const std::string& path) {
    run_.loader = source_.state();
    run_.random = default_generator().state();
    run_.loss_sum = loss_sum_.item<double>();
    save_checkpoint(path, model_, optimizer_, source_, run_);
  }
  // Continues from a checkpoint. The lines of steps that will be repeated are removed from the log
  // (drop_lines_after).
  void resume(const std::string& path, TT_LOC) {
    run_ = load_checkpoint(path, model_, optimizer_, source_, loc);
    const std::string said = drop_lines_after(options_.log_path, run_.step, loc);
    if (!said.empty()) progress_.line(said);
    loss_sum_.fill_(run_.loss_sum, loc);
  }

 private:
  // Work that runs directly the first time, which initializes everything that is created at first use, is
  // captured the second time, and is replayed from then on.
  class Repeated {
   public:
    template <class Work>
    void run(bool captures, Device device, Work&& work) {
      if (!captures || calls_++ == 0) return work();
      if (!graph_) {
        backend::cuda::release_cached(device.index);  // the graph reserves its own memory
        graph_ = std::make_unique<backend::cuda::Graph>(device.index);
        graph_->capture(work);
      }
      graph_->replay();
    }

   private:
    int64_t calls_ = 0;
    std::unique_ptr<backend::cuda::Graph> graph_;
  };

  bool due(int64_t every) const { return every > 0 && run_.step % every == 0; }

  void step() {
    const bool captures = options_.graphs && device_.is_cuda();
    for (int64_t i = 0; i < options_.accumulate; ++i) {
      load_batch();
      optimizer_.zero_grad();  // outside of the capture, which would keep the freed memory
      batch_work_.run(captures, device_, [this] {
        add_gradients();
        if (!sums_) update();
      });
      run_.samples += 1;
      tokens_ += inputs_.numel();
    }
    if (sums_) update_work_.run(captures, device_, [this] { update(); });
    run_.step += 1;
  }
  // On a CUDA device the batch is copied into the same tensors each time, because replays read those.
  void load_batch() {
    std::optional<Batch> batch = source_.next();
    if (!batch) batch = source_.next();  // first batch of the next epoch
    if (!batch) fail("TT-TRAIN-03", "LanguageModelTrainer: the source of batches is empty");
    if (inputs_.defined() && !(batch->inputs.shape() == inputs_.shape())) {
      fail("TT-TRAIN-03", "LanguageModelTrainer: batches must have one shape, " + inputs_.shape().str() +
                              ", got " + batch->inputs.describe() + "\n  hint: train on RandomWindows");
    }
    if (!device_.is_cuda() || !inputs_.defined()) {
      const Batch near = batch->to(device_);
      inputs_ = near.inputs, targets_ = near.targets;
    } else {
      inputs_.copy_(batch->inputs), targets_.copy_(batch->targets);
    }
  }
  void add_gradients() {
    const Tensor loss = model_.loss(inputs_, targets_);
    (sums_ ? loss * (1.0 / static_cast<double>(options_.accumulate)) : loss).backward();
    if (sums_) sums_->add();
    const NoGrad no_grad;
    loss_sum_.add_(loss.detach().to(f64));
  }
  void update() {
    if (sums_) sums_->give();
    if (options_.clip_norm > 0) {
      norm_.copy_(optimizer_.step_clipped(options_.clip_norm));
    } else {
      optimizer_.step();
    }
    if (sums_) sums_->clear();
  }

  void start_clock() { start_ = std::chrono::steady_clock::now(), tokens_ = 0; }
  // Reports the steps since the last report. Throws TT-TRAIN-02 if their loss is not finite.
  TrainingReport report(double lr) {
    TrainingReport r;
    r.train_loss = loss_sum_.item<double>() / static_cast<double>(run_.samples);  // waits for the device
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start_;
    if (!std::isfinite(r.train_loss)) {
      fail("TT-TRAIN-02", "the loss is " + std::to_string(r.train_loss) + " at step " +
                              std::to_string(run_.step) +
                              "\n  hint: lower the learning rate, warm it up, or set clip_norm");
    }
    r.step = run_.step, r.lr = lr;
    r.tokens = run_.step * options_.accumulate * inputs_.numel();
    r.gradient_norm = norm_.item<double>();
    r.tokens_per_second = static_cast<double>(tokens_) / seconds.count();
    if (options_.flops_per_token > 0 && options_.peak_flops > 0) {
      r.share_of_peak = r.tokens_per_second * options_.flops_per_token / options_.peak_flops;
    }
    run_.samples = 0;
    loss_sum_.fill_(0);
    return r;
  }
  // Evaluates if there is validation data, shows the report and logs it.
  void finish(TrainingReport& r, BatchSource* validation, JsonLines& log) {
    if (validation) r.validation_loss = mean_loss(model_, *validation, options_.evaluate_batches);
    r.peak_bytes = peak_memory(device_);
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
  Device device_;
  RunState run_;            // run_.samples: number of batches since the last report
  Tensor loss_sum_, norm_;  // f64 on the device; the sum of the losses of these batches
  Tensor inputs_, targets_;
  std::optional<GradientSum> sums_;
  Repeated batch_work_, update_work_;
  int64_t tokens_ = 0;
  std::chrono::steady_clock::time_point start_{};
};

}  // namespace tinytorch::inline TT_BUILD
