// Seals texts that may quote sources: a private board keeps them back until its deadline, like the sources
// themselves.
//
// The message of a compiler quotes lines of the source, and so may any other reason why an entry failed. Such
// a text is a job's message or the reason why a run or a row of a table does not count. Every one of them
// goes through Seal::reason before it reaches a page, a list, JSON, an event or the exported site. The owner
// of the source, the instructors, and whoever has the board's file read all of it.
#pragma once

#include <optional>
#include <string>
#include <tinymlperf/board/store/settings.hpp>
#include <tinymlperf/board/store/source.hpp>
#include <tinymlperf/board/store/users.hpp>

namespace tinymlperf::board {

class Seal {
 public:
  // `now`: the present moment as a text.
  Seal(Database& db, const std::string& now, const Viewer& viewer) : db_(db), user_(viewer.user) {
    closed_ =
        !viewer.has_file && Settings(db).sealed_until(now) && !(user_ && Users(db).is_instructor(*user_));
  }

  // The reason of a failure as the viewer may read it. `fault`: what failed; empty: it is not known.
  std::string reason(const std::string& text, const std::string& fault, int64_t submission) {
    if (text.empty() || !closed_ || is_of_viewer(submission)) return text;
    const bool build = text.find("does not compile") != std::string::npos;
    return std::string(build ? "its build failed" : "it failed") +
           (fault.empty() ? "" : " (fault: " + fault + ")") +
           "; until sources are shown, its owner and instructors alone read why (`tinymlperf watch` with "
           "their token)";
  }

  // A job's message as the viewer may read it. It is the reason of a failure if the job failed, or waits
  // again after a failure. It may quote either entry, so the viewer must own both; a baseline belongs to
  // whoever runs the board.
  std::string message(const Job& job) {
    if (!closed_) return job.message;
    Rows r = db_.query(
        "SELECT fault, retries, against, (SELECT count(*) FROM baselines WHERE bundle = against) FROM jobs "
        "WHERE id = ?",
        job.id);
    const bool known = r.next(), waits_again = known && job.state == JobState::queued && r.integer(1) > 0;
    if (!waits_again && !(known && job.state == JobState::failed)) return job.message;
    const bool others = r.integer(3) == 0 && !is_of_viewer(r.integer(2));
    const std::string fault = waits_again ? "machine" : r.text(0);
    const std::string shown = reason(job.message, fault, others ? kNobodys : job.submission);
    return (waits_again && shown != job.message ? "it waits again: " : "") + shown;
  }

 private:
  static constexpr int64_t kNobodys = 0;  // no submission has this number

  bool is_of_viewer(int64_t submission) {
    return user_ && db_.integer("SELECT user FROM bundles WHERE id = ?", submission) == user_;
  }

  Database& db_;
  std::optional<int64_t> user_;
  bool closed_ = false;
};

}  // namespace tinymlperf::board
