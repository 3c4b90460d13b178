// The rules for the head of a request with a body, which are checked before a byte of the body is read.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <tinymlperf/board/web/http_library.hpp>
#include <tinymlperf/board/web/request.hpp>

namespace tinymlperf::board {

// The largest body of an address, and its type.
struct BodyRule {
  int64_t most = 0;
  const char* type = "";
};

inline std::optional<Problem> problem_of_body(const httplib::Request& request, const BodyRule& rule) {
  if (request.has_header("Transfer-Encoding") || request.get_header_value_count("Content-Length") != 1)
    return Problem{411, "Say once, with Content-Length, how long the body is."};
  if (request.has_header("Content-Encoding"))
    return Problem{415, "Send the body as it is, without Content-Encoding."};
  const std::string length = request.get_header_value("Content-Length");
  const auto bytes = length == "0" ? std::optional<int64_t>(0) : parse_id(length);
  if (!bytes) return Problem{400, "Content-Length must be a whole number."};
  if (*bytes > rule.most)
    return Problem{413, fmt::format("The body has {} bytes; at most {} are taken.", *bytes, rule.most)};
  if (!request.get_header_value("Content-Type").starts_with(rule.type))
    return Problem{415, fmt::format("The body must be of the type {}.", rule.type)};
  return {};
}

}  // namespace tinymlperf::board
