// The exit status of a command, and its message when it cannot be run as asked.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>

namespace tinymlperf {

constexpr int kPass = 0, kFailed = 1, kSetUpProblem = 2;

namespace detail {

inline int complain(const std::string& text) {
  fmt::print(stderr, "tinymlperf: {}\n", text);
  return kSetUpProblem;
}

}  // namespace detail

}  // namespace tinymlperf
