// Steps of random tokens through a cache, and attention to all tokens of each sequence by the definition, in
// double. The check keeps every key and value itself, so that a cache that loses, moves or mixes tokens gives
// other results.
#pragma once

#include <support/check.hpp>
#include <tinytorch/kv_cache/cache.hpp>
#include <tinytorch/tensor/observer.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace course {

class Conversation {
 public:
  Conversation(KvCache& cache, int64_t heads)
      : cache_(cache),
        heads_(heads),
        keys_(static_cast<size_t>(cache.shape().layers * cache.sequences())),
        values_(keys_) {}

  // counts[b] new tokens of sequence b, announced by begin(), the tokens of all in one row.
  void step(const std::vector<int64_t>& counts) {
    cache_.begin(counts);
    compute(counts, true);
  }
  // `count` new tokens of every sequence, as a batch, without begin().
  void batch(int64_t count) {
    compute(std::vector<int64_t>(static_cast<size_t>(cache_.sequences()), count), false);
  }
  void truncate(int64_t sequence, int64_t length) {
    cache_.truncate(sequence, length);
    for (int64_t layer = 0; layer < cache_.shape().layers; ++layer) {
      keys_[place(layer, sequence)].resize(static_cast<size_t>(length * row()));
      values_[place(layer, sequence)].resize(static_cast<size_t>(length * row()));
    }
  }
  // Repeats in the reference that the cache has made `to` a copy of `from`.
  void copied(int64_t from, int64_t to) {
    for (int64_t layer = 0; layer < cache_.shape().layers; ++layer) {
      keys_[place(layer, to)] = keys_[place(layer, from)];
      values_[place(layer, to)] = values_[place(layer, from)];
    }
  }
  int64_t length(int64_t sequence) const { return std::ssize(keys_[place(0, sequence)]) / row(); }
  void expect_lengths() const {
    for (int64_t b = 0; b < cache_.sequences(); ++b)
      expect_equal("length of sequence " + shown(b), cache_.length(b), length(b));
  }

 private:
  int64_t row() const { return cache_.shape().groups * cache_.shape().head_size; }
  size_t place(int64_t layer, int64_t sequence) const {
    return static_cast<size_t>(layer * cache_.sequences() + sequence);
  }
  static Tensor tensor(const Shape& shape, Numbers& numbers) {
    numbers = Values::random(f64, shape, Layout::contiguous, -2, 2).numbers();
    return from_data(numbers, shape);
  }

  void compute(const std::vector<int64_t>& counts, bool announced) {
    const int64_t G = cache_.shape().groups, D = cache_.shape().head_size;
    int64_t rows = 0;
    for (const int64_t n : counts) rows += n;
    const int64_t B = announced ? 1 : cache_.sequences(), T = rows / B;
    for (int64_t layer = 0; layer < cache_.shape().layers; ++layer) {
      Numbers q, k, v;
      const Tensor queries = tensor({B, heads_, T, D}, q), new_keys = tensor({B, G, T, D}, k),
                   new_values = tensor({B, G, T, D}, v);
      const Tensor y = cache_.attend(layer, queries, new_keys, new_values, {.causal = true});
      Numbers want(q.size());
      int64_t line = 0;  // row of the step
      for (int64_t b = 0; b < cache_.sequences(); ++b) {
        for (int64_t i = 0; i < counts[static_cast<size_t>(b)]; ++i, ++line) {
          const int64_t batch = line / T, t = line % T;
          for (int64_t g = 0; g < G; ++g) {
            const auto from = static_cast<std::ptrdiff_t>(((batch * G + g) * T + t) * D);
            Numbers &all_keys = keys_[place(layer, b)], &all_values = values_[place(layer, b)];
            all_keys.insert(all_keys.end(), k.begin() + from, k.begin() + from + D);
            all_values.insert(all_values.end(), v.begin() + from, v.begin() + from + D);
          }
          for (int64_t h = 0; h < heads_; ++h) {
            const auto at = static_cast<size_t>(((batch * heads_ + h) * T + t) * D);
            attend(want.data() + at, q.data() + at, keys_[place(layer, b)], values_[place(layer, b)],
                   h / (heads_ / G));
          }
        }
      }
      std::string what = "attention of a step of";
      for (const int64_t n : counts) what += " " + shown(n);
      const double roundings = cache_.dtype() == f64 ? 400 : 1;
      expect_close(what + " tokens, layer " + shown(layer), y.to_vector<double>(), want, {B, heads_, T, D},
                   {.dtype = cache_.dtype(), .roundings = roundings});
    }
    expect_lengths();
  }
  // One query against all tokens of its sequence so far, [tokens, G, D].
  void attend(double* out, const double* q, const Numbers& keys, const Numbers& values, int64_t g) const {
    const int64_t D = cache_.shape().head_size, tokens = std::ssize(keys) / row();
    Numbers weight(static_cast<size_t>(tokens));
    double sum = 0;
    for (int64_t t = 0; t < tokens; ++t) {
      double score = 0;
      for (int64_t d = 0; d < D; ++d) score += q[d] * keys[static_cast<size_t>(t * row() + g * D + d)];
      weight[static_cast<size_t>(t)] = std::exp(score / std::sqrt(static_cast<double>(D)));
      sum += weight[static_cast<size_t>(t)];
    }
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t d = 0; d < D; ++d)
        out[d] += weight[static_cast<size_t>(t)] / sum * values[static_cast<size_t>(t * row() + g * D + d)];
    }
  }

  KvCache& cache_;
  int64_t heads_;
  std::vector<Numbers> keys_, values_;  // of layer and sequence: [tokens, G, D]
};

// The bytes of all ops and of all work that f does.
template <class F>
double bytes_of(F&& f) {
  struct Counter : OpObserver {
    double bytes = 0;
    void after(const PrimitiveBase&, const Tensors&, const Tensors&, Cost cost) override {
      bytes += cost.bytes;
    }
    void end_work(Cost cost) override { bytes += cost.bytes; }
  } counter;
  const Observing observing(counter);
  f();
  return counter.bytes;
}

}  // namespace course
