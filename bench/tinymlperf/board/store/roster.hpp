// The roster of a class: a CSV file whose first line names the columns, in any order.
//
//   name,team,token,quota,pseudonym
//   Ada Lovelace,Compilers,,20,
//   "Hopper, Grace",,a-token-of-16-bytes-or-more,,Debugger
//
// Only `name` is needed. A user who is on the board already gets the quota, team, token and pseudonym that
// the roster gives; others are added, with a random token and pseudonym where it gives none. Either every
// line is taken or nothing is: all complaints come together, each with its line.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tinymlperf/board/store/users.hpp>
#include <tinymlperf/support/json_fields.hpp>
#include <utility>
#include <vector>

namespace tinymlperf::board {

struct RosterLine {
  int64_t number = 0;            // in the file, from 1
  NewUser user;                  // an empty token: none is given
  std::optional<int64_t> quota;  // empty: not given
  std::optional<std::string> team;
  std::string pseudonym = {};  // empty: not given
};

// Complaints about a roster, each with the line that it is about.
class RosterComplaints {
 public:
  explicit RosterComplaints(std::string file) : file_(std::move(file)) {}
  void add(int64_t line, const std::string& what) {
    constexpr int64_t kMost = 20;
    if (++count_ <= kMost) text_ += file_ + ":" + std::to_string(line) + ": " + what + "\n";
    if (count_ == kMost + 1) text_ += "(more lines are wrong, too)\n";
  }
  // Throws std::invalid_argument if there is one.
  void raise() const {
    if (count_ > 0) throw std::invalid_argument(text_ + "nothing was changed");
  }

 private:
  std::string file_, text_;
  int64_t count_ = 0;
};

namespace detail {

// The fields of a line; empty: a quotation mark stands where it may not.
inline std::optional<std::vector<std::string>> csv_fields(std::string_view line) {
  std::vector<std::string> out(1);
  bool quoted = false, closed = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted && c == '"' && i + 1 < line.size() && line[i + 1] == '"')
      out.back() += '"', ++i;
    else if (quoted && c == '"')
      quoted = false, closed = true;
    else if (!quoted && c == ',')
      out.emplace_back(), closed = false;
    else if (c == '"' && !quoted && (closed || !out.back().empty()))
      return std::nullopt;
    else if (c == '"' && !quoted)
      quoted = true;
    else if (closed)
      return std::nullopt;
    else
      out.back() += c;
  }
  if (quoted) return std::nullopt;
  for (std::string& field : out) {
    field.erase(0, std::min(field.find_first_not_of(" \t"), field.size()));
    field.erase(field.find_last_not_of(" \t") + 1);
  }
  return out;
}

inline RosterLine roster_line(int64_t number, const std::vector<std::string>& fields,
                              const std::map<std::string, size_t>& columns, RosterComplaints& complaints) {
  constexpr int64_t kLargestQuota = 100000;
  const auto field = [&](const char* name) {
    const auto column = columns.find(name);
    return column == columns.end() ? std::string() : fields[column->second];
  };
  RosterLine out{number, {field("name"), 0, field("team"), "", field("token")}, {}, {}, {}};
  if (columns.contains("team")) out.team = out.user.team;
  out.pseudonym = field("pseudonym");
  if (const std::string quota = field("quota"); !quota.empty()) {
    int64_t value = -1;
    const auto [end, error] = std::from_chars(quota.data(), quota.data() + quota.size(), value);
    if (error != std::errc() || end != quota.data() + quota.size() || value < 0 || value > kLargestQuota)
      complaints.add(number, "quota: expected a whole number from 0 to " + std::to_string(kLargestQuota) +
                                 ", found " + tinymlperf::detail::show(Json(clean(quota, 60))));
    out.quota = value;
  }
  if (out.user.name.empty()) complaints.add(number, "name: expected a name, found none");
  return out;
}

}  // namespace detail

// Throws std::invalid_argument with all complaints.
inline std::vector<RosterLine> parse_roster(std::string_view text, const std::string& file) {
  RosterComplaints complaints(file);
  std::vector<RosterLine> out;
  std::map<std::string, size_t> columns;
  std::map<std::string, int64_t> lines_of_names;
  size_t width = 0;
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // as spreadsheets write it
  for (int64_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.find_first_not_of(" \t,") == std::string_view::npos) continue;
    const auto fields = detail::csv_fields(line);
    if (!fields) {
      complaints.add(number, "a quotation mark is not closed, or stands inside a field");
      continue;
    }
    if (columns.empty()) {
      for (const std::string& name : *fields) {
        constexpr std::array kColumns{"name", "team", "token", "quota", "pseudonym"};
        const bool known = std::ranges::find(kColumns, name) != kColumns.end();
        if (!known || !columns.emplace(name, columns.size()).second)
          throw std::invalid_argument(file + ":" + std::to_string(number) +
                                      ": expected the columns name, team, token, quota and pseudonym, each "
                                      "at most once, found " +
                                      tinymlperf::detail::show(Json(clean(name, 60))));
      }
      if (!columns.contains("name"))
        throw std::invalid_argument(file + ":" + std::to_string(number) + ": expected a column name");
      width = fields->size();
      continue;
    }
    if (fields->size() != width) {
      complaints.add(number, "expected " + std::to_string(width) + " fields as in the first line, found " +
                                 std::to_string(fields->size()));
      continue;
    }
    out.push_back(detail::roster_line(number, *fields, columns, complaints));
    const auto [known, is_new] = lines_of_names.emplace(out.back().user.name, number);
    if (!is_new && !out.back().user.name.empty())
      complaints.add(number, "name: it stands in line " + std::to_string(known->second) + " already");
  }
  if (columns.empty())
    throw std::invalid_argument(file + ": expected a first line such as name,team,token,quota");
  complaints.raise();
  return out;
}

struct Enrolled {
  int64_t added = 0, changed = 0, pseudonyms = 0;
  std::vector<std::pair<std::string, std::string>> tokens;  // names and random tokens of new users
};

namespace detail {

inline void name_pseudonym(Users& users, int64_t user, const RosterLine& line, Enrolled& done) {
  if (line.pseudonym.empty()) return;
  users.name_pseudonym(user, line.pseudonym);
  ++done.pseudonyms;
}

}  // namespace detail

// Call it inside a transaction, and commit it only if nothing is thrown. `quota`: of those for whom the
// roster gives none.
inline Enrolled enroll(Database& db, const std::vector<RosterLine>& roster, const std::string& file,
                       int64_t quota, const std::string& now) {
  Users users(db);
  Enrolled out;
  RosterComplaints complaints(file);
  for (const RosterLine& line : roster) {
    NewUser u = line.user;
    try {
      if (const auto known = users.of_name(u.name)) {
        users.change(*known, line.quota, line.team, u.token);
        ++out.changed;
        detail::name_pseudonym(users, *known, line, out);
        continue;
      }
      u.quota = line.quota.value_or(quota);
      const std::string token = u.token.empty() ? random_word() : u.token;
      detail::name_pseudonym(users, users.add(u, token, now), line, out);
      if (u.token.empty()) out.tokens.emplace_back(u.name, token);
      ++out.added;
    } catch (const Refusal& r) {
      complaints.add(line.number, r.where + ": expected " + r.expected + ", found " + r.found);
    }
  }
  complaints.raise();
  return out;
}

}  // namespace tinymlperf::board
