// BatchSource: a sequence of batches whose position can be saved and restored. It is the interface of
// DataLoader, RandomWindows and SequentialWindows that training loops and checkpoints use.
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

// The position of the next batch.
struct LoaderState {
  int64_t epoch = 0, batch = 0;
  friend bool operator==(const LoaderState&, const LoaderState&) = default;
};

class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // The next batch, on the CPU. At the end of an epoch it returns nullopt, and the call after that begins the
  // next epoch. A source without epochs never returns nullopt.
  virtual std::optional<Batch> next() = 0;
  virtual LoaderState state() const = 0;
  // Throws if `state` is not a position of this source.
  virtual void set_state(LoaderState state, TT_LOC) = 0;
  // A description of the sizes, order and seed. Batches can continue from a saved position only if it is
  // equal.
  virtual std::string signature() const = 0;

 protected:
  BatchSource() = default;
  BatchSource(const BatchSource&) = default;
  BatchSource& operator=(const BatchSource&) = default;
};

}  // namespace tinytorch::inline TT_BUILD
