#include <tinytorch/layers/data_loader.hpp>

#include <numeric>
#include <support/errors.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

namespace {

// inputs [n, 2] hold (i, 100 i); targets i64 [n] hold i.
struct Numbered {
  tt::Tensor inputs, targets;
  explicit Numbered(int64_t n) {
    std::vector<float> x;
    std::vector<int64_t> y(static_cast<size_t>(n));
    std::iota(y.begin(), y.end(), 0);
    for (int64_t i : y) x.push_back(static_cast<float>(i)), x.push_back(100.f * static_cast<float>(i));
    inputs = tt::from_data(x, {n, 2});
    targets = tt::from_data(y);
  }
};

// Returns the sample numbers of one epoch in the order served, and checks that inputs and targets match.
std::vector<int64_t> served(tt::DataLoader& loader) {
  std::vector<int64_t> all;
  for (const tt::Batch& batch : loader) {
    const auto x = batch.inputs.to_vector<int64_t>(), y = batch.targets.to_vector<int64_t>();
    for (size_t i = 0; i < y.size(); ++i) {
      REQUIRE(x[2 * i] == y[i]);
      REQUIRE(x[2 * i + 1] == 100 * y[i]);
      all.push_back(y[i]);
    }
  }
  return all;
}
std::vector<int64_t> sorted(std::vector<int64_t> v) {
  std::sort(v.begin(), v.end());
  return v;
}
std::vector<int64_t> numbers(int64_t n) {
  std::vector<int64_t> all(static_cast<size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace

TEST_CASE("an epoch serves every sample once, shuffled or not, with a last short batch") {
  const Numbered data(23);
  for (bool shuffle : {false, true}) {
    tt::DataLoader loader(data.inputs, data.targets, {.batch_size = 5, .shuffle = shuffle, .seed = 3});
    CHECK(loader.batches_per_epoch() == 5);
    const auto first = served(loader), second = served(loader);
    CHECK(sorted(first) == numbers(23));
    CHECK(sorted(second) == numbers(23));
    CHECK((first == numbers(23)) != shuffle);
    CHECK((first == second) != shuffle);
  }
}

TEST_CASE("drop_last drops a last batch that is not full") {
  const Numbered data(23);
  tt::DataLoader loader(data.inputs, data.targets, {.batch_size = 5, .drop_last = true});
  CHECK(loader.batches_per_epoch() == 4);
  CHECK(served(loader) == numbers(20));
}

TEST_CASE("the order does not depend on the number of workers, in any epoch") {
  const Numbered data(101);
  std::vector<std::vector<int64_t>> reference;
  for (int workers : {0, 1, 2, 5}) {
    for (int64_t ahead : {1, 7}) {
      tt::DataLoader loader(
          data.inputs, data.targets,
          {.batch_size = 4, .shuffle = true, .seed = 8, .workers = workers, .prefetch = ahead});
      const std::vector<std::vector<int64_t>> epochs{served(loader), served(loader), served(loader)};
      if (reference.empty()) reference = epochs;
      CHECK(epochs == reference);
    }
  }
}

TEST_CASE("the seed determines the order") {
  const Numbered data(50);
  tt::DataLoader a(data.inputs, data.targets, {.shuffle = true, .seed = 1});
  tt::DataLoader b(data.inputs, data.targets, {.shuffle = true, .seed = 2});
  CHECK(a.order(0) != b.order(0));
  CHECK(a.order(0) != a.order(1));
}

TEST_CASE("every order of three samples is equally likely") {
  const Numbered data(3);
  std::map<std::vector<int64_t>, int> counts;
  tt::DataLoader loader(data.inputs, data.targets, {.shuffle = true, .seed = 4});
  for (int64_t epoch = 0; epoch < 6000; ++epoch) counts[loader.order(epoch)] += 1;
  CHECK(counts.size() == 6);
  for (const auto& [order, count] : counts) CHECK(std::abs(count - 1000) < 120);  // 4 standard deviations
}

TEST_CASE("a restored position continues with exactly the remaining batches") {
  const Numbered data(40);
  for (int workers : {0, 2}) {
    const tt::DataLoaderOptions options{.batch_size = 4, .shuffle = true, .seed = 5, .workers = workers};
    tt::DataLoader whole(data.inputs, data.targets, options);
    served(whole);
    for (int i = 0; i < 3; ++i) whole.next();
    const tt::LoaderState position = whole.state();
    CHECK(position == tt::LoaderState{1, 3});
    const auto rest = served(whole);
    tt::DataLoader other(data.inputs, data.targets, options);
    other.set_state(position);
    CHECK(served(other) == rest);
    CHECK(rest.size() == 28);
    CHECK(other.state() == tt::LoaderState{2, 0});
  }
}

TEST_CASE("a loop that ended early continues where it stopped") {
  const Numbered data(12);
  tt::DataLoader loader(data.inputs, data.targets, {.batch_size = 4, .workers = 1});
  for (const tt::Batch& batch : loader) {
    CHECK(batch.targets.to_vector<int64_t>() == std::vector<int64_t>{0, 1, 2, 3});
    break;
  }
  CHECK(served(loader) == std::vector<int64_t>{4, 5, 6, 7, 8, 9, 10, 11});
}

TEST_CASE("augmentation depends on seed, epoch and sample, not on batch or worker") {
  const tt::Tensor images = tt::zeros({9, 1, 1, 1}), labels = tt::arange(0, 9);
  const tt::Augmentation stamp = [](tt::Image& image, tt::Generator& g) {
    image.values[0] = static_cast<float>(g.uniform());
  };
  const auto by_sample = [&](int64_t batch_size, bool shuffle, int workers, int64_t epoch) {
    tt::DataLoader loader(
        images, labels,
        {.batch_size = batch_size, .shuffle = shuffle, .seed = 6, .workers = workers, .augment = stamp});
    loader.set_state({epoch, 0});
    std::map<int64_t, float> seen;
    for (const tt::Batch& b : loader) {
      const auto x = b.inputs.to_vector();
      const auto y = b.targets.to_vector<int64_t>();
      for (size_t i = 0; i < y.size(); ++i) seen[y[i]] = x[i];
    }
    return seen;
  };
  const auto reference = by_sample(9, false, 0, 0);
  CHECK(reference.size() == 9);
  CHECK(by_sample(2, true, 3, 0) == reference);
  CHECK(by_sample(9, false, 0, 1) != reference);
  CHECK(tt::sum(images).item() == 0);  // the data itself is not changed
}

TEST_CASE("an exception in a worker is rethrown to the caller") {
  const tt::Tensor images = tt::zeros({4, 1, 2, 2}), labels = tt::arange(0, 4);
  tt::DataLoader loader(images, labels, {.batch_size = 2, .workers = 2, .augment = tt::random_crop(5, 5)});
  CHECK(message_of([&] { loader.next(); }).rfind("TT-DATA-10", 0) == 0);
}

TEST_CASE("the constructor throws for invalid data and options") {
  const tt::Tensor x = tt::zeros({4, 2}), y = tt::zeros({3});
  CHECK(message_of([&] { tt::DataLoader l(x, y); }).rfind("TT-DATA-11", 0) == 0);
  CHECK(message_of([&] { tt::DataLoader l(x, x, {.batch_size = 0}); }).rfind("TT-DATA-11", 0) == 0);
  CHECK(message_of([&] {
          tt::DataLoader l(x, x, {.batch_size = 5, .drop_last = true});
        }).rfind("TT-DATA-11", 0) == 0);
  CHECK(message_of([&] { tt::DataLoader l(x, x, {.augment = tt::random_flip()}); }).rfind("TT-DATA-11", 0) ==
        0);
  tt::DataLoader loader(x, x);
  CHECK(message_of([&] { loader.set_state({0, 2}); }).rfind("TT-DATA-13", 0) == 0);
}
