// Reviews of held results. A result is held if audit A9 found a training suspiciously quick, or A11 a result
// 10 times better than all others. The operator of the board releases it, which gives it its rank, or refuses
// it, with a reason. Reviews are added and never changed; the last one counts and all are shown. A result
// that fails another audit or the gate is not held and cannot be released.
#pragma once

#include <optional>
#include <string>
#include <tinymlperf/board/store/ranking.hpp>
#include <tinymlperf/board/store/runs.hpp>
#include <tinymlperf/board/store/text.hpp>
#include <tinymlperf/support/json_fields.hpp>
#include <vector>

namespace tinymlperf::board {

constexpr size_t kNoteBytes = 2000;

// A text of a user that will be published. Throws Refusal.
inline void require_note(const char* file, const char* where, const std::string& text) {
  if (text.find_first_not_of(" \t\n") == std::string::npos || text.size() > kNoteBytes)
    throw Refusal(file, where, "1 to " + std::to_string(kNoteBytes) + " bytes of text",
                  std::to_string(text.size()));
  if (clean(text) != text)
    throw Refusal(file, where, "UTF-8 text without control characters", "something else");
}

// The index of a submission among a run's contenders, not as the baseline; empty if it has none.
inline std::optional<int64_t> place_in(Database& db, int64_t run, int64_t submission) {
  return db.integer(
      "SELECT c.place FROM contenders c JOIN bundles b ON b.sha256 = c.bundle WHERE c.run = ? AND b.id = ? "
      "AND c.place > 0",
      run, submission);
}

// The result of a run for one of its submissions, without any review; empty if there is none.
inline std::optional<Result> result_in(Database& db, int64_t run, int64_t submission) {
  const auto place = place_in(db, run, submission);
  if (!place) return std::nullopt;
  auto result = result_of(read_run(db, run).value(), static_cast<size_t>(*place));
  if (result) result->run = run, result->submission = submission;
  return result;
}

struct HeldRow {
  int64_t run = 0, submission = 0;
  std::string name, detail;  // name of the submission, details of the audits that hold it
  std::vector<Review> reviews;
};

class Reviews {
 public:
  explicit Reviews(Database& db) : db_(db) {}

  // Call it inside a transaction. Throws Refusal.
  void add(int64_t submission, int64_t run, bool released, const std::string& reason,
           const std::string& now) {
    require_note("review", "reason", reason);
    const auto result = result_in(db_, run, submission);
    if (!result)
      throw Refusal("review", "run", "a run of submission " + std::to_string(submission),
                    std::to_string(run));
    if (!result->held)
      throw Refusal("review", "run", "one that is held for audit A9 or A11", "one that is not");
    db_.run("INSERT INTO reviews(run, bundle, released, reason, created) VALUES(?, ?, ?, ?, ?)", run,
            submission, released, reason, now);
  }

  // Returns the reviews of a run in the order of their arrival.
  std::vector<Review> of(int64_t run, int64_t submission) {
    std::vector<Review> out;
    for (Rows r = db_.query(
             "SELECT released, reason, created FROM reviews WHERE run = ? AND bundle = ? ORDER BY id", run,
             submission);
         r.next();)
      out.push_back({r.integer(0) != 0, r.text(1), r.text(2)});
    return out;
  }

  // The last review counts.
  Result reviewed(Result r) {
    if (!r.held) return r;
    const std::vector<Review> all = of(r.run, r.submission);
    if (!all.empty()) r.review = all.back();
    return r;
  }

  // All results that are or were held, oldest first.
  std::vector<HeldRow> held() {
    std::vector<HeldRow> out;
    for (Rows r = db_.query(
             "SELECT a.run, b.id, b.name, a.detail, a.code FROM audits a JOIN contenders c ON c.run = a.run "
             "AND c.place = a.place JOIN bundles b ON b.sha256 = c.bundle WHERE a.passed = 0 AND a.place > 0 "
             "ORDER BY a.run, b.id, a.number");
         r.next();) {
      const int64_t run = r.integer(0), submission = r.integer(1);
      if (!is_holding({r.text(4), "", false, r.text(3)})) continue;
      if (!out.empty() && out.back().run == run && out.back().submission == submission) {
        out.back().detail += "; " + r.text(3);
        continue;
      }
      const auto result = result_in(db_, run, submission);
      if (result && result->held) out.push_back({run, submission, r.text(2), r.text(3), of(run, submission)});
    }
    return out;
  }

 private:
  Database& db_;
};

}  // namespace tinymlperf::board
