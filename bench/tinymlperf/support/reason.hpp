// reason_of: the text of an exception for users, without the parts that are for programmers.
#pragma once

#include <string>

namespace tinymlperf {

// The text on one line, without the location of the caller and the hint that follow it.
inline std::string reason_of(std::string text) {
  for (const char* tail : {"\n  at ", "\n  hint: "}) text = text.substr(0, text.find(tail));
  std::string out;
  for (const char c : text) {
    if (c == '\n') out += ';';
    if (c != '\n' && (c != ' ' || (!out.empty() && out.back() != ' '))) out += c;
  }
  return out;
}

}  // namespace tinymlperf
