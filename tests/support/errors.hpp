// expect_error: that a call is refused with the right code, says what it should, and names the caller's file.
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <tinytorch/core/error.hpp>

namespace test {

inline void expect_error(const std::string& code, const std::string& text, const std::function<void()>& call,
                         const char* file = __builtin_FILE()) {
  try {
    call();
  } catch (const tinytorch::Error& e) {
    CHECK_MESSAGE(e.code() == code, e.what());
    CHECK_MESSAGE(std::string(e.what()).find(text) != std::string::npos, e.what());
    CHECK_MESSAGE(std::string(e.what()).find(file) != std::string::npos, e.what());
    return;
  }
  FAIL_CHECK("expected ", code, ", but nothing was thrown");
}

}  // namespace test
