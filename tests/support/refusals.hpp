// What a reader of strangers' files says no to, as text.
#pragma once

#include <functional>
#include <string>
#include <tinymlperf/support/json_fields.hpp>

namespace test {

// The text of the Refusal that f throws; empty when it throws none.
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
