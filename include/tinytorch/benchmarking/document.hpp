// Formatting of results: numbers with units, tables for a terminal and for a page, and the HTML page.
//
// A page is one self-contained HTML file: it loads nothing and runs no script. Every text is escaped.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <tinytorch/benchmarking/svg.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::document {

template <class T>
std::string show_bytes(T count) {
  auto bytes = static_cast<double>(count);
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  for (; std::abs(bytes) >= 1024 && unit < 4; ++unit) bytes /= 1024;
  return fmt::format("{:.{}f} {}", bytes, unit == 0 ? 0 : 1, kUnits[unit]);
}

inline std::string show_seconds(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.2f} ms", seconds * 1e3);
  return fmt::format("{:.2f} s", seconds);
}

// The first row is the header.
using Row = std::vector<std::string>;
using Rows = std::vector<Row>;

// A table whose columns are separated by two spaces. Column `left` is aligned left, all others right.
inline std::string text_table(const Rows& rows, size_t left = 0) {
  const auto width_of = [](const std::string& text) {  // number of UTF-8 characters
    return static_cast<size_t>(
        std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
  };
  std::vector<size_t> widths(rows[0].size(), 0);
  for (const Row& row : rows)
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], width_of(row[c]));
  std::string out;
  const auto end_line = [&] {
    while (!out.empty() && out.back() == ' ') out.pop_back();
    out += '\n';
  };
  for (size_t i = 0; i < rows.size(); ++i) {
    for (size_t c = 0; c < rows[i].size(); ++c) {
      const std::string room(widths[c] - width_of(rows[i][c]), ' ');
      out += (c == left ? rows[i][c] + room : room + rows[i][c]) + "  ";
    }
    end_line();
    if (i > 0) continue;
    for (const size_t w : widths) out += std::string(w, '-') + "  ";
    end_line();
  }
  return out;
}

inline std::string html_table(const Rows& rows) {
  std::string out = "<div class=\"wide\"><table>\n";
  for (size_t i = 0; i < rows.size(); ++i) {
    out += "<tr>";
    for (const std::string& cell : rows[i])
      out += i == 0 ? "<th>" + svg::escape(cell) + "</th>" : "<td>" + svg::escape(cell) + "</td>";
    out += "</tr>\n";
  }
  return out + "</table></div>\n";
}

inline std::string html_list(const std::vector<std::string>& lines) {
  std::string out = "<ul>\n";
  for (const std::string& line : lines) out += "<li>" + svg::escape(line) + "</li>\n";
  return out + "</ul>\n";
}

// A complete page. `body` is HTML. The first `left` columns of tables are text, the others are numbers.
inline std::string html_page(const std::string& title, const std::string& body, int left = 1) {
  return fmt::format(
      R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1"><meta )"
      R"(http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{0}</title>
<style>:root{{color-scheme:light dark}}
body{{max-width:960px;margin:2rem auto;padding:0 1rem;font:15px/1.5 system-ui,sans-serif;background:#fff;color:#1f2328}}
table{{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums}}
th,td{{padding:.3rem .6rem;text-align:right;border-bottom:1px solid #d8dde3;white-space:nowrap}}
th:nth-child(-n+{2}),td:nth-child(-n+{2}){{text-align:left}}.wide{{overflow-x:auto}}figure{{margin:1.5rem 0}}
@media (prefers-color-scheme:dark){{body{{background:#15191e;color:#e6edf3}}th,td{{border-color:#333b44}}}}
{3}</style></head><body>
<h1>{0}</h1>
{1}</body></html>
)",
      svg::escape(title), body, left, svg::chart_style());
}

}  // namespace tinytorch::inline TT_BUILD::document
