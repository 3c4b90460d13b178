// `tinymlperf job cancel`, `job retry` and `withdraw`. The board is a file of this machine or an address. At
// an address a token says who asks. Whoever has the file and gives no token may do what an instructor may.
#pragma once

#include <tinymlperf/commands/submit.hpp>

namespace tinymlperf {

struct JobOptions {
  std::filesystem::path board;
  detail::Token token;
  int64_t job = 0;
};

struct WithdrawOptions {
  std::filesystem::path board;
  detail::Token token;
  int64_t submission = 0;
  std::string reason;
};

namespace detail {

// Calls `there` with a board at an address and a token, or `here` with a board in a file and a user, who is
// empty without a token; then prints what was done.
template <class Options, class There, class Here>
int at_board(const Options& o, std::FILE* out, There there, Here here, const std::string& done) {
  return guarded(out, [&] {
    if (board::is_address(o.board.string())) {
      const std::string token = o.token.read();
      board::RemoteBoard remote(o.board.string());
      there(remote, token);
      fmt::print(out, "{}\n", done);
      return kPass;
    }
    require_board(o.board);
    board::Store store(o.board);
    std::optional<int64_t> user;
    if (o.token.is_given()) user = require_user(store, o.token.read());
    here(store, user);
    fmt::print(out, "{}\n", done);
    return kPass;
  });
}

}  // namespace detail

inline int run_job_cancel(const JobOptions& o, std::FILE* out = stdout) {
  return detail::at_board(
      o, out, [&](board::RemoteBoard& to, const std::string& token) { to.cancel(token, o.job); },
      [&](board::Store& store, std::optional<int64_t> user) { store.cancel(user, o.job); },
      fmt::format("job {} is cancelled", o.job));
}

inline int run_job_retry(const JobOptions& o, std::FILE* out = stdout) {
  return detail::at_board(
      o, out, [&](board::RemoteBoard& to, const std::string& token) { to.retry(token, o.job); },
      [&](board::Store& store, std::optional<int64_t> user) { store.retry(user, o.job); },
      fmt::format("job {} waits again", o.job));
}

inline int run_withdraw(const WithdrawOptions& o, std::FILE* out = stdout) {
  return detail::at_board(
      o, out,
      [&](board::RemoteBoard& to, const std::string& token) { to.withdraw(token, o.submission, o.reason); },
      [&](board::Store& store, std::optional<int64_t> user) { store.withdraw(user, o.submission, o.reason); },
      fmt::format("submission {} is not shown any more, and its waiting jobs are cancelled", o.submission));
}

// Shows a hidden submission again. Access to the board's file is the only permission that is needed.
inline int run_restore(const WithdrawOptions& o, std::FILE* out = stdout) {
  return detail::guarded(out, [&] {
    detail::require_board(o.board);
    board::Store store(o.board);
    store.restore(o.submission, o.reason);
    fmt::print(out, "submission {} is shown again; `tinymlperf job retry` brings its cancelled jobs back\n",
               o.submission);
    return kPass;
  });
}

}  // namespace tinymlperf
