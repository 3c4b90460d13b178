// ContiguousCache: each sequence has room for `capacity` tokens in one piece, [B, G, capacity, D] per layer.
// It is the simplest cache and the fastest to read, and its memory is as large as the longest text may
// become.
#pragma once

#include <tinytorch/kv_cache/cache.hpp>

namespace tinytorch::inline TT_BUILD {

class ContiguousCache : public KvCache {
 public:
  ContiguousCache(const KvShape& shape, const KvCacheOptions& options, TT_LOC)
      : KvCache(shape, options, loc) {
    add_layers(options.sequences, options.capacity, loc);
  }

 protected:
  std::optional<KeysAndValues> in_one_piece(const KvMemory& m, DType dtype) const override {
    const bool equal = m.tokens == m.longest * sequences();
    if (!equal || dtype != options_.dtype || options_.format != KvFormat::of_dtype) return std::nullopt;
    return KeysAndValues{slice(m.keys, 2, 0, m.longest), slice(m.values, 2, 0, m.longest)};
  }
};

}  // namespace tinytorch::inline TT_BUILD
