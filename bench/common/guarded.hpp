// What main() of a bench returns: an exception becomes one line that names the program, and a status.
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
