// Strict parsing of requests: the parts of an address, the fields of a form, and conditions on a version.
//
// cpp-httplib accepts broken escapes and decodes a path before it is split. Here an address is split first
// and each part is decoded by itself; parts that are not valid UTF-8 or contain a control character are
// refused.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tinymlperf/board/store/text.hpp>
#include <vector>

namespace tinymlperf::board {

// A request that is answered by an error page.
struct Problem {
  int status = 0;
  std::string reason;
};

using Fields = std::map<std::string, std::string>;

struct Address {
  std::vector<std::string> parts;  // parts of the path, decoded; none: the front page
  Fields query;
  bool json = false;  // the last part ended with .json
};

// Decodes %XX, and `+` as a blank if asked. Empty: a broken escape, broken UTF-8 or a control character.
// `lines`: it may have several lines, and CR LF becomes one line break.
inline std::optional<std::string> percent_decode(std::string_view s, bool plus_is_blank, bool lines = false) {
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
  };
  std::string out;
  for (size_t i = 0; i < s.size(); ++i) {
    if (s[i] == '%') {
      if (i + 2 >= s.size() || digit(s[i + 1]) < 0 || digit(s[i + 2]) < 0) return {};
      out += static_cast<char>(16 * digit(s[i + 1]) + digit(s[i + 2]));
      i += 2;
    } else {
      out += s[i] == '+' && plus_is_blank ? ' ' : s[i];
    }
  }
  if (lines)
    for (size_t at = 0; (at = out.find("\r\n", at)) != std::string::npos;) out.erase(at, 1);
  const bool control =
      !lines && std::any_of(out.begin(), out.end(), [](char c) { return c == '\n' || c == '\t'; });
  return !control && clean(out) == out ? std::optional(out) : std::nullopt;
}

// Parses name=value&name=value. Empty: an escape is broken, or a name occurs twice. The value of `of_lines`
// may have several lines.
inline std::optional<Fields> parse_form(std::string_view s, std::string_view of_lines = {}) {
  Fields out;
  while (!s.empty()) {
    const size_t end = std::min(s.find('&'), s.size());
    const std::string_view item = s.substr(0, end);
    s.remove_prefix(std::min(end + 1, s.size()));
    if (item.empty()) continue;
    const size_t equals = std::min(item.find('='), item.size());
    const auto key = percent_decode(item.substr(0, equals), true);
    const auto value = percent_decode(item.substr(std::min(equals + 1, item.size())), true,
                                      key && !of_lines.empty() && *key == of_lines);
    if (!key || !value || !out.emplace(*key, *value).second) return {};
  }
  return out;
}

inline constexpr size_t kLongestAddress = 2048;

// The address, or why it is invalid.
inline std::optional<Address> parse_address(std::string_view target, Problem& problem) {
  const auto refuse = [&](int status, std::string reason) {
    problem = {status, std::move(reason)};
    return std::optional<Address>();
  };
  if (target.size() > kLongestAddress)
    return refuse(414, fmt::format("An address has at most {} bytes; this one has {}.", kLongestAddress,
                                   target.size()));
  const bool printable =
      std::all_of(target.begin(), target.end(), [](char c) { return c > 0x20 && c < 0x7F; });
  if (!target.starts_with("/") || !printable || target.find('#') != std::string_view::npos)
    return refuse(
        400, "An address begins with / and holds printable ASCII characters; others are written as %XX.");
  const size_t question = std::min(target.find('?'), target.size());
  std::string_view path = target.substr(1, question - 1);
  Address out;
  auto query = parse_form(target.substr(std::min(question + 1, target.size())));
  if (!query)
    return refuse(
        400,
        "The query of the address cannot be read: a % needs two hexadecimal digits, a name stands once.");
  out.query = std::move(*query);
  while (!path.empty()) {
    const size_t slash = std::min(path.find('/'), path.size());
    auto part = percent_decode(path.substr(0, slash), false);
    if (!part)
      return refuse(
          400, "The address cannot be read: a % needs two hexadecimal digits that make valid UTF-8 text.");
    if (part->empty() || slash + 1 == path.size())
      return refuse(404, "There is no such page: a part of the address is empty.");
    out.parts.push_back(std::move(*part));
    path.remove_prefix(std::min(slash + 1, path.size()));
  }
  if (!out.parts.empty() && out.parts.back().ends_with(".json")) {
    out.json = true;
    out.parts.back().resize(out.parts.back().size() - 5);
    if (out.parts.size() == 1 && out.parts[0] == "index") out.parts.clear();
  }
  return out;
}

// A whole number from 1, in decimal digits only.
inline std::optional<int64_t> parse_id(std::string_view s) {
  if (s.empty() || s.size() > 18 || s[0] == '0') return {};
  int64_t value = 0;
  for (const char c : s) {
    if (c < '0' || c > '9') return {};
    value = 10 * value + (c - '0');
  }
  return value;
}

// True if one of the versions in `if_none_match` is this one.
inline bool has_version(std::string_view if_none_match, std::string_view etag) {
  if (if_none_match == "*") return true;
  const auto opaque = [](std::string_view tag) { return tag.starts_with("W/") ? tag.substr(2) : tag; };
  while (!if_none_match.empty()) {
    const size_t comma = std::min(if_none_match.find(','), if_none_match.size());
    std::string_view one = if_none_match.substr(0, comma);
    if_none_match.remove_prefix(std::min(comma + 1, if_none_match.size()));
    while (!one.empty() && (one.front() == ' ' || one.front() == '\t')) one.remove_prefix(1);
    while (!one.empty() && (one.back() == ' ' || one.back() == '\t')) one.remove_suffix(1);
    if (!one.empty() && opaque(one) == opaque(etag)) return true;
  }
  return false;
}

// A program asks for JSON; a browser, which accepts everything, names HTML, too.
inline bool accepts_json(std::string_view accept) {
  return accept.find("application/json") != std::string_view::npos &&
         accept.find("text/html") == std::string_view::npos;
}

}  // namespace tinymlperf::board
