// The order in which a contender is asked for samples: all of them once in a random order, then again in
// another.
//
// No sample comes twice before all came once. So while the set lasts, a timed answer was never given before,
// and remembering answers gains nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <tinytorch/core/random.hpp>
#include <utility>
#include <vector>

namespace tinymlperf::judge {

class SampleStream {
 public:
  SampleStream(int64_t samples, uint64_t seed) : order_(static_cast<size_t>(samples)), random_(seed) {
    if (samples < 1) throw std::invalid_argument("a stream needs at least one sample");
    std::iota(order_.begin(), order_.end(), int64_t{0});
    shuffle();
  }

  // The next k samples, all different.
  std::vector<int64_t> next(int64_t k) {
    if (k < 0 || k > static_cast<int64_t>(order_.size()))
      throw std::invalid_argument("a query cannot ask for more samples than there are");
    std::vector<int64_t> chosen;
    while (static_cast<int64_t>(chosen.size()) < k) {
      if (next_ == order_.size()) {
        shuffle();
        // Samples that this query has already come last.
        std::stable_partition(order_.begin(), order_.end(), [&](int64_t s) {
          return std::find(chosen.begin(), chosen.end(), s) == chosen.end();
        });
      }
      chosen.push_back(order_[next_++]);
    }
    return chosen;
  }

 private:
  void shuffle() {
    for (size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[random_.below(i)]);
    next_ = 0;
  }

  std::vector<int64_t> order_;
  size_t next_ = 0;
  tinytorch::Generator random_;
};

}  // namespace tinymlperf::judge
