// Pretraining of a language model on token files, by the recipe of GPT-2 reproductions: AdamW with weight
// decay on matrices only, a short warm-up and a cosine schedule, clipped gradients, training windows at
// random positions, evaluation on fixed windows.
//
//   const TokenFile train("train.bin", width), validation("val.bin", width);
//   pretrain(model, train, validation, {.steps = 5000, .folder = "run"});
//
// The folder, if given, holds checkpoint.safetensors and log.jsonl. With `resume`, the run in the folder
// continues with bit-identical results.
// Sources: Brown et al., "Language models are few-shot learners", 2020, appendix B; karpathy/nanoGPT.
#pragma once

#include <cstdio>
#include <tinytorch/layers/adam.hpp>
#include <tinytorch/transformer/language_model_trainer.hpp>
#include <tinytorch/transformer/token_data.hpp>

namespace tinytorch::inline TT_BUILD {

struct PretrainingOptions {
  int64_t batch = 32, length = 256;      // windows per batch, and tokens per window
  int64_t accumulate = 1;                // batches per step
  int64_t steps = 1000, stop_after = 0;  // stop_after > 0: stop at this step, to be resumed later
  int64_t warm_up = 100;
  double lr = 1e-3, lr_end = 1e-4;
  double beta1 = 0.9, beta2 = 0.95, weight_decay = 0.1, clip_norm = 1;
  uint64_t seed = 1;  // seed of the positions of the windows
  int64_t report_every = 10, evaluate_every = 250, evaluate_batches = 20, checkpoint_every = 1000;
  int64_t overlap = 0;                         // overlap of the evaluated windows (token_data.hpp)
  double flops_per_token = 0, peak_flops = 0;  // for the fraction of the peak; 0: unknown
  std::string folder{};                        // empty: nothing is saved
  bool resume = false;
  std::FILE* progress = stdout;
};

// Returns the reports of LanguageModelTrainer. The last one has a validation loss.
inline std::vector<TrainingReport> pretrain(LanguageModel& model, const TokenFile& train,
                                            const TokenFile& validation, const PretrainingOptions& o,
                                            TT_LOC) {
  if (o.resume && o.folder.empty()) {
    fail("TT-TRAIN-01", "pretrain: resume needs the folder of the run", loc);
  }
  AdamW optimizer(model.named_parameters(),
                  {.lr = o.lr, .beta1 = o.beta1, .beta2 = o.beta2, .weight_decay = o.weight_decay}, loc);
  optimizer.exclude_from_weight_decay([](const NamedTensor& p) { return p.tensor.rank() < 2; });
  RandomWindows windows(train, {.batch_size = o.batch, .length = o.length, .seed = o.seed}, loc);
  SequentialWindows held_out(validation, {.batch_size = o.batch, .length = o.length, .overlap = o.overlap},
                             loc);
  const auto in_folder = [&](const char* name) { return o.folder.empty() ? "" : o.folder + "/" + name; };
  const std::string log = in_folder("log.jsonl"), checkpoint = in_folder("checkpoint.safetensors");
  const int64_t warm_up = std::min(o.warm_up, o.steps - 1);
  LanguageModelTrainer trainer(model, optimizer, windows,
                               {.steps = o.stop_after > 0 ? std::min(o.steps, o.stop_after) : o.steps,
                                .schedule = cosine(o.lr, o.steps, warm_up, o.lr_end, loc),
                                .accumulate = o.accumulate,
                                .clip_norm = o.clip_norm,
                                .report_every = o.report_every,
                                .evaluate_every = o.evaluate_every,
                                .evaluate_batches = o.evaluate_batches,
                                .flops_per_token = o.flops_per_token,
                                .peak_flops = o.peak_flops,
                                .log_path = log,
                                .checkpoint_path = checkpoint,
                                .checkpoint_every = o.checkpoint_every,
                                .progress = o.progress},
                               loc);
  if (o.resume) {
    trainer.resume(checkpoint, loc);
  } else if (!log.empty()) {
    std::remove(log.c_str());  // the log of an earlier run
  }
  return trainer.fit(&held_out);
}

// Encodes a text into two token files, of which the validation file has the last tenth. The tokens are uint16
// if the vocabulary permits.
inline TokenWidth write_split(const std::string& train_path, const std::string& validation_path,
                              const Tokenizer& tokenizer, std::string_view text, TT_LOC) {
  const TokenWidth width = tokenizer.vocabulary() <= 65536 ? TokenWidth::u16 : TokenWidth::u32;
  const Tokens tokens = tokenizer.encode(text, loc);
  const size_t kept = tokens.size() - tokens.size() / 10;
  const auto write = [&](const std::string& path, std::span<const int32_t> part) {
    TokenWriter writer(path, width, loc);
    writer.append(part);
    writer.commit();
  };
  write(train_path, std::span(tokens).first(kept));
  write(validation_path, std::span(tokens).subspan(kept));
  return width;
}

}  // namespace tinytorch::inline TT_BUILD
