// The output that a command prints to its FILE*, and its exit status.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

namespace test {

struct Printed {
  int status = 0;
  std::string text;
  bool holds(const std::string& piece) const { return text.find(piece) != std::string::npos; }
};

inline Printed print(const std::function<int(std::FILE*)>& command) {
  char* text = nullptr;
  size_t size = 0;
  std::FILE* out = open_memstream(&text, &size);
  Printed p;
  p.status = command(out);
  std::fclose(out);
  p.text.assign(text, size);
  std::free(text);
  return p;
}

}  // namespace test
