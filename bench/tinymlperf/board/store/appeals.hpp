// Appeals: the owner of a refused run may say once why the refusal was wrong, and the operator of the board
// may answer once. Both are added and never changed, and neither changes a rank: measurements stay as they
// are.
#pragma once

#include <optional>
#include <string>
#include <tinymlperf/board/store/reviews.hpp>
#include <tinymlperf/support/json_fields.hpp>
#include <utility>
#include <vector>

namespace tinymlperf::board {

// A run that keeps its submission from a rank: it was put out, failed the gate of its division, or failed an
// audit that was not released.
inline bool is_refused(const Result& r) {
  return !r.gate.passed || (!r.failed_audit.empty() && !(r.review && r.review->released));
}

struct AppealRow {
  int64_t id = 0, run = 0, submission = 0;
  std::string name;  // name of the submission
  Appeal appeal;
};

class Appeals {
 public:
  explicit Appeals(Database& db) : db_(db) {}

  // Call it inside a transaction. Returns the appeal's number. Throws Refusal.
  int64_t add(int64_t user, int64_t submission, int64_t run, const std::string& note,
              const std::string& now) {
    require_note("appeal", "note", note);
    if (db_.integer("SELECT user FROM bundles WHERE id = ?", submission) != user)
      refuse("submission", "a submission of the one whose token this is", std::to_string(submission));
    if (!place_in(db_, run, submission))
      refuse("run", "a run of submission " + std::to_string(submission), std::to_string(run));
    auto result = result_in(db_, run, submission);
    if (result) result = Reviews(db_).reviewed(*std::move(result));
    if (!result || !is_refused(*result)) refuse("run", "one that was refused", "one that counts");
    if (db_.integer("SELECT id FROM appeals WHERE run = ? AND bundle = ?", run, submission))
      refuse("run", "at most one appeal", "a second");
    return db_.insert("INSERT INTO appeals(run, bundle, user, note, created) VALUES(?, ?, ?, ?, ?)", run,
                      submission, user, note, now);
  }

  // Call it inside a transaction. Returns the submission. Throws Refusal.
  int64_t answer(int64_t appeal, const std::string& text, const std::string& now) {
    require_note("appeal", "answer", text);
    const auto submission = db_.integer("SELECT bundle FROM appeals WHERE id = ?", appeal);
    if (!submission) refuse("number", "an appeal of this board", "no number " + std::to_string(appeal));
    if (db_.integer("SELECT 1 FROM answers WHERE appeal = ?", appeal))
      refuse("answer", "at most one answer", "a second");
    db_.run("INSERT INTO answers VALUES(?, ?, ?)", appeal, text, now);
    return *submission;
  }

  // Returns the appeal against a run of a submission; nullopt if there is none.
  std::optional<Appeal> of(int64_t run, int64_t submission) {
    std::vector<AppealRow> found =
        collect(db_.query("SELECT * FROM appeal_list WHERE run = ? AND bundle = ?", run, submission));
    if (found.empty()) return std::nullopt;
    return std::move(found.front().appeal);
  }

  // Appeals without an answer first, then by number.
  std::vector<AppealRow> all() {
    return collect(db_.query("SELECT * FROM appeal_list ORDER BY answered <> '', id"));
  }

 private:
  static std::vector<AppealRow> collect(Rows r) {
    std::vector<AppealRow> out;
    while (r.next())
      out.push_back({r.integer(0),
                     r.integer(1),
                     r.integer(2),
                     r.text(3),
                     {r.integer(0), r.text(4), r.text(5), r.text(6), r.text(7)}});
    return out;
  }
  [[noreturn]] static void refuse(const char* where, const std::string& expected, const std::string& found) {
    throw Refusal("appeal", where, expected, found);
  }
  Database& db_;
};

}  // namespace tinymlperf::board
