// A minimal AttentionCache: the concatenated keys and values of each layer.
#pragma once

#include <tinytorch/tensor/ops.hpp>
#include <tinytorch/transformer/attention.hpp>

class SimpleCache : public tinytorch::AttentionCache {
 public:
  explicit SimpleCache(size_t layers) : held_(layers) {}
  // The position is that of the last layer, because a running pass has not changed that yet.
  int64_t position() const override { return held_.back().keys.defined() ? held_.back().keys.size(2) : 0; }
  tinytorch::KeysAndValues append(int64_t layer, const tinytorch::Tensor& k,
                                  const tinytorch::Tensor& v) override {
    auto& all = held_.at(static_cast<size_t>(layer));
    all.keys = all.keys.defined() ? tinytorch::cat({all.keys, k}, 2) : k;
    all.values = all.values.defined() ? tinytorch::cat({all.values, v}, 2) : v;
    return all;
  }

 private:
  std::vector<tinytorch::KeysAndValues> held_;
};
