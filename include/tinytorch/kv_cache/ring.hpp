// RingCache: constant memory for a text of any length. It keeps the first `sinks` tokens and the last
// `capacity - sinks`, so it changes the output of a model that was not trained with such a window.
//
// A model gives the first tokens of a text much attention, whatever they say. Without them, the rest is badly
// normalized; with them, the model goes on fluently (Xiao et al., "Efficient streaming language models with
// attention sinks", 2023). Positions keep counting, so a model with learned positions ends at its context.
#pragma once

#include <tinytorch/kv_cache/cache.hpp>

namespace tinytorch::inline TT_BUILD {

struct RingOptions {
  int64_t sinks = 4;  // 0: a plain sliding window
};

class RingCache : public KvCache {
 public:
  RingCache(const KvShape& shape, const KvCacheOptions& options, RingOptions ring = {}, TT_LOC)
      : KvCache(shape, options, loc) {
    if (ring.sinks < 0 || ring.sinks >= options.capacity) {
      fail("TT-KV-01",
           "a ring of " + std::to_string(options.capacity) + " tokens cannot have " +
               std::to_string(ring.sinks) + " sinks\n  rule: 0 <= sinks < capacity",
           loc);
    }
    add_layers(options.sequences, options.capacity, loc);
    step_.sinks = ring.sinks;
    step_.ring = options.capacity - ring.sinks;
  }

 protected:
  void require_room(int64_t, int64_t, Loc) const override {}
  bool keeps_all_of(int64_t tokens) const override { return tokens <= capacity(); }
};

}  // namespace tinytorch::inline TT_BUILD
