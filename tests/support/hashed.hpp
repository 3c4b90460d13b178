// Numbers that golden scripts and tests compute alike (tests/golden/hashed.py), so that they need not be
// stored.
#pragma once

#include <cstdint>
#include <vector>

// Numbers in [-1, 1): element i depends on key and i alone.
inline std::vector<double> hashed(uint64_t key, int64_t count) {
  std::vector<double> values;
  values.reserve(static_cast<size_t>(count));
  for (uint64_t i = 0; i < static_cast<uint64_t>(count); ++i) {
    uint64_t h = (i * 2654435761u + key * 40503u + 12345u) & 0xffffffffu;
    h = (h ^ (h >> 15)) * 0x2c1b3c6du & 0xffffffffu;
    h = (h ^ (h >> 12)) * 0x297a2d39u & 0xffffffffu;
    h = h ^ (h >> 15);
    values.push_back(static_cast<double>(h) / 2147483648.0 - 1);
  }
  return values;
}
