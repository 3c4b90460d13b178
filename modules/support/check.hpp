// What a check says when it fails: what was asked, what was expected, what came, where it is worst, and what the
// pattern of the wrong numbers looks like.
//
//   expect_equal("contiguous_strides([2, 3])", contiguous_strides({2, 3}), Strides{3, 1});
//   expect_close("softmax of [3, 5]", got, want, {.dtype = f32, .roundings = 8});
//   expect_throws("TT-SHAPE-02", "broadcast [2] with [3]", [&] { ... });
#pragma once

#include <doctest/doctest.h>

#include <support/values.hpp>

namespace course {

// Thrown by the functions below; main.cpp hands the text to whoever asked.
struct Mismatch : std::runtime_error {
  using std::runtime_error::runtime_error;
};

template <class T>
std::string shown(const T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_arithmetic_v<T>) {
    char text[40];
    std::snprintf(text, sizeof text, "%.9g", static_cast<double>(value));
    return text;
  } else if constexpr (requires { value.str(); }) {
    return value.str();
  } else if constexpr (requires { value.has_value(); }) {
    return value.has_value() ? shown(*value) : "nothing";
  } else if constexpr (std::is_convertible_v<T, std::string>) {
    return '"' + std::string(value) + '"';
  } else {
    std::string text = "{";
    for (const auto& v : value) text += (text.size() > 1 ? ", " : "") + shown(v);
    return text + "}";
  }
}

template <class Got, class Want>
void expect_equal(const std::string& what, const Got& got, const Want& want) {
  CHECK(true);  // counted
  if (got == want) return;
  throw Mismatch(what + "\n  expected  " + shown(want) + "\n  got       " + shown(got));
}
inline void expect(const std::string& what, bool holds, const std::string& why = "") {
  CHECK(true);
  if (!holds) throw Mismatch(what + "\n  this must hold and does not" + (why.empty() ? "" : "\n  " + why));
}

struct Tolerance {
  DType dtype = f32;      // in which the result is stored
  double roundings = 4;   // of the arithmetic (f32 for 16-bit types) at magnitude `scale`
  double scale = 1;       // size of the terms that were added up
  bool both_ways = true;  // -0 equals 0 always; NaN equals NaN
};

inline Shape index_of(const Shape& shape, int64_t linear) {
  Shape at = shape;
  for (int d = shape.size() - 1; d >= 0; --d) {
    at[d] = linear % shape[d];
    linear /= shape[d];
  }
  return at;
}

inline bool near(double a, double b) { return std::abs(a - b) <= 1e-4 * (std::abs(a) + std::abs(b)); }

// Whether a matrix has its own transpose's numbers, laid out either way.
inline bool is_transposed(const Numbers& got, const Numbers& want, const Shape& shape) {
  if (shape.size() != 2 || shape[0] < 2 || shape[1] < 2) return false;
  const int64_t rows = shape[0], cols = shape[1];
  const auto at = [](const Numbers& numbers, int64_t i) { return numbers[static_cast<size_t>(i)]; };
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      const int64_t i = r * cols + c;
      if (!near(at(got, c * rows + r), at(want, i)) &&
          !near(at(got, i), at(want, i % rows * cols + i / rows))) {
        return false;
      }
    }
  }
  return true;
}

