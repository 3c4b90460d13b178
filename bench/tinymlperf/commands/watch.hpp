// `tinymlperf watch ID` and `submit --wait` follow a submission's jobs until all have ended, then print its
// runs. The board is a file of this machine or an address.
#pragma once

#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <tinymlperf/board/pages/badges.hpp>
#include <tinymlperf/board/web/remote.hpp>
#include <tinymlperf/commands/show.hpp>

namespace tinymlperf {

struct WatchOptions {
  std::filesystem::path board;
  int64_t submission = 0;
  std::chrono::milliseconds step{1000};  // between two looks
  detail::Token token = {};              // of a user, who reads at an address what is kept from others
};

namespace detail {

inline std::string text_of(const board::Job& j) {
  std::string out =
      fmt::format("job {}, {} {}: {}", j.id, j.benchmark, j.scenario, board::state_name(j.state));
  if (j.state == board::JobState::running) out += fmt::format(", {:.0f} %", 100 * board::share_of(j));
  if (j.state == board::JobState::queued) out += ", " + board::wait_text(j);
  return j.message.empty() ? out : out + ", " + j.message;
}

// Prints a line for each change. Returns 0 if every job was done and no run put the submission out.
template <class Board>
int follow(Board& board, int64_t submission, std::chrono::milliseconds step, std::FILE* out) {
  const auto look = [&] {
    const auto found = board.submission(submission);
    if (!found) throw std::invalid_argument("there is no submission " + std::to_string(submission));
    return *found;
  };
  bool good = true;
  for (board::Job job : look().jobs) {
    for (std::string said;; std::this_thread::sleep_for(step)) {
      if (const auto now = board.job(job.id)) job = *now;
      if (const std::string line = text_of(job); line != said) {
        fmt::print(out, "{}\n", line);
        std::fflush(out);
        said = line;
      }
      if (board::ended(job)) break;
    }
    good = good && job.state == board::JobState::done;
  }
  const board::Submission s = look();
  for (const board::Run& r : s.runs) good = good && r.out.empty();
  fmt::print(out, "\n{}", s.runs.empty() ? "there is no run of it\n" : runs_table(s.runs));
  return good ? kPass : kFailed;
}

inline int follow_at(const std::filesystem::path& board, const Token& token, int64_t submission,
                     std::chrono::milliseconds step, std::FILE* out) {
  if (board::is_address(board.string())) {
    board::RemoteBoard remote(board.string());
    if (token.is_given()) remote.look_as(token.read());
    return follow(remote, submission, step, out);
  }
  board::Store store(board);
  board::Queries queries(store, {.has_file = true});
  return follow(queries, submission, step, out);
}

}  // namespace detail

inline int run_watch(const WatchOptions& o, std::FILE* out = stdout) {
  return detail::guarded(out, [&] {
    if (!board::is_address(o.board.string())) detail::require_board(o.board);
    return detail::follow_at(o.board, o.token, o.submission, o.step, out);
  });
}

}  // namespace tinymlperf
