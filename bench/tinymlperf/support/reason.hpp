// What went wrong, for a reader: an exception's text without what is for programmers.
#pragma once

#include <string>

namespace tinymlperf {

// On one line, without the caller's place and the advice for programmers that follow it.
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
