// The page for a request that cannot be answered: what was wrong, and what to do.
#pragma once

#include <string>
#include <tinymlperf/board/pages/html.hpp>

namespace tinymlperf::board {

inline const char* status_title(int status) {
  switch (status) {
    case 400:
      return "Bad request";
    case 401:
      return "Not allowed";
    case 404:
      return "Not found";
    case 405:
      return "Not that way";
    case 408:
      return "Too slow";
    case 411:
      return "Length required";
    case 413:
      return "Too large";
    case 414:
      return "Address too long";
    case 415:
      return "Unknown type";
    case 422:
      return "Refused";
    case 429:
      return "Too many requests";
    case 431:
      return "Headers too large";
    default:
      return status >= 500 ? "The board failed" : "Request refused";
  }
}

inline std::string error_page(const Site& site, int status, std::string_view reason) {
  const std::string body =
      fmt::format("<h1>{}</h1>\n<p class=\"lead words\">{}</p>\n<p>{}</p>\n", status_title(status),
                  text(reason, 2000), link(site.front(), "To the leaderboard"));
  return page(site, Here::elsewhere, status_title(status), body);
}

}  // namespace tinymlperf::board
