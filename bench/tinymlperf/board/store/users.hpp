// The users of a board: who may submit, how much a day, who teaches, and each one's pseudonym
// (pseudonyms.hpp). A token is shown once; the board keeps its digest alone.
#pragma once

#include <openssl/rand.h>

#include <array>
#include <optional>
#include <stdexcept>
#include <string>
#include <tinymlperf/board/store/database.hpp>
#include <tinymlperf/bundle/digest.hpp>
#include <tinymlperf/support/foreign_text.hpp>
#include <tinymlperf/support/json_fields.hpp>
#include <vector>

namespace tinymlperf::board {

// 32 random bytes.
inline std::string random_word() {
  std::array<unsigned char, 32> bytes{};
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1)
    throw std::runtime_error("OpenSSL has no random bytes");
  return bundle::hexadecimal(bytes.data(), bytes.size());
}

struct UserRow {
  std::string name;
  int64_t quota = 0, used_today = 0, submissions = 0;
  std::string team, role;
  bool has_token = true;  // false: it was revoked
  std::string pseudonym = {};
};

// The data of a user who is not on the board yet.
struct NewUser {
  std::string name;
  int64_t quota = 0;
  std::string team = {}, role = {};  // role: "" or "instructor"
  std::string token = {};            // empty: a random one
};

class Users {
 public:
  static constexpr const char* kInstructor = "instructor";

  explicit Users(Database& db) : db_(db) {}

  // Call it inside a transaction. Returns the user's number. Throws Refusal.
  int64_t add(const NewUser& u, const std::string& token, const std::string& now) {
    require_name("name", u.name);
    if (!u.team.empty()) require_name("team", u.team);
    if (of_name(u.name)) refuse("name", "a name that is not taken", tinymlperf::detail::show(Json(u.name)));
    require_free(token);
    const int64_t user = db_.insert(
        "INSERT INTO users(name, token_sha256, quota, created, team, role) VALUES(?, ?, ?, ?, ?, ?)", u.name,
        bundle::sha256(token), u.quota, now, u.team, u.role);
    set_pseudonym(user, random_pseudonym());
    return user;
  }

  // Call these inside a transaction. Throws Refusal.
  void name_pseudonym(int64_t user, const std::string& pseudonym) {
    require_name("pseudonym", pseudonym);
    if (of_name(pseudonym) || holder_of(pseudonym).value_or(user) != user)
      refuse("pseudonym", "one that nobody has, and nobody's name",
             tinymlperf::detail::show(Json(pseudonym)));
    set_pseudonym(user, pseudonym);
  }
  // Users of an older board have none.
  void complete_pseudonyms() {
    std::vector<int64_t> without;
    for (Rows r = db_.query("SELECT id FROM users WHERE id NOT IN (SELECT user FROM pseudonyms)"); r.next();)
      without.push_back(r.integer(0));
    for (const int64_t user : without) set_pseudonym(user, random_pseudonym());
  }

  // Changes what is given; an empty token is none. Call it inside a transaction. Throws Refusal.
  void change(int64_t user, std::optional<int64_t> quota, const std::optional<std::string>& team,
              const std::string& token) {
    if (quota) db_.run("UPDATE users SET quota = ? WHERE id = ?", *quota, user);
    if (team && !team->empty()) require_name("team", *team);
    if (team) db_.run("UPDATE users SET team = ? WHERE id = ?", *team, user);
    if (!token.empty() && of_token(token) != user) set_token(user, token);
  }
  void set_token(int64_t user, const std::string& token) {
    require_free(token);
    db_.run("UPDATE users SET token_sha256 = ? WHERE id = ?", bundle::sha256(token), user);
  }
  // No token has a digest that is no digest.
  void revoke(int64_t user) {
    db_.run("UPDATE users SET token_sha256 = 'revoked ' || id WHERE id = ?", user);
  }

  std::optional<int64_t> of_token(const std::string& token) {
    return db_.integer("SELECT id FROM users WHERE token_sha256 = ?", bundle::sha256(token));
  }
  std::optional<int64_t> of_name(const std::string& name) {
    return db_.integer("SELECT id FROM users WHERE name = ?", name);
  }
  int64_t require(const std::string& name) {
    const auto user = of_name(name);
    if (!user) refuse("name", "a user of this board", tinymlperf::detail::show(Json(name)));
    return *user;
  }
  bool is_instructor(int64_t user) {
    return db_.integer("SELECT 1 FROM users WHERE id = ? AND role = 'instructor'", user).has_value();
  }

