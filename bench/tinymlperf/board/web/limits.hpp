// Limits for one visitor: requests a minute from an address, and simultaneous requests of a kind.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <map>
#include <mutex>
#include <string>

namespace tinymlperf::board {

// A token bucket for each address: it holds `a_minute` tokens and fills at that rate.
class RateLimit {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit RateLimit(int a_minute) : most_(a_minute) {}

  // Seconds until the address may ask again; 0: now, and this request was counted.
  int64_t take(const std::string& address, Time now = std::chrono::steady_clock::now()) {
    const std::lock_guard lock(mutex_);
    if (buckets_.size() >= kMostAddresses) forget_full(now);
    Bucket& b = buckets_.try_emplace(address, Bucket{most_, now}).first->second;
    b = {filled(b, now), now};
    if (b.tokens >= 1) return b.tokens -= 1, 0;
    return std::max<int64_t>(1, static_cast<int64_t>(std::ceil((1 - b.tokens) * 60 / most_)));
  }

 private:
  static constexpr size_t kMostAddresses = 4096;
  struct Bucket {
    double tokens;
    Time last;
  };
  double filled(const Bucket& b, Time now) const {
    return std::min(most_, b.tokens + std::chrono::duration<double>(now - b.last).count() * most_ / 60);
  }
  // A full bucket equals none. If no bucket is full, all are dropped, so that memory is bounded.
  void forget_full(Time now) {
    std::erase_if(buckets_, [&](const auto& entry) { return filled(entry.second, now) >= most_; });
    if (buckets_.size() >= kMostAddresses) buckets_.clear();
  }
  const double most_;
  std::mutex mutex_;
  std::map<std::string, Bucket> buckets_;
};

// Limits how many visitors have a place at once. A Place is held while it lives; a false one was not
// available.
class Places {
 public:
  explicit Places(int most) : free_(most) {}

  class Place {
   public:
    explicit Place(Places& of) : of_(&of) {
      if (of.free_.fetch_sub(1) <= 0) of.free_.fetch_add(1), of_ = nullptr;
    }
    ~Place() {
      if (of_) of_->free_.fetch_add(1);
    }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    explicit operator bool() const { return of_ != nullptr; }

   private:
    Places* of_;
  };

 private:
  std::atomic<int> free_;
};

}  // namespace tinymlperf::board
