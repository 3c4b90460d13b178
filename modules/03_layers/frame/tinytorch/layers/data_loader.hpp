// DataLoader: batches of (inputs, targets) from tensors in memory, shuffled again in every epoch.
//
// The frame of a course header: it has the given parts, and includes the functions of task 3.15. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <cstring>
#include <memory>
#include <numeric>
#include <tinytorch/layers/augment.hpp>
#include <tinytorch/layers/batch_source.hpp>
#include <tinytorch/layers/prefetch.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace tinytorch::inline TT_BUILD {

struct DataLoaderOptions {
  int64_t batch_size = 32;
  bool shuffle = false;
  uint64_t seed = 0;
  bool drop_last = false;  // leave out the last batch if it is not full
  int workers = 0;         // threads that prepare batches ahead; 0: each batch is made when it is requested
  int64_t prefetch = 4;    // number of batches that are prepared ahead
  Augmentation augment{};  // for f32 inputs [N, C, H, W]; may change H and W, equally for all images
};

class DataLoader : public BatchSource {
 public:
  DataLoader(const Tensor& inputs, const Tensor& targets, DataLoaderOptions options = {}, TT_LOC);
  DataLoader(const DataLoader&) = delete;
  DataLoader& operator=(const DataLoader&) = delete;

  int64_t samples() const { return inputs_.size(0); }
  int64_t batches_per_epoch() const;                    // task 3.15
  int64_t size() const { return batches_per_epoch(); }  // as len(loader) in PyTorch
  const DataLoaderOptions& options() const { return options_; }

  inline std::optional<Batch> next() override;
  LoaderState state() const override { return state_; }
  inline void set_state(LoaderState state, TT_LOC) override;
  std::string signature() const override {
    const DataLoaderOptions& o = options_;
    return std::to_string(samples()) + " samples, batches of " + std::to_string(o.batch_size) +
           (o.drop_last ? ", last dropped" : "") + (o.shuffle ? ", shuffled" : "") + ", seed " +
           std::to_string(o.seed) + (o.augment ? ", augmented" : "");
  }

  // The sample numbers of epoch `epoch` in the order in which they are served.
  std::vector<int64_t> order(int64_t epoch) const;

  class Iterator {
   public:
    explicit Iterator(DataLoader* loader) : loader_(loader) { ++*this; }
    Iterator() = default;
    const Batch& operator*() const { return *batch_; }
    Iterator& operator++() {
      batch_ = loader_->next();
      return *this;
    }
    bool operator!=(const Iterator&) const { return batch_.has_value(); }

   private:
    DataLoader* loader_ = nullptr;
    std::optional<Batch> batch_;
  };
  // Iterates from the current position to the end of its epoch.
  Iterator begin() { return Iterator(this); }
  Iterator end() { return {}; }

 private:
  // The worker threads share it; it is read-only.
  struct Epoch {
    int64_t number;
    std::vector<int64_t> order;
  };
  Batch make_batch(const Epoch& epoch, int64_t number) const;
  Tensor augmented_rows(const Epoch& epoch, int64_t first, int64_t count) const;
  void start_epoch();

  Tensor inputs_, targets_;
  DataLoaderOptions options_;
  LoaderState state_;
  std::shared_ptr<const Epoch> epoch_;             // null before the first batch of the epoch is requested
  std::unique_ptr<PrefetchQueue<Batch>> workers_;  // last: threads end before their data is destroyed
};

// ---------------------------------------------------------------------------------------------------------

inline DataLoader::DataLoader(const Tensor& inputs, const Tensor& targets, DataLoaderOptions options, Loc loc)
    : inputs_(inputs.detach().contiguous(loc)),
      targets_(targets.detach().contiguous(loc)),
      options_(std::move(options)) {
  if (inputs.rank() < 1 || targets.rank() < 1 || inputs.size(0) != targets.size(0)) {
    fail("TT-DATA-11",
         "DataLoader: inputs " + inputs.describe() + " and targets " + targets.describe() +
             " must have the same first size: one row per sample",
         loc);
  }
  if (options_.batch_size < 1) fail("TT-DATA-11", "DataLoader: batch_size must be at least 1", loc);
  if (batches_per_epoch() == 0) {
    fail("TT-DATA-11",
         "DataLoader: " + std::to_string(samples()) + " samples give no batch of " +
             std::to_string(options_.batch_size) +
             "\n  hint: use a smaller batch_size or "
             "drop_last = false",
         loc);
  }
  if (!inputs.device().is_cpu() || !targets.device().is_cpu()) {
    fail("TT-DATA-11", "DataLoader: keep the data on the CPU and move each batch", loc);
  }
  if (options_.augment && (inputs.dtype() != DType::f32 || inputs.rank() != 4)) {
    fail("TT-DATA-11", "DataLoader: augmentation needs f32 images [N, C, H, W], got " + inputs.describe(),
         loc);
  }
}

inline Tensor copy_rows(const Tensor& from, const int64_t* rows, int64_t count);  // task 3.15

inline Tensor DataLoader::augmented_rows(const Epoch& epoch, int64_t first, int64_t count) const {
  const Image shape{inputs_.size(1), inputs_.size(2), inputs_.size(3), {}};
  const int64_t pixels = shape.channels * shape.height * shape.width;
  Tensor out;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t sample = epoch.order[static_cast<size_t>(first + i)];
    const PhiloxBlock r =
        philox(options_.seed, static_cast<uint64_t>(sample), 2 * static_cast<uint64_t>(epoch.number) + 1);
    Generator generator((uint64_t{r.v[0]} << 32) | r.v[1]);
    const float* pixel = inputs_.data<float>() + sample * pixels;
    Image image = shape;
    image.values.assign(pixel, pixel + pixels);
    options_.augment(image, generator);
    if (!out.defined()) out = empty({count, image.channels, image.height, image.width}, f32, cpu);
    if (static_cast<int64_t>(image.values.size()) * count != out.numel()) {
      fail("TT-DATA-12", "DataLoader: the augmentation gave images of different sizes in one batch");
    }
    std::copy(image.values.begin(), image.values.end(), out.data<float>() + i * (out.numel() / count));
  }
  return out;
}

inline void DataLoader::start_epoch() {
  epoch_ = std::make_shared<const Epoch>(Epoch{state_.epoch, order(state_.epoch)});
  if (options_.workers > 0) {
    workers_ = std::make_unique<PrefetchQueue<Batch>>(
        state_.batch, batches_per_epoch(), options_.workers, options_.prefetch,
        [this, epoch = epoch_](int64_t number) { return make_batch(*epoch, number); });
  }
}

inline void DataLoader::set_state(LoaderState state, Loc loc) {
  if (state.epoch < 0 || state.batch < 0 || state.batch > batches_per_epoch()) {
    fail("TT-DATA-13",
         "DataLoader: position epoch " + std::to_string(state.epoch) + ", batch " +
             std::to_string(state.batch) + " is outside an epoch of " + std::to_string(batches_per_epoch()) +
             " batches",
         loc);
  }
  workers_.reset();
  epoch_.reset();
  state_ = state;
}

}  // namespace tinytorch::inline TT_BUILD

#include <tasks/layers/data_loader.hpp>
