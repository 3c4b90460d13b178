// The changes that an instructor makes to a board: its roster, tokens, workers, deadline, privacy and
// pseudonyms.
#pragma once

#include <string>
#include <tinymlperf/board/store/roster.hpp>
#include <tinymlperf/board/store/store.hpp>
#include <tinymlperf/board/store/workers.hpp>
#include <vector>

namespace tinymlperf::board {

class Course {
 public:
  explicit Course(Store& store) : store_(store), db_(store.database()) {}

  // Takes a whole roster, or nothing of it. If it gives pseudonyms, they are on from then. `keep` gets the
  // new tokens before they count. Throws std::invalid_argument with all complaints.
  template <class Keep>
  Enrolled enroll(const std::vector<RosterLine>& roster, const std::string& file, Keep keep) {
    Transaction t(db_);
    const Enrolled out = board::enroll(db_, roster, file, store_.options().quota, store_.queue().now());
    store_.note("roster", {}, {},
                std::to_string(out.added) + " new, " + std::to_string(out.changed) + " known");
    if (out.pseudonyms > 0) turn_pseudonyms(true);
    keep(out);
    t.commit();
    return out;
  }

  // Returns the new token; the old one is void. Throws Refusal.
  std::string renew_token(const std::string& name) {
    const std::string token = random_word();
    Transaction t(db_);
    const int64_t user = Users(db_).require(name);
    Users(db_).set_token(user, token);
    store_.note("renewal", user, {}, name);
    t.commit();
    return token;
  }
  // Throws Refusal.
  void revoke_token(const std::string& name) {
    Transaction t(db_);
    const int64_t user = Users(db_).require(name);
    Users(db_).revoke(user);
    store_.note("revocation", user, {}, name);
    t.commit();
  }

  // Returns the token of a worker on another machine, which is shown only once. Throws Refusal.
  WorkerToken add_worker(const std::string& name) {
    Transaction t(db_);
    const WorkerToken token = Workers(db_).add(name, store_.queue().now());
    store_.note("worker", {}, {}, name + " may play matches");
    t.commit();
    return token;
  }
  // Throws Refusal.
  void revoke_worker(const std::string& name) {
    Transaction t(db_);
    Workers(db_).revoke(name);
    store_.note("worker", {}, {}, name + " may not play matches any more");
    t.commit();
  }

  // Sets the deadline; an empty text removes it. Throws Refusal.
  void set_deadline(const std::string& moment) {
    Transaction t(db_);
    Settings(db_).set_deadline(moment);
    store_.note("deadline", {}, {}, moment.empty() ? "none" : moment);
    t.commit();
  }
  void set_private(bool is) {
    Transaction t(db_);
    Settings(db_).set_private(is);
    store_.note("private", {}, {}, is ? "yes" : "no");
    t.commit();
  }
  // While they are on, everybody but instructors sees pseudonyms instead of names, and no sources.
  void set_pseudonyms(bool are) {
    Transaction t(db_);
    turn_pseudonyms(are);
    t.commit();
  }

 private:
  void turn_pseudonyms(bool on) {
    if (on) Users(db_).complete_pseudonyms();
    Settings(db_).set_pseudonyms(on);
    store_.note("pseudonyms", {}, {}, on ? "yes" : "no");
  }

  Store& store_;
  Database& db_;
};

}  // namespace tinymlperf::board
