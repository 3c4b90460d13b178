// `tinymlperf user add`, `user list`, `submit` and `head-to-head`: users, submissions and matches that users
// ask for. The board is a file of this machine, or for the last two an address.
#pragma once

#include <tinymlperf/commands/watch.hpp>

namespace tinymlperf {

struct UserOptions {
  std::filesystem::path board;
  std::string name;
  std::optional<int64_t> quota;  // a day
  bool instructor = false;
};

struct SubmitOptions {
  std::filesystem::path board, bundle;
  detail::Token token;
  bool baseline = false;                 // the submission becomes the baseline, which scores 100
  bool wait = false;                     // wait until its jobs have ended
  std::chrono::milliseconds step{1000};  // between two looks while waiting
};

struct HeadToHeadOptions {
  std::filesystem::path board;
  detail::Token token;
  int64_t submission = 0, against = 0;
};

namespace detail {

inline int64_t require_user(board::Store& store, const std::string& token) {
  const auto user = store.user_of(token);
  if (!user) throw Refusal("token", "", "a token that `tinymlperf user add` gave out", "one that nobody has");
  return *user;
}

// Compiles the source before it is submitted, so that nobody waits for a match of source that does not
// compile. A file that is no bundle is left for the board to refuse.
inline void check_before_sending(const std::string& bytes, std::FILE* out) {
  std::optional<bundle::Bundle> bundle;
  try {
    bundle = bundle::read_bundle(bytes);
  } catch (const Refusal&) {
    return;
  }
  check_compiles(*bundle, out);
}

}  // namespace detail

// Creates the board if there is none.
inline int run_user_add(const UserOptions& o, std::FILE* out = stdout, std::FILE* notes = stderr) {
  return detail::guarded(notes, [&] {
    board::Store store(o.board);
    const std::string token = store.add_user(o.name, o.quota, o.instructor);
    detail::print_token(out, notes,
                        o.name + " may submit" + (o.instructor ? ", cancel, hide and retry" : "") +
                            " with this token, which is shown only now:",
                        token);
    return kPass;
  });
}

struct UserListOptions {
  std::filesystem::path board;
};

inline int run_user_list(const UserListOptions& o, std::FILE* out = stdout) {
  return detail::guarded(out, [&] {
    detail::require_board(o.board);
    board::Store store(o.board);
    const bool named = board::Settings(store.database()).has_pseudonyms();
    tinytorch::document::Rows rows{{"user", "a day (UTC)", "used today", "submissions", "team", ""}};
    if (named) rows[0].push_back("pseudonym");
    for (const board::UserRow& u : store.users()) {
      rows.push_back({u.name, std::to_string(u.quota), std::to_string(u.used_today),
                      std::to_string(u.submissions), u.team, u.has_token ? u.role : "token revoked"});
      if (named) rows.back().push_back(u.pseudonym);
    }
    fmt::print(out, "{}", tinytorch::document::text_table(rows));
    return kPass;
  });
}

inline int run_submit(const SubmitOptions& o, std::FILE* out = stdout) {
  return detail::guarded(out, [&] {
    const bool far = board::is_address(o.board.string());
    if (far && o.baseline)
      throw std::invalid_argument("--baseline: only whoever has the board's file sets what 100 means");
    if (!far) detail::require_board(o.board);
    std::string bytes = detail::read_bundle_file(o.bundle);
    const std::string token = o.token.read();
    detail::check_before_sending(bytes, out);
    board::Accepted accepted;
    if (far) {
      accepted = board::RemoteBoard(o.board.string()).submit(token, bytes);
    } else {
      board::Store store(o.board);
      const int64_t user = detail::require_user(store, token);
      if (o.baseline) {
        fmt::print(out, "submission {} is the baseline of its tables\n", store.submit_baseline(user, bytes));
        return kPass;
      }
      accepted = store.submit(user, std::move(bytes));
    }
    fmt::print(out, "submission {}{}, job {}\n", accepted.submission,
               accepted.known_before ? ", which was there already" : "", accepted.job);
    std::fflush(out);
    return o.wait ? detail::follow_at(o.board, o.token, accepted.submission, o.step, out) : kPass;
  });
}

inline int run_head_to_head(const HeadToHeadOptions& o, std::FILE* out = stdout) {
  return detail::guarded(out, [&] {
    const std::string token = o.token.read();
    int64_t job = 0;
    if (board::is_address(o.board.string())) {
      job = board::RemoteBoard(o.board.string()).request_head_to_head(token, o.submission, o.against);
    } else {
      detail::require_board(o.board);
      board::Store store(o.board);
      job = store.request_head_to_head(detail::require_user(store, token), o.submission, o.against);
    }
    fmt::print(out, "job {}\n", job);
    return kPass;
  });
}

}  // namespace tinymlperf
