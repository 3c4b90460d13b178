// `tinymlperf review release`, `refuse` and `list`: the operator's decisions on results that are held for
// audit A9 or A11.
#pragma once

#include <tinymlperf/commands/common.hpp>

namespace tinymlperf {

struct ReviewOptions {
  std::filesystem::path board;
  int64_t submission = 0, run = 0;
  std::string reason;
};

struct ReviewListOptions {
  std::filesystem::path board;
};

namespace detail {

inline int review(const ReviewOptions& o, bool released, std::FILE* out) {
  return guarded(out, [&] {
    require_board(o.board);
    board::Store store(o.board);
    store.review(o.submission, o.run, released, o.reason);
    fmt::print(out, "run {} of submission {} is {}\n", o.run, o.submission,
               released ? "released" : "refused");
    return kPass;
  });
}

}  // namespace detail

// Releases a held result. Access to the board's file is the only permission that is needed. A result may have
// several decisions: the last one counts, and all are shown.
inline int run_review_release(const ReviewOptions& o, std::FILE* out = stdout) {
  return detail::review(o, true, out);
}
inline int run_review_refuse(const ReviewOptions& o, std::FILE* out = stdout) {
  return detail::review(o, false, out);
}

inline int run_review_list(const ReviewListOptions& o, std::FILE* out = stdout) {
  return detail::guarded(out, [&] {
    detail::require_board(o.board);
    board::Store store(o.board);
    const auto all = board::Reviews(store.database()).held();
    if (all.empty()) fmt::print(out, "nothing is held\n");
    for (const board::HeldRow& h : all) {
      fmt::print(out, "run {} of submission {} ({}): {}\n", h.run, h.submission, h.name, h.detail);
      if (h.reviews.empty()) fmt::print(out, "  nobody has looked at it yet\n");
      for (const board::Review& r : h.reviews)
        fmt::print(out, "  {} {}: {}\n", r.released ? "released" : "refused", r.date, r.reason);
    }
    return kPass;
  });
}

}  // namespace tinymlperf
