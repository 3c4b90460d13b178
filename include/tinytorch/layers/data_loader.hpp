// DataLoader: batches of (inputs, targets) from tensors in memory, shuffled again in every epoch.
//
//   tt::DataLoader loader(images, labels, {.batch_size = 64, .shuffle = true, .seed = 1});
//   for (const tt::Batch& batch : loader) ...          // one epoch; the next loop is the next epoch
//
// The order of epoch e is a function of (seed, e), and the augmentation of a sample is a function of (seed,
// e, sample). So a position is two numbers, and the batches depend neither on the number of workers nor on
// timing.
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
  // The number of full batches, plus one for the remaining samples unless drop_last is set.
  int64_t batches_per_epoch() const {
    const int64_t n = samples(), b = options_.batch_size;
    return options_.drop_last ? n / b : ceil_div(n, b);
  }
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

// The numbers 0 to samples() - 1. If shuffled, every order is equally likely, and the order is a function of
// the seed and the epoch alone: a Fisher-Yates shuffle with one Philox block per exchange, where the stream
// is 2 epoch.
inline std::vector<int64_t> DataLoader::order(int64_t epoch) const {
  std::vector<int64_t> samples_in_order(static_cast<size_t>(samples()));
  std::iota(samples_in_order.begin(), samples_in_order.end(), 0);
  if (!options_.shuffle) return samples_in_order;
  for (uint64_t i = samples_in_order.size(); i > 1; --i) {
    const PhiloxBlock r = philox(options_.seed, i, 2 * static_cast<uint64_t>(epoch));
    std::swap(samples_in_order[i - 1], samples_in_order[below_from_bits(r.v[0], r.v[1], i)]);
  }
  return samples_in_order;
}

// Gathers rows[0], rows[1], ... of a contiguous tensor of any dtype into a new tensor [count, ...]. Workers
// copy by memcpy, because a tensor op would start a team of threads in each worker.
inline Tensor copy_rows(const Tensor& from, const int64_t* rows, int64_t count) {
  Shape shape = from.shape();
  shape[0] = count;
  Tensor out = empty(shape, from.dtype(), cpu);
  const size_t row_bytes = from.size(0) > 0 ? from.bytes() / static_cast<size_t>(from.size(0)) : 0;
  const char* source = static_cast<const char*>(from.raw());
  char* target = static_cast<char*>(out.raw());
  for (int64_t i = 0; i < count && row_bytes > 0; ++i) {
    std::memcpy(target + static_cast<size_t>(i) * row_bytes,
                source + static_cast<size_t>(rows[i]) * row_bytes, row_bytes);
  }
  return out;
}

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

// Batch `number` of an epoch: the inputs and targets of its samples in the epoch's order. The last batch may
// be smaller.
inline Batch DataLoader::make_batch(const Epoch& epoch, int64_t number) const {
  const int64_t first = number * options_.batch_size;
  const int64_t count = std::min(options_.batch_size, samples() - first);
  const int64_t* rows = epoch.order.data() + first;
  Tensor inputs = options_.augment ? augmented_rows(epoch, first, count) : copy_rows(inputs_, rows, count);
  return {std::move(inputs), copy_rows(targets_, rows, count)};
}

inline void DataLoader::start_epoch() {
  epoch_ = std::make_shared<const Epoch>(Epoch{state_.epoch, order(state_.epoch)});
  if (options_.workers > 0) {
    workers_ = std::make_unique<PrefetchQueue<Batch>>(
        state_.batch, batches_per_epoch(), options_.workers, options_.prefetch,
        [this, epoch = epoch_](int64_t number) { return make_batch(*epoch, number); });
  }
}

// Returns the batch at state_ and advances state_. After the last batch it returns nullopt and moves to the
// next epoch by set_state, so that the order is computed again. An epoch is started when its first batch is
// requested.
inline std::optional<Batch> DataLoader::next() {
  if (state_.batch >= batches_per_epoch()) {
    set_state({state_.epoch + 1, 0});
    return std::nullopt;
  }
  if (!epoch_) start_epoch();
  Batch batch = workers_ ? workers_->next() : make_batch(*epoch_, state_.batch);
  state_.batch += 1;
  return batch;
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