// What the pattern of wrong numbers looks like, or nothing.
inline std::string guess(const Numbers& got, const Numbers& want, const std::vector<bool>& wrong,
                         const Shape& shape) {
  const size_t n = got.size();
  const auto every = [&](auto&& holds) {
    for (size_t i = 0; i < n; ++i) {
      if (wrong[i] && !holds(i)) return false;
    }
    return true;
  };
  size_t first = 0, last = n;
  while (first < n && !wrong[first]) ++first;
  while (last > first && !wrong[last - 1]) --last;
  const int64_t row = shape.size() > 0 ? shape.back() : 1;
  if (every([&](size_t i) { return got[i] == 0; })) {
    if (first == 0 && last == n) return "all zero: nothing was written, or the sum was never added to";
    if (last == n && every([&](size_t i) { return i >= first; }) && first > n / 2) {
      return "a dropped tail: from " + index_of(shape, static_cast<int64_t>(first)).str() + " on all is zero";
    }
    return "zero in places: they were skipped";
  }
  if (every([&](size_t i) { return std::isnan(got[i]); })) {
    const auto line = static_cast<int64_t>(first) / std::max<int64_t>(row, 1);
    return "NaN from row " + std::to_string(line) +
           " on: inf - inf, 0 / 0, or a value that was never written";
  }
  if (every([&](size_t i) {
        return std::isfinite(want[i]) && std::abs(got[i] - want[i]) <= 1e-5 * std::abs(want[i]);
      })) {
    return "right to some six digits: computed in float, or with a constant of so few";
  }
  if (every([&](size_t i) { return std::isinf(got[i]); }))
    return "infinite: it overflowed, or the logarithm of 0";
  bool untouched = false;
  for (size_t i = 0; i < n; ++i)
    untouched = untouched || (wrong[i] && std::isfinite(got[i]) && std::abs(got[i]) > 1e30);
  if (untouched) {
    return "values that were never written (memory starts as rubbish), from " +
           index_of(shape, static_cast<int64_t>(first)).str() + " on";
  }
  if (is_transposed(got, want, shape)) return "transposed: rows and columns have changed places";
  if (std::abs(want[first]) > 1e-6) {
    const double factor = got[first] / want[first];
    if (every([&](size_t i) { return near(got[i], factor * want[i]); })) {
      return "scaled: every wrong value is " + shown(factor) + " times the expected one";
    }
  }
  if (every([&](size_t i) { return near(got[i] - want[i], got[first] - want[first]); }) && last - first > 2) {
    return "shifted: every wrong value is off by " + shown(got[first] - want[first]);
  }
  if (last - first > 2 && first > n / 2 && last == n) {
    return "the tail alone is wrong, from " + index_of(shape, static_cast<int64_t>(first)).str() + " on";
  }
  return "";
}

inline void expect_close(const std::string& what, const Numbers& got, const Numbers& want, const Shape& shape,
                         const Tolerance& tolerance = {}) {
  CHECK(true);
  if (got.size() != want.size()) {
    throw Mismatch(what + "\n  expected  " + std::to_string(want.size()) + " values\n  got       " +
                   std::to_string(got.size()));
  }
  const double arithmetic = epsilon_of(tolerance.dtype == f64 ? f64 : f32);
  const bool floating = is_floating(tolerance.dtype);
  std::vector<bool> wrong(got.size());
  size_t count = 0, worst = 0;
  double largest = -1;
  for (size_t i = 0; i < got.size(); ++i) {
    const double g = got[i], w = want[i];
    double allowed = 0;
    if (floating) {
      allowed = tolerance.roundings * arithmetic * (tolerance.scale + std::abs(w)) +
                epsilon_of(tolerance.dtype) * std::abs(w) + (tolerance.dtype == f16 ? 1e-7 : 0);
    }
    const bool special = !std::isfinite(w);
    const bool good = special ? (std::isnan(w) ? std::isnan(g) : g == w) : std::abs(g - w) <= allowed;
    if (good) continue;
    wrong[i] = true;
    ++count;
    const double error = std::isfinite(g - w) ? std::abs(g - w) : HUGE_VAL;
    if (error > largest) largest = error, worst = i;
  }
  if (count == 0) return;
  std::string text = what + "\n  worst at  " + index_of(shape, static_cast<int64_t>(worst)).str() + " of " +
                     shape.str() + " (" + name_of(tolerance.dtype) + ")\n  expected  " + shown(want[worst]) +
                     "\n  got       " + shown(got[worst]) + "\n  wrong     " + std::to_string(count) +
                     " of " + std::to_string(got.size()) + " values";
  const std::string pattern = guess(got, want, wrong, shape);
  if (!pattern.empty()) text += "\n  it looks  " + pattern;
  throw Mismatch(text);
}
inline void expect_close(const std::string& what, Values& got, const Numbers& want,
                         Tolerance tolerance = {}) {
  tolerance.dtype = got.dtype();
  expect_close(what, got.numbers(), want, got.shape(), tolerance);
}

// f must throw tinytorch::Error with this code.
template <class F>
void expect_throws(const std::string& code, const std::string& what, F&& f) {
  CHECK(true);
  try {
    f();
  } catch (const Error& e) {
    if (e.code() == code || e.code() == "TT-TODO") {
      if (e.code() == "TT-TODO") throw;
      return;
    }
    throw Mismatch(what + "\n  expected  an error " + code + "\n  got       " + e.what());
  }
  throw Mismatch(what + "\n  expected  an error " + code + "\n  got       no error");
}

}  // namespace course
