// PagedCache: sequences take pages of a common pool as they grow, so that memory is as large as the texts
// are, not as large as they may become; only the last page of a sequence is partly empty.
//
// The frame of a course header: it has the given parts, and includes the functions of task 9.7. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <tinytorch/kv_cache/blocks.hpp>
#include <tinytorch/kv_cache/cache.hpp>

namespace tinytorch::inline TT_BUILD {

// Keeps pages that no sequence holds, and gives them up one by one when the pool has no free page
// (prefix.hpp).
class PageReserve {
 public:
  virtual ~PageReserve() = default;
  // Called if the pool has cached pages and no free one: makes one of them free.
  virtual void free_page() = 0;
};

struct PageOptions {
  int64_t pages = 0;  // of the pool
  int64_t page = 16;  // tokens of a page
};

class PagedCache : public KvCache {
 public:
  PagedCache(const KvShape& shape, const KvCacheOptions& options, const PageOptions& paging, TT_LOC)
      : KvCache(shape, options, loc), pool_(paging.pages, loc), page_(paging.page) {
    if (page_ < 1) fail("TT-KV-01", "a page needs at least one token, got " + std::to_string(page_), loc);
    add_layers(paging.pages, page_, loc);
    tables_.resize(static_cast<size_t>(options.sequences));
  }

  const BlockPool& pool() const { return pool_; }
  int64_t page() const { return page_; }
  // The pages of a sequence, in the order of its tokens.
  std::span<const int32_t> table(int64_t sequence) const { return tables_.at(static_cast<size_t>(sequence)); }

  void fork(int64_t from, int64_t to, TT_LOC);  // task 9.7

 protected:
  inline void make_room(std::span<const int64_t> lengths, Loc loc) override;  // task 9.7
  inline void shrink(int64_t sequence, int64_t length) override;              // task 9.7
  void fix_table(Loc loc) override {
    fixed_table_ = zeros({sequences(), ceil_div(capacity(), page_)}, DType::i32, options_.device, loc);
    step_.table = fixed_table_;
  }

 private:
  friend class PrefixCache;
  void require_pages(int64_t pages, Loc loc) const {
    const int64_t usable = pool_.free() + pool_.cached();
    if (pages <= usable) return;
    fail("TT-KV-06",
         "the step needs " + std::to_string(pages) + " pages, and of all " + std::to_string(pool_.total()) +
             " pages of the cache " + std::to_string(usable) +
             " are not in use\n  hint: a larger pool, or wait until a sequence ends",
         loc);
  }
  void copy_page(int32_t from, int32_t to) {
    for (const KvMemory& m : layers_) {
      for (const Tensor& plane : {m.keys, m.values, m.key_scales, m.value_scales}) {
        if (plane.defined()) plane.select(0, to).copy_(plane.select(0, from));
      }
    }
  }
  void write_tables(Loc loc);  // task 9.7

  BlockPool pool_;
  int64_t page_;
  std::vector<std::vector<int32_t>> tables_;
  Tensor fixed_table_;            // i32 [B, pages of capacity()], after fix_addresses()
  std::vector<int32_t> written_;  // its values
  PageReserve* reserve_ = nullptr;
};

}  // namespace tinytorch::inline TT_BUILD

#include <tasks/kv_cache/paged.hpp>
