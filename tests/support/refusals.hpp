// Text of the rejection that a reader of untrusted files throws.
#pragma once

#include <functional>
#include <string>
#include <tinymlperf/support/json_fields.hpp>

namespace test {

// The text of the Refusal that f throws; empty if it throws none.
inline std::string refusal(const std::function<void()>& f) {
  try {
    f();
  } catch (const tinymlperf::Refusal& r) {
    return r.what();
  }
  return "";
}

inline bool holds(const std::string& text, const std::string& piece) {
  return text.find(piece) != std::string::npos;
}

}  // namespace test
