// Exact tests of error messages: code, complete text, and the caller's file.
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <tinytorch/backend/cuda/launch.hpp>
#include <tinytorch/core/device.hpp>
#include <tinytorch/core/error.hpp>

namespace errors {

// The error that f throws, split at the line "  at FILE:LINE". The rest names the layer of the library
// through which the error was reached.
struct Thrown {
  std::string code, text, file;
  int line = 0;
  bool without_cuda = false;
};

inline Thrown thrown_by(const std::function<void()>& f) {
  Thrown t;
  try {
    f();
    if (tinytorch::default_device().is_cuda())
      tinytorch::backend::cuda::synchronize();  // throws the errors that kernels found
  } catch (const tinytorch::Error& e) {
    t.code = e.code();
    t.text = e.what();
    t.without_cuda = dynamic_cast<const tinytorch::BuiltWithoutCuda*>(&e) != nullptr;
    const size_t at = t.text.rfind("\n  at "), colon = t.text.find(':', at + 1);
    if (at != std::string::npos && colon != std::string::npos) {
      t.file = t.text.substr(at + 6, colon - at - 6);
      t.line = std::stoi(t.text.substr(colon + 1));
      t.text.resize(at);
    }
  }
  return t;
}

// Adapts an expected text, which is written for the CPU, to the device of the tests.
inline std::string here(std::string text) {
  const std::string written = " on cpu", wanted = " on " + tinytorch::default_device().str();
  for (size_t at = 0; (at = text.find(written, at)) != std::string::npos; at += wanted.size()) {
    text.replace(at, written.size(), wanted);
  }
  return text;
}

// Checks that f throws exactly `text` ("CODE: message ...") at a line of `file` (the calling test).
inline void check_error(const std::string& text, const std::function<void()>& f,
                        const std::string& file = __builtin_FILE(), int line = __builtin_LINE()) {
  const Thrown t = thrown_by(f);
  INFO("called from line ", line);
  CHECK(t.text == here(text));
  CHECK(t.code == text.substr(0, text.find(':')));
  CHECK(t.file == file);
}

}  // namespace errors

// The message of the tinytorch error that f throws, without "at FILE:LINE"; "" if it throws none.
inline std::string message_of(const std::function<void()>& f) { return errors::thrown_by(f).text; }

namespace test {

// Checks that f throws `code` with a message that contains `text`, at a line of the calling test.
inline void expect_error(const std::string& code, const std::string& text, const std::function<void()>& f,
                         const std::string& file = __builtin_FILE()) {
  const errors::Thrown t = errors::thrown_by(f);
  INFO(t.text);
  CHECK(t.code == code);
  CHECK(t.text.find(errors::here(text)) != std::string::npos);
  CHECK(t.file == file);
}

}  // namespace test
