// The order in which contenders are measured.
//
// A machine drifts (clock rate, cache, other work), so a match is divided into blocks, each of which runs
// every contender. random_blocks: once, in a new random order (random interleaving, as in Google Benchmark).
// mirrored_blocks: twice, in a new random order and then in reverse, so that both turns of every contender
// have the same mean time and a linear drift over the block cancels; A B B A for two. The order of each block
// is drawn independently, so under any drift the favoured one of two contenders is random in each block,
// which the tests of paired_ratio.hpp rely on. All orders are functions of the seed alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <tinytorch/core/random.hpp>
#include <utility>
#include <vector>

namespace tinytorch::inline TT_BUILD::benchmarking {

// One row per block: 0 .. contenders-1 in a random order (Fisher-Yates), a function of the seed alone.
inline std::vector<std::vector<size_t>> random_blocks(size_t contenders, size_t blocks, uint64_t seed) {
  Generator random(seed);
  std::vector<std::vector<size_t>> order(blocks, std::vector<size_t>(contenders));
  for (auto& row : order) {
    for (size_t i = 0; i < contenders; ++i) row[i] = i;
    for (size_t i = contenders; i > 1; --i) std::swap(row[i - 1], row[random.below(i)]);
  }
  return order;
}

// One row per block: a random order of 0 .. contenders-1, then the same order in reverse.
inline std::vector<std::vector<size_t>> mirrored_blocks(size_t contenders, size_t blocks, uint64_t seed) {
  auto order = random_blocks(contenders, blocks, seed);
  for (auto& row : order)
    for (size_t i = contenders; i > 0; --i) row.push_back(row[i - 1]);
  return order;
}

// One contender (1) against a baseline (0): each block is 0 1 1 0 or 1 0 0 1.
inline std::vector<std::vector<size_t>> abba_blocks(size_t blocks, uint64_t seed) {
  return mirrored_blocks(2, blocks, seed);
}

}  // namespace tinytorch::inline TT_BUILD::benchmarking
