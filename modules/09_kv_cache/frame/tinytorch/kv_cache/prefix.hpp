// PrefixCache: a text that begins like an earlier one takes over the pages of the common beginning, and does
// not compute them again.
//
// The frame of a course header: it has the given parts, and includes the functions of task 9.8. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <tinytorch/kv_cache/paged.hpp>
#include <unordered_map>

namespace tinytorch::inline TT_BUILD {

struct PrefixOptions {
  // The hash of a page's tokens, given that of the tokens before them.
  std::function<uint64_t(uint64_t before, std::span<const int32_t> tokens)> hash{};
};

struct PrefixCounts {
  int64_t hits = 0, misses = 0;   // calls of match() that found at least one page, or none
  int64_t asked = 0, reused = 0;  // tokens of these calls, and those of them that were found
  int64_t kept = 0, evicted = 0;  // pages that entered, and that left
  int64_t merged = 0;             // pages that were given up because an equal one was there
  int64_t collisions = 0;         // pages with the hash that was looked for, but other tokens
};

// One prefix cache for one paged cache, and so for one model, dtype and size of pages. Texts with different
// salts never share a page: with the user's name as salt, nobody learns from the time to the first token what
// others have asked.
class PrefixCache : public PageReserve {
 public:
  explicit PrefixCache(PagedCache& cache, PrefixOptions options = {}, TT_LOC);
  inline ~PrefixCache() override;
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  // Gives the empty sequence the pages of the longest kept beginning of `tokens`, at most of all but the last
  // token, which has to be computed for its logits. Returns their number of tokens. Throws TT-KV-03 if the
  // sequence has tokens.
  int64_t match(int64_t sequence, std::span<const int32_t> tokens, std::string_view salt = {}, TT_LOC);
  // Returns what match() would return, and changes nothing.
  int64_t find(std::span<const int32_t> tokens, std::string_view salt = {}) const;
  // Pages that match() would take and that no sequence holds.
  int64_t cached_pages_of(std::span<const int32_t> tokens, std::string_view salt = {}) const;
  // Keeps the full pages of a sequence that begins with `tokens`; tokens that are not computed yet do not
  // count. A page of which an equal one is kept is exchanged for that, so that the memory is needed once. A
  // page that several sequences hold enters when one of them holds it alone.
  void keep(int64_t sequence, std::span<const int32_t> tokens, std::string_view salt = {}, TT_LOC);
  // Evicts all pages that no sequence holds.
  void clear();

  int64_t pages() const { return std::ssize(nodes_) - std::ssize(unused_); }  // kept ones
  const PrefixCounts& counts() const { return counts_; }
  void free_page() override { evict(); }

 private:
  // A page and the place of its tokens in the tree of texts.
  struct Node {
    int32_t page = -1, parent = -1;  // parent -1: the first page of a text
    int64_t children = 0, used = 0;  // used: number of the last call that touched it
    uint64_t hash = 0;
    std::vector<int32_t> tokens{};
    std::string salt{};  // of a first page
  };
  struct Found {
    int32_t node;  // -1: none
    int64_t collisions;
  };

  Node& at(int32_t node) { return nodes_[static_cast<size_t>(node)]; }
  const Node& at(int32_t node) const { return nodes_[static_cast<size_t>(node)]; }
  std::span<const int32_t> page_of(std::span<const int32_t> tokens, int64_t i) const {
    return tokens.subspan(static_cast<size_t>(i * cache_.page()), static_cast<size_t>(cache_.page()));
  }
  uint64_t hash_of(int32_t parent, std::span<const int32_t> tokens, std::string_view salt) const;
  Found child(int32_t parent, uint64_t hash, std::span<const int32_t> tokens, std::string_view salt) const;
  int32_t add(int32_t parent, uint64_t hash, int32_t page, std::span<const int32_t> tokens,
              std::string_view salt, Loc loc);
  std::vector<int32_t> chain(std::span<const int32_t> tokens, std::string_view salt,
                             int64_t& collisions) const;
  void touch(int32_t node);
  bool evict();

  PagedCache& cache_;
  PrefixOptions options_;
  std::vector<Node> nodes_;
  std::vector<int32_t> unused_;                       // nodes without a page
  std::unordered_multimap<uint64_t, int32_t> index_;  // hash -> node
  std::set<std::pair<int64_t, int32_t>> leaves_;      // (used, node) of nodes without children
  int64_t calls_ = 0;
  PrefixCounts counts_;
};

namespace prefix {

inline uint64_t mix(uint64_t h, uint64_t x) {
  h = (h ^ x) * 0x9e3779b97f4a7c15;
  return h ^ (h >> 29);
}
inline uint64_t hash(uint64_t before, std::span<const int32_t> tokens) {
  for (const int32_t t : tokens) before = mix(before, static_cast<uint64_t>(t) + 1);
  return before;
}

}  // namespace prefix

inline PrefixCache::PrefixCache(PagedCache& cache, PrefixOptions options, Loc loc)
    : cache_(cache), options_(std::move(options)) {
  if (cache.reserve_) fail("TT-KV-01", "a paged cache can have one prefix cache", loc);
  if (!options_.hash) options_.hash = prefix::hash;
  cache.reserve_ = this;
}
inline PrefixCache::~PrefixCache() {
  for (const Node& n : nodes_)
    if (n.page >= 0) cache_.pool_.drop(n.page);
  cache_.reserve_ = nullptr;
}

inline int32_t PrefixCache::add(int32_t parent, uint64_t hash, int32_t page, std::span<const int32_t> tokens,
                                std::string_view salt, Loc loc) {
  cache_.pool_.keep(page, loc);
  if (unused_.empty()) {
    unused_.push_back(static_cast<int32_t>(nodes_.size()));
    nodes_.emplace_back();
  }
  const int32_t node = unused_.back();
  unused_.pop_back();
  at(node) = {.page = page, .parent = parent, .hash = hash, .tokens = {tokens.begin(), tokens.end()}};
  if (parent < 0) at(node).salt = salt;
  index_.emplace(hash, node);
  if (parent >= 0 && at(parent).children++ == 0) leaves_.erase({at(parent).used, parent});
  leaves_.emplace(at(node).used, node);
  ++counts_.kept;
  return node;
}
inline void PrefixCache::touch(int32_t node) {
  Node& n = at(node);
  if (n.children == 0) leaves_.erase({n.used, node}), leaves_.emplace(calls_, node);
  n.used = calls_;
}

inline int64_t PrefixCache::find(std::span<const int32_t> tokens, std::string_view salt) const {
  int64_t collisions = 0;
  return std::ssize(chain(tokens, salt, collisions)) * cache_.page();
}
inline int64_t PrefixCache::cached_pages_of(std::span<const int32_t> tokens, std::string_view salt) const {
  int64_t collisions = 0, cached = 0;
  for (const int32_t node : chain(tokens, salt, collisions))
    cached += cache_.pool_.holders(at(node).page) == 1;
  return cached;
}

inline void PrefixCache::clear() {
  while (evict()) {
  }
}

}  // namespace tinytorch::inline TT_BUILD

#include <tasks/kv_cache/prefix.hpp>
