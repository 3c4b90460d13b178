// Matrices for the tests of backend/cpu/ladder/, and their product in double.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace test {

// Numbers of a matrix whose element [i, j] is at i * row + j * col.
template <class T>
struct LadderMatrix {
  int64_t rows, cols, row, col;
  std::vector<T> numbers;
  LadderMatrix(int64_t m, int64_t n, uint32_t seed, bool transposed = false)
      : rows(m),
        cols(n),
        row(transposed ? 1 : n + 3),
        col(transposed ? m + 2 : 1),
        numbers(static_cast<size_t>((m + 3) * (n + 3))) {
    std::mt19937 random(seed);
    std::uniform_int_distribution<int> draw(-8, 8);  // their products have exact sums
    for (T& x : numbers) x = static_cast<T>(draw(random)) / 4;
  }
  T& at(int64_t i, int64_t j) { return numbers[static_cast<size_t>(i * row + j * col)]; }
};

template <class T>
double ladder_sum(LadderMatrix<T>& a, LadderMatrix<T>& b, int64_t i, int64_t j) {
  double sum = 0;
  for (int64_t k = 0; k < a.cols; ++k)
    sum += static_cast<double>(a.at(i, k)) * static_cast<double>(b.at(k, j));
  return sum;
}

}  // namespace test
