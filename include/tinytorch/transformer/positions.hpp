// Positional encodings, which make a transformer depend on the order of its tokens.
//
//   learned      one trained row per position, added to the embeddings            (GPT-2)
//   sinusoidal   PE(t, 2i) = sin(t / 10000^(2i / C)), PE(t, 2i + 1) = cos(...)     (Vaswani et al., 2017)
//   rotary       rotates the pair (x_i, x_{i + D/2}) of q and k by t theta^(-2i / D)    (Su et al., 2021)
//
// With rotary positions the product of a query and a key depends only on their distance. The halves of a
// vector are paired, not adjacent elements, as in Llama's weights at Hugging Face. `start` is the position of
// the first token, above 0 if earlier tokens are in a cache, or the position of each token.
#pragma once

#include <cmath>
#include <memory>
#include <tinytorch/kv_cache/attention_cache.hpp>
#include <tinytorch/layers/embedding.hpp>
#include <tinytorch/tensor/ops.hpp>
#include <tinytorch/transformer/rotary_scaling.hpp>

namespace tinytorch::inline TT_BUILD {

class LearnedPositions : public Embedding {
 public:
  using Embedding::Embedding;
  // The rows of positions start, start + 1, ... or of each position: [T, C].
  Tensor rows(const Positions& start, int64_t T, TT_LOC) const {
    const int64_t first = start.differ() ? 0 : start.first, end = start.differ() ? start.end : first + T;
    if (first < 0 || end > weight.size(0)) {
      fail("TT-NN-20",
           "positions " + std::to_string(first) + " to " + std::to_string(end - 1) + " are outside of the " +
               std::to_string(weight.size(0)) +
               " learned positions of the model\n  hint: cut the tokens to the model's context",
           loc);
    }
    return start.differ() ? embedding(weight, start.each, loc) : slice(weight, 0, first, end, 1, loc);
  }
};

// Returns f32 [T, C], computed in double.
inline Tensor sinusoidal_positions(int64_t start, int64_t T, int64_t C, Device device = default_device(),
                                   TT_LOC) {
  std::vector<float> table;
  table.reserve(static_cast<size_t>(T * C));
  for (int64_t t = start; t < start + T; ++t) {
    for (int64_t c = 0; c < C; ++c) {
      const double power = static_cast<double>(c / 2 * 2) / static_cast<double>(C);
      const double angle = static_cast<double>(t) / std::pow(10000.0, power);
      table.push_back(static_cast<float>(c % 2 == 0 ? std::sin(angle) : std::cos(angle)));
    }
  }
  return from_data(table, {T, C}, device, loc);
}

// Rotary positions with a table of the angles of all positions used so far. The layers of a model share one
// object.
class Rotary {
 public:
  explicit Rotary(int64_t head_size, RotaryOptions options = {}, TT_LOC)
      : D_(head_size), R_(options.turned(head_size)), options_(std::move(options)) {
    if (R_ < 2 || R_ % 2 != 0 || R_ > D_) {
      fail("TT-NN-21", "rotary positions rotate pairs: the head size must be even, got " + std::to_string(R_),
           loc);
    }
    frequencies_ = options_.frequencies(R_);
  }

  // Rotates x [B, H, T, D], whose tokens are at positions start, start + 1, ... or at each of `start`. 16-bit
  // values are rotated in f32. The dimensions from R on are kept.
  Tensor turn(const Tensor& x, const Positions& start = {}, TT_LOC) {
    if (x.rank() != 4 || x.size(3) != D_) {
      fail("TT-SHAPE-02",
           "rotary positions of head size " + std::to_string(D_) + " need [B, H, T, D], got " + x.describe(),
           loc);
    }
    extend(start, x.size(2), x.device(), loc);
    return rotate_pairs(x,
                        {.cos = cos_,
                         .sin = sin_,
                         .first = start.differ() ? 0 : start.first,
                         .positions = start.each,
                         .bound = start.end},
                        loc);
  }

  const RotaryOptions& options() const { return options_; }
  const std::vector<double>& frequencies() const { return frequencies_; }  // radians per position, [R / 2]

 private:
  // Grows the tables to at least the positions of the step. The size is doubled, so that token-by-token
  // generation rarely recomputes them; a text of another kind gets tables of its own.
  void extend(const Positions& start, int64_t T, Device device, Loc loc) {
    const int64_t positions = start.differ() ? start.end : start.first + T,
                  kind = options_.kind_of(positions);
    if (kind != 0 && start.differ()) {
      fail("TT-NN-28",
           "rotary frequencies that depend on the length of the text do not fit a step with sequences of "
           "different lengths\n  hint: a cache whose capacity is at most the context before the scaling",
           loc);
    }
    if (cos_.defined() && cos_.size(0) >= positions && cos_.device() == device && kind_ == kind) return;
    const int64_t before = cos_.defined() && kind_ == kind ? 2 * cos_.size(0) : int64_t{64};
    const int64_t rows = std::max(positions, before);
    const std::vector<double> own = kind == 0 ? frequencies_ : options_.frequencies(R_, positions);
    const double factor = options_.attention_factor();
    std::vector<float> c, s;
    for (int64_t t = 0; t < rows; ++t) {
      for (const double frequency : own) {
        c.push_back(static_cast<float>(factor * std::cos(static_cast<double>(t) * frequency)));
        s.push_back(static_cast<float>(factor * std::sin(static_cast<double>(t) * frequency)));
      }
    }
    cos_ = from_data(c, {rows, R_ / 2}, device, loc);
    sin_ = from_data(s, {rows, R_ / 2}, device, loc);
    kind_ = kind;
  }

  int64_t D_, R_;  // the head's dimensions, and those that are turned
  RotaryOptions options_;
  std::vector<double> frequencies_;  // of texts of kind 0
  Tensor cos_, sin_;                 // f32 [rows, R / 2]
  int64_t kind_ = 0;                 // of the texts that the tables serve
};

}  // namespace tinytorch::inline TT_BUILD
