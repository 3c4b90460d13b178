// What a check says when it fails: what was asked, what was expected, what came, where it is worst, and what the
// pattern of the wrong numbers looks like.
//
//   expect_equal("contiguous_strides([2, 3])", contiguous_strides({2, 3}), Strides{3, 1});
//   expect_close("softmax of [3, 5]", got, want, {.dtype = f32, .roundings = 8});
//   expect_throws("TT-SHAPE-02", "broadcast [2] with [3]", [&] { ... });
#pragma once

#include <doctest/doctest.h>

#include <support/pattern.hpp>

namespace course {

// Thrown by the functions below; main.cpp hands the text to whoever asked.
struct Mismatch : std::runtime_error {
  using std::runtime_error::runtime_error;
};

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
  const std::string pattern = WrongNumbers(got, want, wrong, shape, tolerance.dtype).pattern();
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
