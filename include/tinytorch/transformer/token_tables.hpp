// The two hash tables of byte pair encoding, which are searched for every piece and every pair of tokens.
//
// Open addressing in one array that is at most half full: a lookup touches one or two cache lines, while
// std::unordered_map follows a pointer to the bucket and one to the node. Entries are never removed.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <tinytorch/core/config.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD {

// Two adjacent tokens that are merged into one.
struct BpeMerge {
  int32_t left, right;
  friend bool operator==(const BpeMerge&, const BpeMerge&) = default;
};

namespace bpe {

constexpr uint64_t mix(uint64_t x) {  // the finalizer of MurmurHash3
  x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdull;
  x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53ull;
  return x ^ (x >> 33);
}

// Hashes eight bytes at a time.
inline uint64_t hash_of(std::string_view bytes) {
  uint64_t hash = bytes.size();
  while (bytes.size() >= 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data(), 8);
    hash = mix(hash ^ word);
    bytes.remove_prefix(8);
  }
  uint64_t word = 0;
  std::memcpy(&word, bytes.data(), bytes.size());
  return mix(hash ^ word);
}

inline size_t table_size(size_t entries) { return std::bit_ceil(2 * entries + 2); }

// Maps pairs of tokens to ranks.
class PairRanks {
 public:
  static constexpr int32_t kNone = INT32_MAX;

  explicit PairRanks(size_t pairs) : slots_(table_size(pairs)) {}

  // Returns false if the pair is already there.
  bool insert(BpeMerge pair, int32_t rank) {
    Slot& slot = slots_[slot_of(pair)];
    if (slot.rank != kNone) return false;
    slot = {pair, rank};
    return true;
  }
  int32_t find(int32_t left, int32_t right) const { return slots_[slot_of({left, right})].rank; }

 private:
  struct Slot {
    BpeMerge pair{-1, -1};
    int32_t rank = kNone;
  };
  // The index of the slot of the pair, or of the free slot for it.
  size_t slot_of(BpeMerge pair) const {
    const uint64_t key = uint64_t{static_cast<uint32_t>(pair.left)} << 32 | static_cast<uint32_t>(pair.right);
    size_t at = mix(key) & (slots_.size() - 1);
    while (slots_[at].rank != kNone && slots_[at].pair != pair) at = (at + 1) & (slots_.size() - 1);
    return at;
  }
  std::vector<Slot> slots_;
};

// Maps bytes to tokens. The table stores views, so the bytes must outlive it.
class TokenTable {
 public:
  explicit TokenTable(size_t tokens) : slots_(table_size(tokens)) {}

  // Returns false if the bytes are already there.
  bool insert(std::string_view bytes, int32_t token) {
    Slot& slot = slots_[slot_of(bytes)];
    if (slot.token >= 0) return false;
    slot = {bytes, token};
    return true;
  }
  // Returns the token, or -1.
  int32_t find(std::string_view bytes) const { return slots_[slot_of(bytes)].token; }

 private:
  struct Slot {
    std::string_view bytes;
    int32_t token = -1;
  };
  size_t slot_of(std::string_view bytes) const {
    size_t at = hash_of(bytes) & (slots_.size() - 1);
    while (slots_[at].token >= 0 && slots_[at].bytes != bytes) at = (at + 1) & (slots_.size() - 1);
    return at;
  }
  std::vector<Slot> slots_;
};

}  // namespace bpe

}  // namespace tinytorch::inline TT_BUILD
