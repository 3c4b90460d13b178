// A cache of pages. A submission's page has a revision and is rendered again when that changes. Pages that
// depend on many entries expire by age; while one visitor renders such a page, the others get the old one.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace tinymlperf::board {

template <class Page>
class PageCache {
 public:
  using Clock = std::chrono::steady_clock;

  // Without an age only pages with a revision are kept.
  explicit PageCache(std::chrono::milliseconds age) : age_(age) {}

  // The page of this key, which `form` renders. With an empty `revision` it expires by age.
  template <class Form>
  std::shared_ptr<const Page> get(const std::string& key, const std::string& revision, const Form& form) {
    const auto [kept, old] = find(key);
    if (is_good(old, revision)) return old.page;
    std::unique_lock forming(kept->forming, std::defer_lock);
    const bool may_be_old = revision.empty() && age_.count() > 0 && old.page;
    if (!may_be_old)
      forming.lock();
    else if (!forming.try_lock())
      return old.page;
    if (const Kept now = find(key).second; is_good(now, revision))
      return now.page;  // another thread rendered it
    Kept made{std::make_shared<const Page>(form()), revision, Clock::now()};
    const std::lock_guard lock(mutex_);
    kept->now = made;
    return made.page;
  }

 private:
  static constexpr size_t kMost = 256;  // the most pages; then all are dropped
  struct Kept {
    std::shared_ptr<const Page> page;
    std::string revision;
    Clock::time_point formed;
  };
  struct Place {
    std::mutex forming;
    Kept now;  // under mutex_
  };

  bool is_good(const Kept& k, const std::string& revision) const {
    return k.page && k.revision == revision && (!revision.empty() || Clock::now() - k.formed < age_);
  }
  std::pair<std::shared_ptr<Place>, Kept> find(const std::string& key) {
    const std::lock_guard lock(mutex_);
    if (places_.size() >= kMost && !places_.contains(key)) places_.clear();
    std::shared_ptr<Place>& place = places_[key];
    if (!place) place = std::make_shared<Place>();
    return {place, place->now};
  }

  const std::chrono::milliseconds age_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Place>> places_;
};

}  // namespace tinymlperf::board
