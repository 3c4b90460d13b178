// BlockPool: counts who uses the pages of a cache. A page is free, or held by one or more sequences.
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
    for (int64_t p = pages; p-- > 0;) free_.push_back(static_cast<int32_t>(p));
  }

  int64_t total() const { return std::ssize(holders_); }
  int64_t free() const { return std::ssize(free_); }
  int64_t held() const { return total() - free(); }
  int64_t holders(int32_t page) const { return holders_.at(static_cast<size_t>(page)); }

  int32_t take(TT_LOC);                  // task 9.6
  void share(int32_t page, TT_LOC);      // task 9.6
  void give_back(int32_t page, TT_LOC);  // task 9.6

 private:
  int64_t& count(int32_t page, const char* what, Loc loc);  // task 9.6

  std::vector<int64_t> holders_;  // of each page
  std::vector<int32_t> free_;
};

}  // namespace tinytorch::inline TT_BUILD

#include <tasks/kv_cache/blocks.hpp>
