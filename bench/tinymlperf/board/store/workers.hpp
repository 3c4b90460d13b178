// The workers of a board on other machines: who may play its matches over HTTP.
//
// Whoever runs the board issues a token of two words, "IDENTITY.KEY", which is shown once. A worker sends the
// identity with every request, and signs what it sends with the key, which never travels. The board keeps the
// digest of the identity and the key, since a signature can only be checked with the key: the board's file is
// a secret, as are the sources in it. A revoked worker loses its key, and its leases end by themselves.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <tinymlperf/board/store/database.hpp>
#include <tinymlperf/board/store/users.hpp>
#include <tinymlperf/bundle/digest.hpp>
#include <vector>

namespace tinymlperf::board {

// The content of a worker's token file.
struct WorkerToken {
  std::string identity, key;

  std::string text() const { return identity + "." + key; }
  // Throws std::invalid_argument.
  static WorkerToken parse(const std::string& text) {
    const size_t dot = std::min(text.find('.'), text.size());
    WorkerToken t{text.substr(0, dot), text.substr(std::min(dot + 1, text.size()))};
    if (!bundle::is_sha256(t.identity) || !bundle::is_sha256(t.key))  // words have the form of digests
      throw std::invalid_argument(
          "the token is not one of a worker: expected the two words with a dot between them that "
          "`tinymlperf course worker add` printed");
    return t;
  }
};

// The signature of what a worker sends. It covers the address, which says what the worker asks for, so that
// no body is taken for one of another kind.
inline std::string signature_of(const std::string& key, std::string_view address, std::string_view body) {
  return bundle::hmac_sha256(
      key, "tinymlperf-work-1\n" + std::string(address) + "\n" + bundle::sha256(body) + "\n");
}

struct WorkerRow {
  int64_t id = 0;
  std::string name, key;                // the key of a revoked worker is empty
  std::string hardware, seen, created;  // `hardware`: of the last claim
};

class Workers {
 public:
  explicit Workers(Database& db) : db_(db) {}

  // Call it inside a transaction. A revoked worker gets a new token. Throws Refusal.
  WorkerToken add(const std::string& name, const std::string& now) {
    constexpr size_t kLongest = 60;
    if (name.empty() || name.size() > kLongest || !name_complaint(name).empty())
      refuse("a name of 1 to 60 bytes in one script", name);
    const auto known = of_name(name);
    if (known && !known->key.empty()) refuse("a name that no worker has", name);
    const WorkerToken token{random_word(), random_word()};
    const std::string digest = bundle::sha256(token.identity);
    if (known)
      db_.run("UPDATE workers SET token_sha256 = ?, key = ? WHERE id = ?", digest, token.key, known->id);
    else
      db_.run("INSERT INTO workers(name, token_sha256, key, created) VALUES(?, ?, ?, ?)", name, digest,
              token.key, now);
    return token;
  }

  // Call it inside a transaction. Throws Refusal.
  void revoke(const std::string& name) {
    const auto known = of_name(name);
    if (!known || known->key.empty()) refuse("a worker that has a token", name);
    db_.run("UPDATE workers SET token_sha256 = 'revoked ' || id, key = '' WHERE id = ?", known->id);
  }

  // Returns the worker with this identity; nullopt if nobody has it (any more).
  std::optional<WorkerRow> of_identity(const std::string& identity) {
    return first(
        db_.query("SELECT id, name, key, hardware, seen, created FROM workers WHERE token_sha256 = ?",
                  bundle::sha256(identity)));
  }

  void note_claim(int64_t worker, const std::string& hardware, const std::string& now) {
    db_.run("UPDATE workers SET hardware = ?, seen = ? WHERE id = ?", hardware, now, worker);
  }

  std::vector<WorkerRow> all() {
    std::vector<WorkerRow> out;
    for (Rows r = db_.query("SELECT id, name, key, hardware, seen, created FROM workers ORDER BY id");
         r.next();)
      out.push_back(row(r));
    return out;
  }

 private:
  std::optional<WorkerRow> of_name(const std::string& name) {
    return first(
        db_.query("SELECT id, name, key, hardware, seen, created FROM workers WHERE name = ?", name));
  }
  static std::optional<WorkerRow> first(Rows r) {
    if (!r.next()) return std::nullopt;
    return row(r);
  }
  static WorkerRow row(const Rows& r) {
    return {r.integer(0), r.text(1), r.text(2), r.text(3), r.text(4), r.text(5)};
  }
  [[noreturn]] static void refuse(const char* expected, const std::string& found) {
    throw Refusal("worker", "name", expected, tinymlperf::detail::show(Json(found)));
  }
  Database& db_;
};

}  // namespace tinymlperf::board
