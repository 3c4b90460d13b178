// How much a test tries. The first ring of the suite, which every change waits for, asks for few cases
// (TINYTORCH_TEST_FEW=1); a number draws them (TINYTORCH_TEST_DRAW), the commit's, so that the next commit
// tries others. Without that variable everything is tried, as in the second ring.
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
// Also where kernels run on the emulator, which gives a file some seconds (support/main.cpp).
inline bool few_on_emulator() {
  static const bool limited = std::getenv("TINYTORCH_TEST_SECONDS") != nullptr;
  return few_asked() && limited;
}

inline uint64_t drawn_number(uint64_t otherwise) {
  const char* number = std::getenv("TINYTORCH_TEST_DRAW");
  return number ? std::strtoull(number, nullptr, 10) : otherwise;
}

// A decorator of test cases, the last one of a case: doctest's own skip() forgets what an earlier one said.
struct LeftOut {
  bool left_out;
  void fill(doctest::detail::TestCase& test) const { test.m_skip |= left_out; }
};
// For cases of minutes, and for those that take the emulator more than two seconds: the first ring leaves
// them out.
inline LeftOut takes_minutes() { return {few_asked()}; }
// For simulations that repeat the same code thousands of times: what a sanitizer finds in it, it finds in the
// other cases.
inline LeftOut repeats_for_minutes() { return {few_asked() || kSanitized}; }
inline LeftOut long_on_emulator() { return {few_on_emulator()}; }

// For loops over many inputs: true for all but one in `n` on the emulator, in the first ring; the draw says
// which.
//   for (const Shape& shape : shapes) { if (test::left_out(8)) continue; ...
inline bool left_out(uint64_t n) {
  static uint64_t calls = drawn_number(0);
  return few_on_emulator() && calls++ % n != 0;
}

// `count` elements of a list, drawn, in the order of the list; others at each call.
template <class T>
std::vector<T> draw(const std::vector<T>& all, size_t count) {
  static std::mt19937 generator{static_cast<uint32_t>(drawn_number(1))};
  std::vector<T> out;
  std::sample(all.begin(), all.end(), std::back_inserter(out), count, generator);
  return out;
}
// All of them, where everything is tried.
template <class T>
std::vector<T> some_of(const std::vector<T>& all, size_t count) {
  return few_asked() ? draw(all, count) : all;
}
template <class T>
std::vector<T> some_on_emulator(const std::vector<T>& all, size_t count) {
  return few_on_emulator() ? draw(all, count) : all;
}

}  // namespace test
