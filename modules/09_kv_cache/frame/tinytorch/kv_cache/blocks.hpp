// BlockPool: counts who uses the pages of a cache. A page is free, held by one or more sequences, or cached:
// no sequence holds it, but a prefix cache (prefix.hpp) keeps it for the next text that begins alike.
//
// The frame of a course header: it has the given parts, and includes the functions of task 9.6. It is cut
// from the library's header by modules/frames.py.
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

  int32_t take(TT_LOC);                  // task 9.6
  void share(int32_t page, TT_LOC);      // task 9.6
  void give_back(int32_t page, TT_LOC);  // task 9.6
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
  int64_t& count(int32_t page, const char* what, Loc loc);  // task 9.6
  [[noreturn]] static void refuse(int32_t page, const char* what, const char* why, Loc loc) {
    fail("TT-KV-07", std::string("cannot ") + what + " page " + std::to_string(page) + ": " + why, loc);
  }

  std::vector<int64_t> holders_;  // of each page
  std::vector<bool> kept_;
  std::vector<int32_t> free_;
  int64_t cached_ = 0;  // pages whose only holder is the prefix cache
};

}  // namespace tinytorch::inline TT_BUILD

#include <tasks/kv_cache/blocks.hpp>
