// The grades of a class as CSV: for every user and table one submission, the best or the latest.
#pragma once

#include <fmt/format.h>

#include <map>
#include <string>
#include <tinymlperf/board/store/queries.hpp>

namespace tinymlperf::board {

enum class Graded { best, latest };

// A field for spreadsheets, which take a text for a formula that begins with one of these characters.
inline std::string csv_field(const std::string& text) {
  std::string out;
  if (!text.empty() && std::string_view("=+-@\t\r").find(text[0]) != std::string_view::npos) out = "'";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out.find_first_of(",\"\n\r") == std::string::npos ? out : "\"" + out + "\"";
}

namespace detail {

// The row of each user that counts. Rows come best first, and those without a rank last.
inline std::map<std::string, const Row*> graded_rows(Database& db, const Table& t, Graded which) {
  std::map<std::string, const Row*> out;
  for (const Row& row : t.rows) {
    const std::string owner =
        db.text("SELECT u.name FROM bundles b JOIN users u ON u.id = b.user WHERE b.id = ?", row.submission)
            .value_or("");
    const auto [kept, is_first] = out.emplace(owner, &row);
    if (!is_first && which == Graded::latest && row.submission > kept->second->submission)
      kept->second = &row;
  }
  return out;
}

}  // namespace detail

// Whoever submitted nothing has one line with empty fields.
inline std::string grades_csv(Store& store, Graded which) {
  Database& db = store.database();
  Queries queries(store, {.has_file = true});
  std::map<std::string, std::string> lines;  // of each user
  for (const TableKey& key : queries.table_keys()) {
    const Table table = queries.table(key).value();
    for (const auto& [owner, row] : detail::graded_rows(db, table, which)) {
      std::string& text = lines[owner];
      text +=
          fmt::format(",{},{},{},{},{},{}", csv_field(key.benchmark), csv_field(key.division),
                      csv_field(key.hardware), csv_field(key.tier), row->submission, csv_field(row->name));
      text += row->rank ? fmt::format(",{}", row->rank) : std::string(",");
      text += row->score ? fmt::format(",{:.2f},{:.2f},{:.2f}", row->score->estimate, row->score->low,
                                       row->score->high)
                         : std::string(",,,");
      text += "," + csv_field(one_line(row->not_ranked)) + "," + csv_field(row->date) + "\n";
    }
  }
  std::string out =
      "user,team,submissions,benchmark,division,hardware,tier,submission,name,rank,score,low,high,"
      "not ranked,date\n";
  for (const UserRow& u : store.users()) {
    const std::string head = fmt::format("{},{},{}", csv_field(u.name), csv_field(u.team), u.submissions);
    std::string rest = lines.contains(u.name) ? lines.at(u.name) : std::string(12, ',') + "\n";
    for (size_t at = 0; at < rest.size();) {
      const size_t end = rest.find('\n', at);
      out += head + rest.substr(at, end + 1 - at);
      at = end + 1;
    }
  }
  return out;
}

}  // namespace tinymlperf::board
