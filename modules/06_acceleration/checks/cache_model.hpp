// A small cache that counts its misses, and matrices whose accesses go through it.
#pragma once

#include <algorithm>
#include <support/check.hpp>
#include <unordered_map>

namespace course {

// A fully associative cache of lines of 64 bytes. The line that was used least recently is replaced.
class CacheModel {
 public:
  explicit CacheModel(int64_t lines) : lines_(lines) {}
  void touch(int64_t line) {
    ++accesses;
    const auto found = used_.find(line);
    if (found != used_.end()) {
      found->second = accesses;
      return;
    }
    ++misses;
    if (static_cast<int64_t>(used_.size()) == lines_) {
      used_.erase(std::min_element(used_.begin(), used_.end(),
                                   [](const auto& a, const auto& b) { return a.second < b.second; }));
    }
    used_[line] = accesses;
  }
  int64_t accesses = 0, misses = 0;

 private:
  int64_t lines_;
  std::unordered_map<int64_t, int64_t> used_;
};

// A matrix of floats with contiguous rows, whose accesses are counted. Its first line in memory is number
// `first_line`.
struct CountedMatrix {
  using Number = float;
  CountedMatrix(CacheModel& model, int64_t at, int64_t row_count, int64_t col_count)
      : cache(&model),
        first_line(at),
        rows(row_count),
        cols(col_count),
        pitch((col_count + 15) / 16 * 16),
        memory(std::make_shared<std::vector<float>>(static_cast<size_t>(rows * pitch))) {}
  float& operator()(int64_t i, int64_t j) const {
    expect("element [" + shown(i) + ", " + shown(j) + "] is inside of the matrix [" + shown(rows) + ", " +
               shown(cols) + "]",
           i >= 0 && i < rows && j >= 0 && j < cols);
    cache->touch(first_line + (i * pitch + j) / 16);
    return (*memory)[static_cast<size_t>(i * pitch + j)];
  }

  CacheModel* cache;
  int64_t first_line, rows, cols, pitch;
  std::shared_ptr<std::vector<float>> memory;
};

// Misses of f(c [M, N], a [M, K], b [K, N]) in a cache of so many lines.
template <class F>
CacheModel counted_product(int64_t lines, int64_t M, int64_t N, int64_t K, F&& f) {
  CacheModel cache(lines);
  const CountedMatrix a(cache, 0, M, K), b(cache, 1'000'000, K, N), c(cache, 2'000'000, M, N);
  f(c, a, b);
  return cache;
}

}  // namespace course
