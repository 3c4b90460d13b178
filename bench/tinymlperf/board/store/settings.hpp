// The settings of a whole board, which its instructor decides: its deadline, whether sources are hidden until
// then, and whether its users are shown under pseudonyms.
//
// After the deadline nobody submits or asks for a match; jobs that wait are still played. Until the deadline
// of a private board, pages show which files a submission has, and neither their text nor what follows from
// it.
#pragma once

#include <optional>
#include <string>
#include <tinymlperf/board/store/database.hpp>
#include <tinymlperf/support/json_fields.hpp>

namespace tinymlperf::board {

class Settings {
 public:
  explicit Settings(Database& db) : db_(db) {}

  // A moment such as "2026-12-24T23:59:59Z"; empty: there is none.
  std::string deadline() { return value("deadline"); }
  bool is_private() { return value("private") == "yes"; }
  bool has_pseudonyms() { return value("pseudonyms") == "yes"; }

  // Call these inside a transaction. Throws Refusal.
  void set_deadline(const std::string& moment) {
    const std::string form = "0000-00-00T00:00:00Z";
    bool good = moment.empty() || moment.size() == form.size();
    for (size_t i = 0; good && i < moment.size(); ++i)
      good = form[i] == '0' ? moment[i] >= '0' && moment[i] <= '9' : moment[i] == form[i];
    // SQLite knows how many days a month has, and returns another moment or none for a wrong one.
    if (good && !moment.empty())
      good = db_.text("SELECT strftime('%Y-%m-%dT%H:%M:%SZ', ?, '+0 days')", moment) == moment;
    if (!good)
      throw Refusal("course", "deadline", "a moment such as 2026-12-24T23:59:59Z (UTC)",
                    tinymlperf::detail::show(Json(moment)));
    set("deadline", moment);
  }
  void set_private(bool is) { set("private", is ? "yes" : ""); }
  void set_pseudonyms(bool are) { set("pseudonyms", are ? "yes" : ""); }

  // `now`: the present moment as a text; such texts sort like moments.
  bool is_over(const std::string& now) {
    const std::string end = deadline();
    return !end.empty() && now > end;
  }
  // Until when sources are hidden; empty: they are shown. A private board without a deadline hides them until
  // it has one, and one with pseudonyms as long as these are on.
  std::optional<std::string> sealed_until(const std::string& now) {
    if (has_pseudonyms()) return "";
    if (!is_private() || is_over(now)) return std::nullopt;
    return deadline();
  }
  void require_open(const std::string& now) {
    if (is_over(now))
      throw Refusal("board", "", "a request before the deadline, " + deadline(), "one at " + now);
  }

 private:
  std::string value(const std::string& name) {
    return db_.text("SELECT value FROM settings WHERE name = ?", name).value_or("");
  }
  void set(const std::string& name, const std::string& value) {
    db_.run("INSERT INTO settings VALUES(?, ?) ON CONFLICT(name) DO UPDATE SET value = excluded.value", name,
            value);
  }
  Database& db_;
};

}  // namespace tinymlperf::board
