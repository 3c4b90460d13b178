// BatchSource: batches one after the other, from a place that can be kept and found again. What training
// loops and checkpoints know of DataLoader, RandomWindows and SequentialWindows.
#pragma once

#include <optional>
#include <string>
#include <tinytorch/tensor/tensor.hpp>

namespace tinytorch::inline TT_BUILD {

struct Batch {
  Tensor inputs;   // [B, ...]
  Tensor targets;  // [B, ...]
  Batch to(Device device) const { return {inputs.to(device), targets.to(device)}; }
};

// The next batch to be served.
struct LoaderState {
  int64_t epoch = 0, batch = 0;
  friend bool operator==(const LoaderState&, const LoaderState&) = default;
};

class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // The next batch, on the CPU; nothing at the end of an epoch, after which the next begins. A source without
  // epochs never ends.
  virtual std::optional<Batch> next() = 0;
  virtual LoaderState state() const = 0;
  // Fails for what is no position of this source.
  virtual void set_state(LoaderState state, TT_LOC) = 0;
  // What must be the same for batches to continue from a position: sizes, order, seed.
  virtual std::string signature() const = 0;

 protected:
  BatchSource() = default;
  BatchSource(const BatchSource&) = default;
  BatchSource& operator=(const BatchSource&) = default;
};

}  // namespace tinytorch::inline TT_BUILD
