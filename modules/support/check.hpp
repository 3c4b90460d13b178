// Expectations of the checks. The message of a failure names the call, the expected and the actual result,
// the place of the largest error, and a guess at the mistake from the pattern of the wrong numbers.
//
//   expect_equal("contiguous_strides([2, 3])", contiguous_strides({2, 3}), Strides{3, 1});
//   expect_close("softmax of [3, 5]", got, want, {.dtype = f32, .roundings = 8});
//   expect_throws("TT-SHAPE-02", "broadcast [2] with [3]", [&] { ... });
#pragma once

#include <doctest/doctest.h>

#include <support/pattern.hpp>

namespace course {

// Thrown by the functions below if an expectation fails; main.cpp writes the text to the file of results.
struct Mismatch : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void count_a_check();  // a test that makes no check counts as failed
[[noreturn]] void not_equal(const std::string& what, const std::string& want, const std::string& got);

template <class Got, class Want>
void expect_equal(const std::string& what, const Got& got, const Want& want) {
  count_a_check();
  if (!(got == want)) not_equal(what, shown(want), shown(got));
}
void expect(const std::string& what, bool holds, const std::string& why = "");

struct Tolerance {
  DType dtype = f32;     // dtype in which the result is stored
  double roundings = 4;  // rounding errors of the arithmetic (f32 for 16-bit types) at magnitude `scale`
  double scale = 1;      // magnitude of the terms of the sum
};

void expect_close(const std::string& what, const Numbers& got, const Numbers& want, const Shape& shape,
                  const Tolerance& tolerance = {});
void expect_close(const std::string& what, Values& got, const Numbers& want, Tolerance tolerance = {});

// f must throw tinytorch::Error with this code.
template <class F>
void expect_throws(const std::string& code, const std::string& what, F&& f) {
  count_a_check();
  try {
    f();
  } catch (const Error& e) {
    if (e.code() == "TT-TODO") throw;
    if (e.code() != code) not_equal(what, "an error " + code, e.what());
    return;
  }
  not_equal(what, "an error " + code, "no error");
}

}  // namespace course
