// PagedCache: sequences take pages of a common pool as they grow, so that memory is as large as the texts
// are, not as large as they may become; only the last page of a sequence is partly empty.
//
//   PagedCache cache(model.kv_shape(), {.sequences = 64, .capacity = 2048}, {.pages = 1024, .page = 16});
//   cache.fork(0, 1);      // sequence 1 begins with the tokens of sequence 0, whose pages both hold
//
// A page that several sequences hold is never written: the first that appends to it copies it
// (copy-on-write). Source: Kwon et al., "Efficient memory management for large language model serving with
// PagedAttention", 2023.
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

  // Makes the empty sequence `to` a copy of `from` without copying a token. Throws TT-KV-03 if `to` has
  // tokens.
  void fork(int64_t from, int64_t to, TT_LOC) {
    if (length(to) > 0) {
      fail("TT-KV-03",
           "fork: sequence " + std::to_string(to) + " already has tokens\n  hint: truncate(to, 0)", loc);
    }
    for (const int32_t page : tables_.at(static_cast<size_t>(from))) {
      pool_.share(page, loc);
      tables_[static_cast<size_t>(to)].push_back(page);
    }
    set_length(to, length(from));
  }

 protected:
  // The pages that the step writes to: new ones, and copies of shared ones. They are counted before one is
  // taken, so that a step for which they do not suffice leaves the cache as it was.
  void make_room(std::span<const int64_t> lengths, Loc loc) override {
    struct Change {
      size_t sequence, place;  // place: in the table of the sequence
      int32_t copied;          // the shared page that the new one is a copy of, or -1
    };
    std::vector<Change> changes;
    for (size_t b = 0; b < tables_.size(); ++b) {
      const int64_t before = length(static_cast<int64_t>(b)), after = lengths[b];
      if (after == before) continue;
      const auto held = static_cast<int64_t>(tables_[b].size());
      for (int64_t place = before / page_; place < ceil_div(after, page_); ++place) {
        const int32_t old = place >= held ? -1 : tables_[b][static_cast<size_t>(place)];
        if (old < 0 || pool_.holders(old) > 1) changes.push_back({b, static_cast<size_t>(place), old});
      }
    }
    require_pages(std::ssize(changes), loc);
    for (const Change& c : changes) {
      if (pool_.free() == 0) reserve_->free_page();
      const int32_t page = pool_.take(loc);
      if (c.copied >= 0) copy_page(c.copied, page);
      if (c.copied >= 0) pool_.give_back(c.copied, loc);
      tables_[c.sequence].resize(std::max(tables_[c.sequence].size(), c.place + 1));
      tables_[c.sequence][c.place] = page;
    }
    write_tables(loc);
  }
  void shrink(int64_t sequence, int64_t length) override {
    auto& table = tables_[static_cast<size_t>(sequence)];
    while (static_cast<int64_t>(table.size()) > ceil_div(length, page_)) {
      pool_.give_back(table.back());
      table.pop_back();
    }
  }
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
  // The tables of all sequences as one tensor i32 [B, width], for the kernels.
  void write_tables(Loc loc) {
    size_t width = fixed_table_.defined() ? static_cast<size_t>(fixed_table_.size(1)) : 1;
    for (const auto& table : tables_) width = std::max(width, table.size());
    std::vector<int32_t> rows(tables_.size() * width, 0);
    for (size_t b = 0; b < tables_.size(); ++b)
      std::copy(tables_[b].begin(), tables_[b].end(), rows.begin() + static_cast<std::ptrdiff_t>(b * width));
    const Shape shape{sequences(), static_cast<int64_t>(width)};
    if (!fixed_table_.defined()) {
      step_.table = from_data(rows, shape, options_.device, loc);
    } else if (rows != written_) {
      fixed_table_.copy_(from_data(rows, shape, cpu, loc));
      written_ = std::move(rows);
    }
  }

  BlockPool pool_;
  int64_t page_;
  std::vector<std::vector<int32_t>> tables_;
  Tensor fixed_table_;            // i32 [B, pages of capacity()], after fix_addresses()
  std::vector<int32_t> written_;  // its values
  PageReserve* reserve_ = nullptr;
};

}  // namespace tinytorch::inline TT_BUILD
