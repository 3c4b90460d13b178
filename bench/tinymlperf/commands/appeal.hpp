// `tinymlperf appeal add`, `answer` and `list`. The owner of a refused run may say once why it was refused
// wrongly, and the operator of the board answers once.
#pragma once

#include <tinymlperf/commands/submit.hpp>

namespace tinymlperf {

struct AppealOptions {
  std::filesystem::path board;
  detail::Token token;
  int64_t submission = 0, run = 0;
  std::string note;
};

struct AnswerOptions {
  std::filesystem::path board;
  int64_t appeal = 0;
  std::string text;
};

struct AppealListOptions {
  std::filesystem::path board;
};

inline int run_appeal_add(const AppealOptions& o, std::FILE* out = stdout) {
  return detail::guarded(out, [&] {
    const std::string token = o.token.read();
    int64_t id = 0;
    if (board::is_address(o.board.string())) {
      id = board::RemoteBoard(o.board.string()).appeal(token, o.submission, o.run, o.note);
    } else {
      detail::require_board(o.board);
      board::Store store(o.board);
      id = store.appeal(detail::require_user(store, token), o.submission, o.run, o.note);
    }
    fmt::print(out, "appeal {}\n", id);
    return kPass;
  });
}

// Answers an appeal. Access to the board's file is the only permission that is needed.
inline int run_appeal_answer(const AnswerOptions& o, std::FILE* out = stdout) {
  return detail::guarded(out, [&] {
    detail::require_board(o.board);
    board::Store store(o.board);
    store.answer_appeal(o.appeal, o.text);
    fmt::print(out, "appeal {} is answered\n", o.appeal);
    return kPass;
  });
}

inline int run_appeal_list(const AppealListOptions& o, std::FILE* out = stdout) {
  return detail::guarded(out, [&] {
    detail::require_board(o.board);
    board::Store store(o.board);
    const auto all = board::Appeals(store.database()).all();
    if (all.empty()) fmt::print(out, "there is no appeal\n");
    for (const board::AppealRow& a : all)
      fmt::print(out, "appeal {}, of {}, against run {} of submission {} ({}): {}\n  {}\n", a.id,
                 a.appeal.date, a.run, a.submission, a.name, a.appeal.note,
                 a.appeal.answered.empty() ? "no answer yet"
                                           : "answered " + a.appeal.answered + ": " + a.appeal.answer);
    return kPass;
  });
}

}  // namespace tinymlperf
