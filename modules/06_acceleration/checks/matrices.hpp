// Matrices in any layout for the checks of this module, and their product in double.
#pragma once

#include <support/check.hpp>

namespace course {

// Numbers at i * row + j * col from `first` on, in memory that is otherwise NaN (or, for integers, 77).
template <class T>
struct Grid {
  int64_t rows, cols, row, col;
  std::vector<T> memory;
  int64_t first = 0;

  // layout: rows with a gap behind them, columns with a gap behind them, or every second number in reverse.
  Grid(int64_t row_count, int64_t col_count, Layout layout = Layout::contiguous)
      : rows(row_count), cols(col_count), row(cols + 3), col(1) {
    if (layout == Layout::transposed) row = 1, col = rows + 2;
    if (layout == Layout::gaps) row = 2 * cols + 5, col = 2;
    if (layout == Layout::reversed) row = -(cols + 3), col = -1;
    const int64_t last =
        std::max<int64_t>(rows - 1, 0) * std::abs(row) + std::max<int64_t>(cols - 1, 0) * std::abs(col);
    memory.assign(static_cast<size_t>(last + 1 + 8), other());
    if (layout == Layout::reversed) first = last;
    first += layout == Layout::reversed ? 0 : 4;
  }
  static T other() { return std::is_integral_v<T> ? T(77) : std::numeric_limits<T>::quiet_NaN(); }
  T* data() { return memory.data() + first; }
  T& at(int64_t i, int64_t j) { return memory[static_cast<size_t>(first + i * row + j * col)]; }
  Grid& fill(double low = -1, double high = 1, bool whole = std::is_integral_v<T>) {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < cols; ++j) {
        const double x = uniform(low, high);
        at(i, j) = static_cast<T>(whole ? std::floor(x) : x);
      }
    }
    return *this;
  }
};

// The result c, with contiguous rows and a gap behind each, is a b; the gaps, and what is around, are as they
// were. `extra(i, j, sum)` gives the expected value.
template <class T, class Extra>
void expect_product(const std::string& what, Grid<T>& c, Grid<T>& a, Grid<T>& b, Extra&& extra) {
  Numbers got, want;
  double scale = 1;
  for (int64_t i = 0; i < c.rows; ++i) {
    for (int64_t j = 0; j < c.cols; ++j) {
      double sum = 0, size = 0;
      for (int64_t k = 0; k < a.cols; ++k) {
        sum += static_cast<double>(a.at(i, k)) * static_cast<double>(b.at(k, j));
        size += std::abs(static_cast<double>(a.at(i, k)) * static_cast<double>(b.at(k, j)));
      }
      scale = std::max(scale, size);
      got.push_back(static_cast<double>(c.at(i, j)));
      want.push_back(extra(i, j, sum));
      c.at(i, j) = Grid<T>::other();
    }
  }
  const DType dtype = std::is_same_v<T, double> ? f64 : std::is_same_v<T, float> ? f32 : i64;
  expect_close(what, got, want, Shape{c.rows, c.cols}, {.dtype = dtype, .roundings = 16, .scale = scale});
  for (size_t i = 0; i < c.memory.size(); ++i) {
    const bool same = std::is_integral_v<T> ? c.memory[i] == T(77) : c.memory[i] != c.memory[i];
    if (!same) expect(what + ": memory outside of the result is as it was", false);
  }
}
template <class T>
void expect_product(const std::string& what, Grid<T>& c, Grid<T>& a, Grid<T>& b) {
  expect_product(what, c, a, b, [](int64_t, int64_t, double sum) { return sum; });
}

inline std::string sizes_text(int64_t M, int64_t N, int64_t K) {
  return "[" + std::to_string(M) + ", " + std::to_string(K) + "] times [" + std::to_string(K) + ", " +
         std::to_string(N) + "]";
}

}  // namespace course
