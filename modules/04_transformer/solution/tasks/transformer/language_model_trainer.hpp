// LanguageModelTrainer: the training loop of a language model, counted in steps.
//
//   RandomWindows windows(train_file, {.batch_size = 32, .length = 1024});
//   LanguageModelTrainer trainer(model, optimizer, windows, {.steps = 5000, .schedule = cosine(...)});
//   trainer.fit(&validation_windows);
//
// One step: `accumulate` batches forward and backward, their gradients added up (gradient_sum.hpp); clip; set
// the rate; update. With a checkpoint path a run can be stopped between steps and continued with resume().
//
// Task 4.14: mean_loss, LanguageModelTrainer::fit, LanguageModelTrainer::step. The given parts of this header
// are in modules/04_transformer/frame/tinytorch/transformer/language_model_trainer.hpp, which includes this
// file.
#pragma once

namespace tinytorch::inline TT_BUILD {

// Mean loss per target that counts over the first `batches` of a source (set_state({}) goes back to its
// start; next() gives nothing at its end), in evaluation mode and without a graph (NoGrad); afterwards the
// model's mode is what it was. A batch's loss is a mean: it weighs as much as it has counted_targets; a
// batch without any is passed over.
inline double mean_loss(LanguageModel& model, BatchSource& source, int64_t batches) {
  const NoGrad no_grad;
  const bool was_training = model.training();
  model.eval();
  source.set_state({});
  double total = 0, tokens = 0;
  for (int64_t i = 0; i < batches; ++i) {
    const std::optional<Batch> loaded = source.next();
    if (!loaded) break;
    const double count = counted_targets(loaded->targets);
    if (count == 0) continue;
    const Batch batch = loaded->to(model.device());
    total += model.loss(batch.inputs, batch.targets).item<double>() * count;
    tokens += count;
  }
  model.train(was_training);
  return total / tokens;
}

// Trains up to options_.steps steps in total, in training mode. Before each step the schedule, if there is
// one, sets the optimizer's rate by the number of steps done so far. After it, after_step(rate,
// validation, log, reports).
inline std::vector<TrainingReport> LanguageModelTrainer::fit(BatchSource* validation) {
  JsonLines log(options_.log_path);
  std::vector<TrainingReport> reports;
  model_.train();
  start_clock();
  while (run_.step < options_.steps) {
    if (options_.schedule) optimizer_.set_lr(options_.schedule(run_.step));
    step();
    after_step(optimizer_.lr(), validation, log, reports);
  }
  return reports;
}

// One step of the optimizer: options_.accumulate times, take a batch, make its loss, and the gradients of
// loss / accumulate, so that the step is that of one large batch; sums_.add() takes them from the
// parameters into the sums (whose precision does not suffer in 16 bits). Then sums_.give(); a step of the
// optimizer, clipped to options_.clip_norm where that is above 0 (norm_ is what step_clipped returns);
// sums_.clear(). Gradients that were there before must not count. Of each batch, note(loss); of each step,
// run_.step.
inline void LanguageModelTrainer::step() {
  optimizer_.zero_grad();
  for (int64_t i = 0; i < options_.accumulate; ++i) {
    const Batch batch = next_batch();
    const Tensor loss = model_.loss(batch.inputs, batch.targets);
    (loss * (1.0 / static_cast<double>(options_.accumulate))).backward();
    sums_.add();
    note(loss);
  }
  sums_.give();
  if (options_.clip_norm > 0) {
    norm_ = optimizer_.step_clipped(options_.clip_norm);
  } else {
    optimizer_.step();
  }
  sums_.clear();
  run_.step += 1;
}

}  // namespace tinytorch::inline TT_BUILD
