// `tinymlperf user add`, `baseline`, `submit` and `head-to-head`: what goes into a board.
#pragma once

#include <tinymlperf/commands/common.hpp>

namespace tinymlperf {

struct UserOptions {
  std::filesystem::path board;
  std::string name;
  std::optional<int64_t> quota;  // a day
};

struct SubmitOptions {
  std::filesystem::path board, bundle;
  std::string token;
  bool baseline = false;  // it becomes what 100 means in its tables
};

struct HeadToHeadOptions {
  std::filesystem::path board;
  std::string token;
  int64_t submission = 0, against = 0;
};

namespace detail {

inline int64_t require_user(board::Store& store, const std::string& token) {
  const auto user = store.user_of(token);
  if (!user) throw Refusal("token", "", "a token that `tinymlperf user add` gave out", "one that nobody has");
  return *user;
}

}  // namespace detail

// Makes the board when there is none.
inline int run_user_add(const UserOptions& o, std::FILE* out = stdout) {
  return detail::guarded(out, [&] {
    board::Store store(o.board);
    const std::string token = store.add_user(o.name, o.quota);
    fmt::print(out, "{} may submit with this token, which is shown only now:\n{}\n", o.name, token);
    return kPass;
  });
}

inline int run_submit(const SubmitOptions& o, std::FILE* out = stdout) {
  return detail::guarded(out, [&] {
    detail::require_board(o.board);
    board::Store store(o.board);
    const int64_t user = detail::require_user(store, o.token);
    std::string bytes = detail::read_bundle_file(o.bundle);
    if (o.baseline) {
      fmt::print(out, "submission {} is the baseline of its tables\n", store.submit_baseline(user, bytes));
      return kPass;
    }
    const board::Accepted accepted = store.submit(user, std::move(bytes));
    fmt::print(out, "submission {}{}, job {}\n", accepted.submission,
               accepted.known_before ? ", which was there already" : "", accepted.job);
    return kPass;
  });
}

inline int run_head_to_head(const HeadToHeadOptions& o, std::FILE* out = stdout) {
  return detail::guarded(out, [&] {
    detail::require_board(o.board);
    board::Store store(o.board);
    const int64_t user = detail::require_user(store, o.token);
    fmt::print(out, "job {}\n", store.request_head_to_head(user, o.submission, o.against));
    return kPass;
  });
}

}  // namespace tinymlperf
