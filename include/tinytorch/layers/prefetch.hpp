// PrefetchQueue: worker threads compute make(first), make(first + 1), ... before the results are needed.
//
// The assignment of items to workers depends on timing. But an item depends on its number alone, and next()
// returns the items in order, so the consumer sees the same sequence for any number of workers.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include <tinytorch/core/config.hpp>

namespace tinytorch::inline TT_BUILD {

template <class Item>
class PrefetchQueue {
 public:
  // make must be thread-safe. At most `depth` items are computed ahead of their use.
  PrefetchQueue(int64_t first, int64_t end, int workers, int64_t depth, std::function<Item(int64_t)> make)
      : make_(std::move(make)),
        next_made_(first),
        next_used_(first),
        end_(end),
        depth_(depth < 1 ? 1 : depth) {
    for (int i = 0; i < workers; ++i) threads_.emplace_back([this] { work(); });
  }
  ~PrefetchQueue() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    for (std::thread& t : threads_) t.join();
  }
  PrefetchQueue(const PrefetchQueue&) = delete;
  PrefetchQueue& operator=(const PrefetchQueue&) = delete;

  // The next item in order. An exception that make threw for it is rethrown here. Call it only for numbers
  // below `end`.
  Item next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return ready_.count(next_used_) > 0; });
    Result result = std::move(ready_.extract(next_used_).mapped());
    ++next_used_;
    lock.unlock();
    changed_.notify_all();
    if (result.error) std::rethrow_exception(result.error);
    return std::move(result.item);
  }

 private:
  struct Result {
    Item item;
    std::exception_ptr error;
  };

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock,
                    [this] { return stopping_ || next_made_ >= end_ || next_made_ < next_used_ + depth_; });
      if (stopping_ || next_made_ >= end_) return;
      const int64_t number = next_made_++;
      lock.unlock();
      Result result;
      try {
        result.item = make_(number);
      } catch (...) {
        result.error = std::current_exception();
      }
      lock.lock();
      ready_.emplace(number, std::move(result));
      changed_.notify_all();
    }
  }

  std::function<Item(int64_t)> make_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int64_t, Result> ready_;
  int64_t next_made_, next_used_, end_, depth_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tinytorch::inline TT_BUILD
