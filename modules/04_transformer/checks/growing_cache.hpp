// A cache of keys and values that grows without a limit.
#pragma once

#include <tinytorch/tensor/ops.hpp>
#include <tinytorch/transformer/attention.hpp>

namespace course {

using namespace tinytorch;

// The test sets `held`, the number of cached positions, after each pass.
struct GrowingCache : AttentionCache {
  std::vector<KeysAndValues> layers = std::vector<KeysAndValues>(3);
  int64_t held = 0;
  int64_t position() const override { return held; }
  KeysAndValues append(int64_t layer, const Tensor& k, const Tensor& v) override {
    KeysAndValues& all = layers.at(static_cast<size_t>(layer));
    all = all.keys.defined() ? KeysAndValues{cat({all.keys, k}, 2), cat({all.values, v}, 2)}
                             : KeysAndValues{k, v};
    return all;
  }
};

}  // namespace course
