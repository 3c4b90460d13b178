// The two interfaces of the leaderboard: what it shows (Source) and what it accepts (Uploads). Pages and the
// web server depend on these alone, so they are tested without a database, and the database without a page.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tinymlperf/board/store/views.hpp>
#include <vector>

namespace tinymlperf::board {

// A viewer is the person who looks at a board: anybody, a user whom a token names, or whoever has the board's
// file.
struct Viewer {
  std::optional<int64_t> user = {};
  bool has_file = false;
};

class Source {
 public:
  virtual ~Source() = default;
  virtual FrontPage front() = 0;
  virtual std::optional<Table> table(const TableKey&) = 0;  // nothing: no such table
  // A submission or a job, or nullopt if it does not exist. A user sees more of what is his than everybody
  // does.
  virtual std::optional<Submission> submission(int64_t id, const Viewer& viewer = {}) = 0;
  virtual std::vector<HistoryPoint> history(const TableKey&) = 0;  // oldest first
  virtual std::vector<Job> queue() = 0;                            // running, then waiting, then newest ended
  virtual std::optional<Job> job(int64_t id, const Viewer& viewer = {}) = 0;
  // A string that changes when the submission's page does. Empty: the page may have changed.
  virtual std::string revision(int64_t) { return ""; }
};

struct Accepted {
  int64_t submission = 0;
  int64_t job = 0;            // the job to watch
  bool known_before = false;  // this bundle was submitted before
};

class Uploads {
 public:
  virtual ~Uploads() = default;
  virtual std::optional<int64_t> user_of(const std::string& token) = 0;  // empty if no user has this token
  // Throws Refusal (support/json_fields.hpp) if the bundle is invalid, or the user's quota of the day is used
  // up.
  virtual Accepted submit(int64_t user, std::string bundle_bytes) = 0;
  // A job that waits is cancelled; a submission is hidden with a reason, and its waiting jobs are cancelled;
  // a job that failed waits again. The user must be the owner of the first two, or an instructor; an empty
  // one has the board's file, and may do the same as an instructor. They throw Refusal.
  virtual void cancel(std::optional<int64_t> user, int64_t job) = 0;
  virtual void withdraw(std::optional<int64_t> user, int64_t submission, const std::string& reason) = 0;
  virtual void retry(std::optional<int64_t> user, int64_t job) = 0;
  // Returns the id of the new job. Throws Refusal if the two cannot be compared.
  virtual int64_t request_head_to_head(int64_t user, int64_t submission, int64_t against) = 0;
  // Returns the number of the appeal against a run of the submission. Throws Refusal if the submission is not
  // the user's, the run was not refused, or it has an appeal.
  virtual int64_t appeal(int64_t user, int64_t submission, int64_t run, const std::string& note) = 0;
};

}  // namespace tinymlperf::board
