// Submissions that are not shown: their owner withdrew them, or the instructor hid them. Nothing is deleted:
// the files and runs stay on the board, and the instructor can show a submission again. Rows are added and
// never changed; the last one of a submission counts, and its reason is published.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <tinymlperf/board/store/database.hpp>
#include <tinymlperf/board/store/reviews.hpp>
#include <tinymlperf/board/store/views.hpp>

namespace tinymlperf::board {

class Hidings {
 public:
  explicit Hidings(Database& db) : db_(db) {}

  // Call it inside a transaction. Throws Refusal.
  void add(int64_t submission, const Hiding& h) {
    require_note("withdrawal", "reason", h.reason);
    if (!db_.integer("SELECT id FROM bundles WHERE id = ?", submission))
      refuse("a submission of this board", "no number " + std::to_string(submission));
    if (db_.integer("SELECT 1 FROM baselines WHERE bundle = ?", submission))
      refuse("a submission that is no baseline", "one by which all others are measured");
    if (h.hidden == of(submission).has_value())
      refuse(h.hidden ? "a submission that is shown" : "a submission that is hidden",
             h.hidden ? "one that is hidden already" : "one that is shown");
    db_.run("INSERT INTO hidings(bundle, hidden, by, reason, created) VALUES(?, ?, ?, ?, ?)", submission,
            h.hidden, h.by_owner ? "owner" : "instructor", h.reason, h.date);
  }

  // Returns the decision to hide a submission; nullopt if it is shown.
  std::optional<Hiding> of(int64_t submission) {
    Rows r =
        db_.query("SELECT hidden, by, reason, created FROM hidings WHERE bundle = ? ORDER BY id DESC LIMIT 1",
                  submission);
    if (!r.next() || r.integer(0) == 0) return std::nullopt;
    return Hiding{true, r.text(1) == "owner", r.text(2), r.text(3)};
  }

  // The numbers of all that are not shown.
  std::set<int64_t> all() {
    std::set<int64_t> out;
    for (Rows r = db_.query("SELECT bundle FROM hidings h WHERE hidden = 1 AND id = (SELECT max(id) FROM "
                            "hidings o WHERE o.bundle = h.bundle)");
         r.next();)
      out.insert(r.integer(0));
    return out;
  }

 private:
  [[noreturn]] static void refuse(const std::string& expected, const std::string& found) {
    throw Refusal("withdrawal", "submission", expected, found);
  }
  Database& db_;
};

}  // namespace tinymlperf::board
