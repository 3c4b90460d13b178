// A random selection of items that come one by one, each with the same chance to be in it (reservoir
// sampling; Vitter 1985).
#pragma once

#include <cstdint>
#include <span>
#include <tinytorch/core/random.hpp>
#include <utility>
#include <vector>

namespace tinymlperf {

template <class T>
class RandomSelection {
 public:
  RandomSelection(size_t most, uint64_t seed) : most_(most), random_(seed) {}

  void add(T item) {
    ++seen_;
    if (kept_.size() < most_) return kept_.push_back(std::move(item));
    if (const uint64_t at = random_.below(seen_); at < most_) kept_[at] = std::move(item);
  }
  std::span<const T> kept() const { return kept_; }
  tinytorch::Generator& random() { return random_; }  // for what else is drawn for each item

 private:
  size_t most_;
  uint64_t seen_ = 0;
  tinytorch::Generator random_;
  std::vector<T> kept_;
};

}  // namespace tinymlperf
