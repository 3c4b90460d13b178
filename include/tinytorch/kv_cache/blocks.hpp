// BlockPool: counts who uses the pages of a cache. A page is free, held by one or more sequences, or cached:
// no sequence holds it, but a prefix cache (prefix.hpp) keeps it for the next text that begins alike.
//
// Invariant: free + held + cached = total, after every call. A call that fails changes nothing. The pool has
// no memory: PagedCache (paged.hpp) has one plane of pages per layer, and a page has the same number in all
// of them.
#pragma once

#include <cstdint>
#include <string>
#include <tinytorch/core/error.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD {

class BlockPool {
 public:
  explicit BlockPool(int64_t pages, TT_LOC) {
    if (pages < 1 || pages > INT32_MAX) {
      fail("TT-KV-01", "a pool needs 1 to 2^31 - 1 pages, got " + std::to_string(pages), loc);
    }
    holders_.assign(static_cast<size_t>(pages), 0);
    kept_.assign(static_cast<size_t>(pages), false);
    for (int64_t p = pages; p-- > 0;) free_.push_back(static_cast<int32_t>(p));
  }

  int64_t total() const { return std::ssize(holders_); }
  int64_t free() const { return std::ssize(free_); }
  int64_t cached() const { return cached_; }
  int64_t held() const { return total() - free() - cached(); }
  // The sequences that hold a page, and the prefix cache if it keeps it.
  int64_t holders(int32_t page) const { return holders_.at(static_cast<size_t>(page)); }

  // A free page, held once. The page that was freed last comes first: it may still be in a processor's cache.
  // Throws TT-KV-06 if there is none.
  int32_t take(TT_LOC) {
    if (free_.empty()) {
      fail("TT-KV-06",
           "all " + std::to_string(total()) +
               " pages of the cache are in use\n  hint: a larger pool, or wait until a sequence ends",
           loc);
    }
    const int32_t page = free_.back();
    free_.pop_back();
    holders_[static_cast<size_t>(page)] = 1;
    return page;
  }
  // One more sequence holds a page that is in use or cached.
  void share(int32_t page, TT_LOC) {
    if (++count(page, "share", loc) == 2 && kept(page)) --cached_;
  }
  // One holder less; the page is free when the last one has given it up, or cached if it is kept.
  void give_back(int32_t page, TT_LOC) {
    int64_t& holders = count(page, "give back", loc);
    if (kept(page) && holders == 1) refuse(page, "give back", "no sequence holds it", loc);
    if (--holders == 0) free_.push_back(page);
    if (kept(page) && holders == 1) ++cached_;
  }
  // The prefix cache keeps a page that a sequence holds, until drop(). Throws TT-KV-07 if it keeps it
  // already.
  void keep(int32_t page, TT_LOC) {
    int64_t& holders = count(page, "keep", loc);
    if (kept(page)) refuse(page, "keep", "it is kept already", loc);
    ++holders, kept_[static_cast<size_t>(page)] = true;
  }
  void drop(int32_t page, TT_LOC) {
    int64_t& holders = count(page, "drop", loc);
    if (!kept(page)) refuse(page, "drop", "it is not kept", loc);
    kept_[static_cast<size_t>(page)] = false;
    if (--holders == 0) --cached_, free_.push_back(page);
  }
  bool kept(int32_t page) const { return kept_.at(static_cast<size_t>(page)); }

 private:
  int64_t& count(int32_t page, const char* what, Loc loc) {
    const bool exists = page >= 0 && page < total();
    if (exists && holders_[static_cast<size_t>(page)] > 0) return holders_[static_cast<size_t>(page)];
    refuse(page, what, exists ? "nobody holds it" : "the pool has no such page", loc);
  }
  [[noreturn]] static void refuse(int32_t page, const char* what, const char* why, Loc loc) {
    fail("TT-KV-07", std::string("cannot ") + what + " page " + std::to_string(page) + ": " + why, loc);
  }

  std::vector<int64_t> holders_;  // of each page
  std::vector<bool> kept_;
  std::vector<int32_t> free_;
  int64_t cached_ = 0;  // pages whose only holder is the prefix cache
};

}  // namespace tinytorch::inline TT_BUILD
