// Checkpoint: the complete state of a training run in one safetensors file, so that the run can continue
// exactly.
//
// The frame of a course header: it has the given parts, and includes the functions of task 3.18. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <tinytorch/layers/batch_source.hpp>
#include <tinytorch/layers/optimizer.hpp>

namespace tinytorch::inline TT_BUILD {

// The state of a run without weights and optimizer.
struct RunState {
  int64_t step = 0;  // optimizer steps taken
  LoaderState loader;
  GeneratorState random;  // state of the default generator
  // Sums over the finished part of the epoch, or over the time since the last report.
  int64_t samples = 0;
  double loss_sum = 0, metric_sum = 0;
};

// Saves the model's state_dict under "model.", the optimizer's under "optimizer.", and metadata_of(loader,
// run).
TT_API void save_checkpoint(const std::string& path, const Module& model, const Optimizer& optimizer,
                            const BatchSource& loader, const RunState& run, TT_LOC);

// Restores the model, the optimizer, the loader position and the default generator, and returns the run's
// numbers. The model, optimizer and loader must be constructed as in the saved run. A difference throws an
// error that names it (require_fit, require_same_entries) before anything is changed.
TT_API RunState load_checkpoint(const std::string& path, Module& model, Optimizer& optimizer,
                                BatchSource& loader, TT_LOC);

}  // namespace tinytorch::inline TT_BUILD

#if TT_BODIES(LAYERS) || defined(TINYTORCH_TASK)

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <tinytorch/io/safetensors.hpp>

namespace tinytorch::inline TT_BUILD {

inline constexpr const char* kCheckpointFormat = "tinytorch-checkpoint-1";

namespace checkpoint {

TT_API std::string exact(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%a", value);
  return text;
}
TT_API const std::string& field(const Metadata& metadata, const std::string& key, const std::string& path,
                                Loc loc) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) {
    fail("TT-CKPT-01", path + ": not a training checkpoint: the field '" + key + "' is missing", loc);
  }
  return found->second;
}
// The whole text must be a number, so that a damaged field is an error and never reads as 0.
template <class T, class Parse>
T number(const Metadata& metadata, const std::string& key, const std::string& path, Loc loc, Parse parse) {
  const std::string& text = field(metadata, key, path, loc);
  char* end = nullptr;
  errno = 0;
  const T value = static_cast<T>(parse(text.c_str(), &end));
  const bool outside =
      std::is_integral_v<T> && errno == ERANGE;  // not for doubles: strtod sets ERANGE for subnormals too
  if (text.empty() || *end != '\0' || outside) {
    fail("TT-CKPT-01", path + ": the field '" + key + "' should be a number, found '" + text + "'", loc);
  }
  return value;
}
TT_API int64_t integer(const Metadata& m, const std::string& key, const std::string& path, Loc loc) {
  return number<int64_t>(m, key, path, loc,
                         [](const char* s, char** end) { return std::strtoll(s, end, 10); });
}
TT_API uint64_t natural(const Metadata& m, const std::string& key, const std::string& path, Loc loc) {
  return number<uint64_t>(m, key, path, loc,
                          [](const char* s, char** end) { return std::strtoull(s, end, 10); });
}
TT_API double real(const Metadata& m, const std::string& key, const std::string& path, Loc loc) {
  return number<double>(m, key, path, loc, [](const char* s, char** end) { return std::strtod(s, end); });
}

// The metadata holds all numbers of a run; run_of reads them back.
TT_API Metadata metadata_of(const BatchSource& loader, const RunState& run) {
  return {
      {"format", kCheckpointFormat},
      {"step", std::to_string(run.step)},
      {"loader", loader.signature()},
      {"loader.epoch", std::to_string(run.loader.epoch)},
      {"loader.batch", std::to_string(run.loader.batch)},
      {"random.seed", std::to_string(run.random.seed)},
      {"random.next_block", std::to_string(run.random.next_block)},
      {"epoch.samples", std::to_string(run.samples)},
      {"epoch.loss_sum", exact(run.loss_sum)},
      {"epoch.metric_sum", exact(run.metric_sum)},
  };
}
TT_API RunState run_of(const Metadata& m, const std::string& path, Loc loc) {
  RunState run;
  run.step = integer(m, "step", path, loc);
  run.loader = {integer(m, "loader.epoch", path, loc), integer(m, "loader.batch", path, loc)};
  run.random = {natural(m, "random.seed", path, loc), natural(m, "random.next_block", path, loc)};
  run.samples = integer(m, "epoch.samples", path, loc);
  run.loss_sum = real(m, "epoch.loss_sum", path, loc);
  run.metric_sum = real(m, "epoch.metric_sum", path, loc);
  return run;
}
// Throws TT-CKPT-01 if the file is not a checkpoint, and TT-CKPT-02 if its loader has other data or options.
TT_API void require_fit(const Metadata& m, const BatchSource& loader, const std::string& path, Loc loc) {
  const std::string format = field(m, "format", path, loc);
  if (format != kCheckpointFormat) {
    fail("TT-CKPT-01", path + ": expected the format " + kCheckpointFormat + ", found '" + format + "'", loc);
  }
  const std::string signature = field(m, "loader", path, loc);
  if (signature != loader.signature()) {
    fail("TT-CKPT-02",
         path + ": the data loader differs\n  saved: " + signature + "\n  here:  " + loader.signature() +
             "\n  hint: resume with the same data and options",
         loc);
  }
}
// Throws TT-CKPT-01 for a tensor that belongs neither to the model nor to the optimizer, which would be lost
// otherwise.
TT_API void require_known(const TensorMap& tensors, const std::string& path, Loc loc) {
  for (const auto& [name, tensor] : tensors) {
    if (name.starts_with("model.") || name.starts_with("optimizer.")) continue;
    fail("TT-CKPT-01",
         path + ": the tensor " + io::in_quotes(name) + " belongs neither to the model nor to the optimizer",
         loc);
  }
}
// The tensors whose names begin with `prefix`. The prefix is removed from the names.
TT_API StateDict entries_under(const TensorMap& tensors, const std::string& prefix) {
  StateDict found;
  for (const auto& [name, tensor] : tensors) {
    if (name.rfind(prefix, 0) == 0) found.emplace(name.substr(prefix.size()), tensor);
  }
  return found;
}

}  // namespace checkpoint

}  // namespace tinytorch::inline TT_BUILD

#include <tasks/layers/checkpoint.hpp>
#endif
