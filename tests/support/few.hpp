// Number of cases that a test runs. The first ring of the suite, which runs for every change, uses few cases
// (TINYTORCH_TEST_FEW=1). They are drawn by a number (TINYTORCH_TEST_DRAW), which depends on the commit, so
// the next commit runs other cases. Without that variable all cases run, as in the second ring.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <support/sanitized.hpp>
#include <vector>

namespace test {

inline bool few_asked() {
  static const bool asked = std::getenv("TINYTORCH_TEST_FEW") != nullptr;
  return asked;
}
// Few cases also on the emulator, where a file has some seconds (support/main.cpp).
inline bool few_on_emulator() {
  static const bool limited = std::getenv("TINYTORCH_TEST_SECONDS") != nullptr;
  return few_asked() && limited;
}

inline uint64_t drawn_number(uint64_t otherwise) {
  const char* number = std::getenv("TINYTORCH_TEST_DRAW");
  return number ? std::strtoull(number, nullptr, 10) : otherwise;
}

// A decorator of test cases. It must be the last one, because doctest's own skip() overwrites an earlier one.
struct LeftOut {
  bool left_out;
  void fill(doctest::detail::TestCase& test) const { test.m_skip |= left_out; }
};
// Decorates cases that take minutes; long_on_emulator() decorates those that take more than two seconds on
// the emulator. The first ring skips them.
inline LeftOut takes_minutes() { return {few_asked()}; }
// Decorates simulations that repeat the same code thousands of times. Under a sanitizer they are skipped too,
// because the other cases run the same code.
inline LeftOut repeats_for_minutes() { return {few_asked() || kSanitized}; }
inline LeftOut long_on_emulator() { return {few_on_emulator()}; }

// Shortens loops over many inputs: on the emulator, in the first ring, it is true for all but one of `n`
// inputs, which are drawn.
//   for (const Shape& shape : shapes) { if (test::left_out(8)) continue; ...
inline bool left_out(uint64_t n) {
  static uint64_t calls = drawn_number(0);
  return few_on_emulator() && calls++ % n != 0;
}

// `count` elements of a list, drawn anew at each call, in the order of the list.
template <class T>
std::vector<T> draw(const std::vector<T>& all, size_t count) {
  static std::mt19937 generator{static_cast<uint32_t>(drawn_number(1))};
  std::vector<T> out;
  std::sample(all.begin(), all.end(), std::back_inserter(out), count, generator);
  return out;
}
// The drawn elements, or all elements if all cases run.
template <class T>
std::vector<T> some_of(const std::vector<T>& all, size_t count) {
  return few_asked() ? draw(all, count) : all;
}
template <class T>
std::vector<T> some_on_emulator(const std::vector<T>& all, size_t count) {
  return few_on_emulator() ? draw(all, count) : all;
}

}  // namespace test
