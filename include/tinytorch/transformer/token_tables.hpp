// The two tables that byte pair encoding asks for every piece and every pair of tokens.
//
// Open addressing in one array, at most half full: an answer is one or two lines of cache, where a
// std::unordered_map follows a pointer for the bucket and one for the node. Nothing is ever removed.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <tinytorch/core/config.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD {

// Two neighbouring tokens that become one.
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

// Eight bytes at a time: pieces are short.
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

// Pairs of tokens to ranks. Open addressing: one probe is one line of cache.
class PairRanks {
 public:
  static constexpr int32_t kNone = INT32_MAX;

  explicit PairRanks(size_t pairs) : slots_(table_size(pairs)) {}

  // False when the pair is there already.
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
  // Where the pair is, or would be.
  size_t slot_of(BpeMerge pair) const {
    const uint64_t key = uint64_t{static_cast<uint32_t>(pair.left)} << 32 | static_cast<uint32_t>(pair.right);
    size_t at = mix(key) & (slots_.size() - 1);
    while (slots_[at].rank != kNone && slots_[at].pair != pair) at = (at + 1) & (slots_.size() - 1);
    return at;
  }
  std::vector<Slot> slots_;
};

// Bytes to tokens; the bytes stay where the caller has them.
class TokenTable {
 public:
  explicit TokenTable(size_t tokens) : slots_(table_size(tokens)) {}

  // False when the bytes are there already.
  bool insert(std::string_view bytes, int32_t token) {
    Slot& slot = slots_[slot_of(bytes)];
    if (slot.token >= 0) return false;
    slot = {bytes, token};
    return true;
  }
  // The token, or -1.
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
