// Guard around the body of main(): an exception is printed as one line that begins with the program's name,
// and main() returns `status_of_failure`.
#pragma once

#include <cstdio>
#include <exception>

namespace bench {

template <class F>
int guarded(const char* program, F&& run, int status_of_failure = 1) {
  try {
    return run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", program, error.what());
    return status_of_failure;
  }
}

}  // namespace bench
