// The order in which a contender is asked for samples during a match: new samples and repeated ones are mixed
// at random in every turn, so that no order of samples tells a contender what a query is for.
//
// A contender that remembers its answers is faster only for repeated samples. Its times for both kinds, in
// the same turns, are compared (audit A13), so the queries of the audit are the measured ones.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <tinytorch/core/random.hpp>
#include <utility>
#include <vector>

namespace tinymlperf::judge {

class MixedStream {
 public:
  MixedStream(int64_t samples, uint64_t seed) : order_(static_cast<size_t>(samples)), random_(seed) {
    if (samples < 1) throw std::invalid_argument("a stream needs at least one sample");
    std::iota(order_.begin(), order_.end(), int64_t{0});
    for (size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[random_.below(i)]);
  }

  // Spreads new samples over the next `queries` queries, until `due` samples were asked in all.
  void spread(int64_t due, int64_t queries) {
    due_ = std::min(due, static_cast<int64_t>(order_.size())), queries_ = queries;
  }
  // From now on every query is new while samples are left, or again a mixture.
  void only_new(bool on) { only_new_ = on; }

  int64_t asked() const { return asked_; }
  // True if the last query held a sample that was never asked before.
  bool was_new() const { return was_new_; }

  // The next k samples, all different.
  std::vector<int64_t> next(int64_t k) {
    const auto all = static_cast<int64_t>(order_.size());
    if (k < 0 || k > all) throw std::invalid_argument("a query cannot ask for more samples than there are");
    was_new_ = asked_ < all && (asked_ < k || only_new_ || is_new_due(k));
    queries_ = std::max<int64_t>(queries_ - 1, 0);
    if (!was_new_ && static_cast<int64_t>(last_.size()) == k && random_.below(kSameAgain) == 0) return last_;
    const int64_t fresh = was_new_ ? std::min(k, all - asked_) : 0;
    last_ = repeated(k - fresh);
    for (int64_t i = 0; i < fresh; ++i) last_.push_back(order_[static_cast<size_t>(asked_ + i)]);
    asked_ += fresh;
    return last_;
  }

 private:
  // Among the repeated queries, one of so many is the query just before it once more.
  static constexpr uint64_t kSameAgain = 8;

  bool is_new_due(int64_t k) {
    if (due_ <= asked_) return false;
    const auto queries = static_cast<double>((due_ - asked_ + k - 1) / k);
    const double share = queries / static_cast<double>(std::max<int64_t>(queries_, 1));
    return random_.uniform(0, 1) < std::min(share, 0.5);
  }
  // Different samples of those that were asked; they move to the front.
  std::vector<int64_t> repeated(int64_t k) {
    std::vector<int64_t> out;
    for (int64_t i = 0; i < k; ++i) {
      const auto place = static_cast<size_t>(i) + random_.below(static_cast<uint64_t>(asked_ - i));
      std::swap(order_[static_cast<size_t>(i)], order_[place]);
      out.push_back(order_[static_cast<size_t>(i)]);
    }
    return out;
  }

  std::vector<int64_t> order_, last_;  // the first asked_ of order_ were asked
  int64_t asked_ = 0, due_ = 0, queries_ = 0;
  bool only_new_ = false, was_new_ = false;
  tinytorch::Generator random_;
};

}  // namespace tinymlperf::judge
