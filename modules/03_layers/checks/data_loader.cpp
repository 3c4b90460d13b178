#include <support/check.hpp>
#include <tinytorch/layers/data_loader.hpp>

using namespace course;

namespace {

using Order = std::vector<int64_t>;

// Inputs [n, 2] hold (i, 100 + i), targets [n] hold i.
struct Numbered {
  Tensor inputs, targets;
  explicit Numbered(int64_t n) {
    Numbers x;
    std::vector<int64_t> y;
    for (int64_t i = 0; i < n; ++i) {
      x.push_back(static_cast<double>(i));
      x.push_back(static_cast<double>(100 + i));
      y.push_back(i);
    }
    inputs = Tensor(from_data(x, {n, 2})).to(f32);
    targets = from_data(y, {n});
  }
};
// The sample numbers of a batch, after a check that its inputs belong to them.
Order samples_of(const Batch& batch) {
  const Order y = batch.targets.to_vector<int64_t>(), x = batch.inputs.to_vector<int64_t>();
  expect_equal("shape of a batch's inputs", batch.inputs.shape(), Shape{static_cast<int64_t>(y.size()), 2});
  for (size_t i = 0; i < y.size(); ++i) {
    expect_equal("input of the sample with target " + std::to_string(y[i]), Order{x[2 * i], x[2 * i + 1]},
                 Order{y[i], 100 + y[i]});
  }
  return y;
}
Order sorted(Order v) {
  std::sort(v.begin(), v.end());
  return v;
}
Order up_to(int64_t n) {
  Order v(static_cast<size_t>(n));
  std::iota(v.begin(), v.end(), 0);
  return v;
}
Order epoch_of(DataLoader& loader) {
  Order all;
  while (const std::optional<Batch> batch = loader.next()) {
    for (const int64_t i : samples_of(*batch)) all.push_back(i);
  }
  return all;
}

}  // namespace

TEST_CASE("3.15 batches in order, the last one with the remaining samples") {
  const Numbered data(7);
  DataLoader loader(data.inputs, data.targets, {.batch_size = 3});
  expect_equal("batches_per_epoch() of 7 samples, batch_size 3", loader.batches_per_epoch(), int64_t{3});
  for (const Order& want : {Order{0, 1, 2}, Order{3, 4, 5}, Order{6}}) {
    const std::optional<Batch> batch = loader.next();
    expect("next() returns the batch of samples " + shown(want), batch.has_value());
    expect_equal("samples of the next batch", samples_of(*batch), want);
  }
  expect("next() after the last batch returns nothing", !loader.next().has_value());
  expect("the call after that begins the next epoch", loader.next().has_value());
  expect_equal("state().epoch in the second epoch", loader.state().epoch, int64_t{1});
  expect_equal("state().batch after the first batch of the second epoch", loader.state().batch, int64_t{1});
}

TEST_CASE("3.15 how many batches") {
  const auto batches = [](int64_t n, int64_t size, bool drop) {
    const Numbered data(n);
    DataLoader loader(data.inputs, data.targets, {.batch_size = size, .drop_last = drop});
    expect_equal("samples served of " + std::to_string(n) + ", batch_size " + std::to_string(size) +
                     (drop ? ", drop_last" : ""),
                 epoch_of(loader), up_to(drop ? n / size * size : n));
    return loader.batches_per_epoch();
  };
  expect_equal("batches of 8 samples, batch_size 4", batches(8, 4, false), int64_t{2});
  expect_equal("batches of 9 samples, batch_size 4", batches(9, 4, false), int64_t{3});
  expect_equal("batches of 11 samples, batch_size 4, drop_last", batches(11, 4, true), int64_t{2});
  expect_equal("batches of 8 samples, batch_size 4, drop_last", batches(8, 4, true), int64_t{2});
  expect_equal("batches of 1 sample, batch_size 5", batches(1, 5, false), int64_t{1});
}

