// PrefixCache: a text that begins like an earlier one takes over the pages of the common beginning, and does
// not compute them again.
//
//   PagedCache cache(model.kv_shape(), {.sequences = 64, .capacity = 2048}, {.pages = 1024});
//   PrefixCache prefix(cache);                        // lives at most as long as the cache
//   const int64_t known = prefix.match(3, tokens);    // the empty sequence 3 now has `known` tokens
//   ... compute tokens[known ...] ...
//   prefix.keep(3, tokens);                           // its full pages serve later texts
//
// Only full pages of computed tokens are kept. They are found by a hash of all tokens up to their end, and
// their tokens are compared, so that a collision of hashes is no hit. When the pool has no free page, the
// page that was used longest ago goes, among those that no sequence holds and no longer kept prefix needs.
// Source: Kwon et al., 2023.
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

inline uint64_t PrefixCache::hash_of(int32_t parent, std::span<const int32_t> tokens,
                                     std::string_view salt) const {
  uint64_t before = 0;
  if (parent >= 0) before = at(parent).hash;
  for (const char c : parent >= 0 ? std::string_view() : salt)
    before = prefix::mix(before, static_cast<unsigned char>(c) + 1);
  return options_.hash(before, tokens);
}
// Equal tokens below an equal parent: by induction, all tokens of the text up to here are equal.
inline PrefixCache::Found PrefixCache::child(int32_t parent, uint64_t hash, std::span<const int32_t> tokens,
                                             std::string_view salt) const {
  Found out{-1, 0};
  const auto [first, last] = index_.equal_range(hash);
  for (auto i = first; i != last; ++i) {
    const Node& n = at(i->second);
    const bool equal =
        n.parent == parent && (parent >= 0 || n.salt == salt) && std::ranges::equal(n.tokens, tokens);
    if (equal) out.node = i->second;
    out.collisions += !equal;
  }
  return out;
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

// The nodes of the full pages of `tokens` that are kept, from the first on.
inline std::vector<int32_t> PrefixCache::chain(std::span<const int32_t> tokens, std::string_view salt,
                                               int64_t& collisions) const {
  std::vector<int32_t> nodes;
  const int64_t most = std::min((std::ssize(tokens) - 1), cache_.capacity()) / cache_.page();
  for (int32_t parent = -1; std::ssize(nodes) < most; parent = nodes.back()) {
    const std::span<const int32_t> page = page_of(tokens, std::ssize(nodes));
    const Found found = child(parent, hash_of(parent, page, salt), page, salt);
    collisions += found.collisions;
    if (found.node < 0) break;
    nodes.push_back(found.node);
  }
  return nodes;
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
inline int64_t PrefixCache::match(int64_t sequence, std::span<const int32_t> tokens, std::string_view salt,
                                  Loc loc) {
  if (cache_.length(sequence) > 0) {
    fail("TT-KV-03",
         "match: sequence " + std::to_string(sequence) + " already has tokens\n  hint: truncate(sequence, 0)",
         loc);
  }
  ++calls_;
  const std::vector<int32_t> nodes = chain(tokens, salt, counts_.collisions);
  for (const int32_t node : nodes) {
    touch(node);
    cache_.pool_.share(at(node).page, loc);
    cache_.tables_[static_cast<size_t>(sequence)].push_back(at(node).page);
  }
  const int64_t reused = std::ssize(nodes) * cache_.page();
  cache_.set_length(sequence, reused);
  ++(reused > 0 ? counts_.hits : counts_.misses);
  counts_.asked += std::ssize(tokens), counts_.reused += reused;
  return reused;
}

// A sequence that holds a kept page also holds the pages of the tokens before it: match() and fork() give
// whole beginnings, and a page enters here if the sequence holds it alone, below pages that it holds. So all
// cached pages can be evicted, leaf by leaf.
inline void PrefixCache::keep(int64_t sequence, std::span<const int32_t> tokens, std::string_view salt,
                              Loc loc) {
  ++calls_;
  std::vector<int32_t>& table = cache_.tables_.at(static_cast<size_t>(sequence));
  const int64_t full = std::min(cache_.length(sequence), std::ssize(tokens)) / cache_.page();
  int32_t parent = -1;
  for (int64_t i = 0; i < full; ++i) {
    const std::span<const int32_t> page = page_of(tokens, i);
    int32_t& own = table[static_cast<size_t>(i)];
    const uint64_t hash = hash_of(parent, page, salt);
    const Found found = child(parent, hash, page, salt);
    counts_.collisions += found.collisions;
    int32_t node = found.node;
    if (node < 0 || at(node).page != own) {
      if (cache_.pool_.kept(own)) return;  // it belongs to a text with another salt
      if (node < 0 && cache_.pool_.holders(own) > 1) return;
      if (node < 0) {
        node = add(parent, hash, own, page, salt, loc);
      } else {
        cache_.pool_.share(at(node).page, loc);
        cache_.pool_.give_back(own, loc);
        own = at(node).page, ++counts_.merged;
      }
    }
    touch(node);
    parent = node;
  }
}

// At most one leaf that is held belongs to each sequence, so the search is short.
inline bool PrefixCache::evict() {
  for (auto place = leaves_.begin(); place != leaves_.end(); ++place) {
    const int32_t leaf = place->second;
    Node& n = at(leaf);
    if (cache_.pool_.holders(n.page) > 1) continue;
    const auto [first, last] = index_.equal_range(n.hash);
    index_.erase(std::find_if(first, last, [&](const auto& entry) { return entry.second == leaf; }));
    if (n.parent >= 0 && --at(n.parent).children == 0) leaves_.emplace(at(n.parent).used, n.parent);
    cache_.pool_.drop(n.page);
    n = Node{};
    unused_.push_back(leaf);
    ++counts_.evicted;
    leaves_.erase(place);
    return true;
  }
  return false;
}
inline void PrefixCache::clear() {
  while (evict()) {
  }
}

}  // namespace tinytorch::inline TT_BUILD