  // Submissions and requested matches since midnight (UTC). `now`: the present moment as a text.
  int64_t used_today(int64_t user, const std::string& now) {
    const std::string today = now.substr(0, 10);  // dates sort as texts
    return db_.integer("SELECT count(*) FROM bundles WHERE user = ? AND created >= ?", user, today)
               .value_or(0) +
           db_.integer("SELECT count(*) FROM jobs WHERE user = ? AND kind = 'head-to-head' AND created >= ?",
                       user, today)
               .value_or(0);
  }

  void require_quota(int64_t user, const std::string& now) {
    const auto quota = db_.integer("SELECT quota FROM users WHERE id = ?", user);
    if (!quota) refuse("", "a user of this board", "no number " + std::to_string(user));
    if (used_today(user, now) >= *quota)
      throw Refusal("quota", "", "at most " + std::to_string(*quota) + " submissions and matches a day (UTC)",
                    "one more; try again tomorrow");
  }

  // Returns all users in the order of their arrival.
  std::vector<UserRow> all(const std::string& now) {
    std::vector<UserRow> out;
    for (Rows r = db_.query(
             "SELECT u.id, u.name, u.quota, count(b.id), u.team, u.role, u.token_sha256 LIKE 'revoked %', "
             "coalesce(p.pseudonym, '') FROM users u LEFT JOIN bundles b ON b.user = u.id LEFT JOIN "
             "pseudonyms p ON p.user = u.id GROUP BY u.id ORDER BY u.id");
         r.next();)
      out.push_back({r.text(1), r.integer(2), used_today(r.integer(0), now), r.integer(3), r.text(4),
                     r.text(5), r.integer(6) == 0, r.text(7)});
    return out;
  }

 private:
  std::optional<int64_t> holder_of(const std::string& pseudonym) {
    return db_.integer("SELECT user FROM pseudonyms WHERE pseudonym = ?", pseudonym);
  }
  void set_pseudonym(int64_t user, const std::string& pseudonym) {
    db_.run(
        "INSERT INTO pseudonyms VALUES(?, ?) ON CONFLICT(user) DO UPDATE SET pseudonym = "
        "excluded.pseudonym",
        user, pseudonym);
  }
  // "brisk-otter", which nobody has. Nothing about it depends on the user or on the order of a roster.
  std::string random_pseudonym() {
    constexpr std::array kHow{"brisk", "calm",   "clever", "crisp", "eager",  "gentle", "keen",  "lively",
                              "mild",  "nimble", "proud",  "quick", "silent", "steady", "swift", "witty"};
    constexpr std::array kWho{"badger", "bison", "camel",  "dolphin", "ferret", "gecko",  "heron", "lynx",
                              "marmot", "otter", "puffin", "raccoon", "tapir",  "turtle", "vole",  "walrus"};
    for (;;) {
      const std::string random = random_word();
      const auto digits = [&](size_t at) { return std::stoul(random.substr(at, 2), nullptr, 16); };
      const std::string pair =
          std::string(kHow[digits(0) % kHow.size()]) + "-" + kWho[digits(2) % kWho.size()];
      for (const std::string& out : {pair, pair + "-" + random.substr(4, 4)})
        if (!holder_of(out) && !of_name(out)) return out;
    }
  }
  void require_free(const std::string& token) {
    constexpr size_t kShortest = 16, kLongest = 200;
    if (token.size() < kShortest || token.size() > kLongest ||
        token.find_first_of(" \t\r\n") != std::string::npos)
      refuse("token", "16 to 200 bytes without blanks", std::to_string(token.size()) + " bytes");
    if (of_token(token)) refuse("token", "one that nobody has", "a token of this board");
  }
  static void require_name(const char* where, const std::string& name) {
    constexpr size_t kLongest = 60;
    if (name.empty() || name.size() > kLongest)
      refuse(where, "1 to " + std::to_string(kLongest) + " bytes", std::to_string(name.size()));
    if (const std::string why = name_complaint(name); !why.empty())
      refuse(where, "a name in one script, in the form NFC",
             tinymlperf::detail::show(Json(name)) + ": " + why);
  }
  [[noreturn]] static void refuse(const char* where, const std::string& expected, const std::string& found) {
    throw Refusal("user", where, expected, found);
  }
  Database& db_;
};

}  // namespace tinymlperf::board
