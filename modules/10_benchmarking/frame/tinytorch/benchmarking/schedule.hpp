// The order in which contenders are measured.
//
// The frame of a course header: it has the given parts, and includes the functions of task 10.4. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <tinytorch/core/random.hpp>
#include <utility>
#include <vector>

namespace tinytorch::inline TT_BUILD::benchmarking {

// Task 10.4.
inline std::vector<std::vector<size_t>> random_blocks(size_t contenders, size_t blocks, uint64_t seed);
// Task 10.4.
inline std::vector<std::vector<size_t>> mirrored_blocks(size_t contenders, size_t blocks, uint64_t seed);

// One contender (1) against a baseline (0): each block is 0 1 1 0 or 1 0 0 1.
inline std::vector<std::vector<size_t>> abba_blocks(size_t blocks, uint64_t seed) {
  return mirrored_blocks(2, blocks, seed);
}

}  // namespace tinytorch::inline TT_BUILD::benchmarking

#include <tasks/benchmarking/schedule.hpp>
