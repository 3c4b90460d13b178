// The exit status of a command, and its message when it cannot be run as asked.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <tinymlperf/support/foreign_text.hpp>

namespace tinymlperf {

constexpr int kPass = 0, kFailed = 1, kSetUpProblem = 2;

namespace detail {

inline int complain(const std::string& text) {
  fmt::print(stderr, "tinymlperf: {}\n", clean(text, 20000));  // it may hold text of a submission
  return kSetUpProblem;
}

}  // namespace detail

}  // namespace tinymlperf