TEST_CASE("3.15 rows of any dtype and rank") {
  const int64_t rows[] = {2, 0, 2};
  for (const DType dtype : {f32, f64, bf16, i64, u8, boolean}) {
    const Tensor from = Tensor(from_data(Numbers{1, 0, 3, 4, 5, 0}, {3, 1, 2})).to(dtype);
    const Numbers all = from.to_vector<double>();
    const Tensor out = copy_rows(from, rows, 3);
    const std::string what = std::string("copy_rows of rows 2, 0, 2 from [3, 1, 2] in ") + name_of(dtype);
    expect_equal("shape of " + what, out.shape(), Shape{3, 1, 2});
    expect("dtype of " + what, out.dtype() == dtype);
    expect_close(what, out.to_vector<double>(), {all[4], all[5], all[0], all[1], all[4], all[5]}, {3, 1, 2},
                 {.roundings = 0});
  }
  expect_equal("copy_rows of 2 rows from [4]",
               copy_rows(from_data(Order{7, 8, 9, 10}, {4}), rows, 2).to_vector<int64_t>(), Order{9, 7});
}

TEST_CASE("3.15 shuffled: every sample once, each epoch in another order") {
  const Numbered data(23);
  DataLoader loader(data.inputs, data.targets, {.batch_size = 5, .shuffle = true, .seed = seed()});
  const Order first = epoch_of(loader), second = epoch_of(loader);
  expect_equal("samples of an epoch, sorted", sorted(first), up_to(23));
  expect_equal("samples of the next epoch, sorted", sorted(second), up_to(23));
  expect("the order is not 0, 1, 2 ...", first != up_to(23));
  expect("the second epoch has another order than the first", first != second);
  DataLoader same(data.inputs, data.targets, {.batch_size = 4, .shuffle = true, .seed = seed()});
  expect_equal("the order of epoch 0 from the same seed", epoch_of(same), first);
  DataLoader other(data.inputs, data.targets, {.batch_size = 5, .shuffle = true, .seed = seed() + 1});
  expect("another seed gives another order", epoch_of(other) != first);
}

TEST_CASE("3.15 every order is equally likely") {
  const Numbered data(4);
  DataLoader loader(data.inputs, data.targets, {.batch_size = 4, .shuffle = true, .seed = 5});
  std::map<Order, int> counts;
  constexpr int kEpochs = 2400;
  for (int64_t epoch = 0; epoch < kEpochs; ++epoch) counts[loader.order(epoch)] += 1;
  expect_equal("different orders of 4 samples in 2400 epochs", counts.size(), size_t{24});
  for (const auto& [order, count] : counts) {
    expect("the order " + shown(order) + " must come about 100 times in 2400 epochs, got " +
               std::to_string(count),
           count > 50 && count < 150, "exchange element i with an element from 0 to i, i itself included");
  }
}

TEST_CASE("3.15 a loader restored from a state continues with the same batches") {
  const Numbered data(23);
  const DataLoaderOptions options{.batch_size = 5, .shuffle = true, .seed = 8};
  DataLoader loader(data.inputs, data.targets, options);
  epoch_of(loader);
  for (int k = 0; k < 2; ++k) loader.next();
  const LoaderState stopped = loader.state();
  expect_equal("state().epoch after an epoch and two batches", stopped.epoch, int64_t{1});
  expect_equal("state().batch after an epoch and two batches", stopped.batch, int64_t{2});
  Order want = epoch_of(loader);
  for (const int64_t i : epoch_of(loader)) want.push_back(i);
  DataLoader again(data.inputs, data.targets, options);
  again.set_state(stopped);
  Order got = epoch_of(again);
  for (const int64_t i : epoch_of(again)) got.push_back(i);
  expect_equal("the rest of epoch 1 and epoch 2, from the state {1, 2} on", got, want);
}

TEST_CASE("3.15 worker threads do not change the batches") {
  const Numbered data(41);
  DataLoader plain(data.inputs, data.targets, {.batch_size = 4, .shuffle = true, .seed = 3});
  DataLoader ahead(data.inputs, data.targets, {.batch_size = 4, .shuffle = true, .seed = 3, .workers = 2});
  for (int epoch = 0; epoch < 2; ++epoch) {
    const Order want = epoch_of(plain);
    expect_equal("epoch " + std::to_string(epoch) + " with two workers", epoch_of(ahead), want);
  }
}
