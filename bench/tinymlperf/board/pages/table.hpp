// One table of the board, a page of rows at a time, and the tabs of its charts.
#pragma once

#include <optional>
#include <string>
#include <tinymlperf/board/pages/rows.hpp>

namespace tinymlperf::board {

// A page of a long list. Pages count from 1.
struct Slice {
  size_t page = 1, pages = 1, first = 0, count = 0;
};

inline constexpr size_t kRowsPerPage = 50;

// The rows of a page, whose numbers begin with 1; nullopt if there is no such page.
inline std::optional<Slice> slice_of(size_t total, size_t page, size_t each) {
  const size_t pages = std::max<size_t>(1, (total + each - 1) / each);
  if (page < 1 || page > pages) return {};
  const size_t first = (page - 1) * each;
  return Slice{page, pages, first, std::min(each, total - first)};
}

inline std::string slice_links(const std::string& href, const Slice& s) {
  if (s.pages == 1) return "";
  std::string out = "<nav class=\"pages\" aria-label=\"Pages\"><ul>\n";
  if (s.page > 1)
    out += fmt::format("<li><a rel=\"prev\" href=\"{}?page={}\">Previous</a></li>\n", href, s.page - 1);
  out += fmt::format("<li aria-current=\"page\">Page {} of {}</li>\n", s.page, s.pages);
  if (s.page < s.pages)
    out += fmt::format("<li><a rel=\"next\" href=\"{}?page={}\">Next</a></li>\n", href, s.page + 1);
  return out + "</ul></nav>\n";
}

// The head of a table's three pages: title, task, tabs.
inline std::string table_head(const Site& site, const Table& table, const std::string& view) {
  const TableKey& key = table.key;
  std::string out = "<h1>" + table_title(key) + "</h1>\n<p class=\"lead\">" + text(table.task, 300) + " " +
                    tier_badge(key.tier) + "</p>\n";
  out += "<nav class=\"tabs\" aria-label=\"Views of this table\"><ul>\n";
  for (const auto& [path, label] :
       {std::pair{"", "Table"}, {"pareto", "Quality against time"}, {"history", "History"}}) {
    if (table.kernels && path == std::string("pareto")) continue;  // kernels are right or wrong
    out += fmt::format("<li><a href=\"{}\"{}>{}</a></li>\n", site.table(key, path),
                       view == path ? " aria-current=\"page\"" : "", label);
  }
  return out + "</ul></nav>\n";
}

inline std::string table_plain_title(const TableKey& k) {
  return k.benchmark + ", " + k.division + ", " + k.hardware + (is_usual_tier(k) ? "" : ", tier " + k.tier);
}

inline std::string table_page(const Site& site, const Table& table, const Slice& slice) {
  std::string body = table_head(site, table, "");
  if (table.rows.empty())
    return page(site, Here::elsewhere, table_plain_title(table.key), body + "<p>No submission yet.</p>\n");
  const std::string least =
      table.kernels
          ? "fast<sub>p</sub>: the share of all ops and shapes that are right and more than p times "
            "as fast as the baseline's."
          : fmt::format("Least {}: {}.", text(table.quality_metric, 40), show_number(table.quality_floor));
  const std::string caption = fmt::format(
      "{} submissions. {} Neighbours of one tint share a rank, because their 95 % intervals overlap.",
      table.rows.size(), least);
  body += table_rows(site, table, "rows", caption, slice.first, slice.count, false) +
          slice_links(site.table(table.key), slice);
  return page(site, Here::elsewhere, table_plain_title(table.key), body);
}

}  // namespace tinymlperf::board
