// `tinymlperf course`: an instructor's work with a class. Access to the board's file is the only permission
// that is needed.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <tinymlperf/board/store/course.hpp>
#include <tinymlperf/board/store/grades.hpp>
#include <tinymlperf/commands/submit.hpp>
#include <tinytorch/io/file.hpp>

namespace tinymlperf {

struct RosterOptions {
  std::filesystem::path board, file;
  std::filesystem::path tokens;  // the file for tokens of new users; empty: the terminal
};

struct CourseUserOptions {
  std::filesystem::path board;
  std::string name;
};

struct CourseBoardOptions {
  std::filesystem::path board;
};

struct CourseDeadlineOptions {
  std::filesystem::path board;
  std::string moment;  // "none": there is no deadline any more
};

struct CoursePseudonymsOptions {
  std::filesystem::path board;
  std::string state;  // "on" or "off"
};

struct GradesOptions {
  std::filesystem::path board;
  std::filesystem::path out;  // empty: the terminal
  bool latest = false;        // the latest submission of each, not the best
};

namespace detail {

// A new file that nobody else can read. Tokens are shown only once, so an older file is never overwritten.
class SecretFile {
 public:
  explicit SecretFile(const std::filesystem::path& path)
      : path_(path), file_(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)) {
    if (file_ < 0)
      throw std::invalid_argument("cannot make the file " + path.string() + ": " +
                                  std::error_code(errno, std::generic_category()).message());
  }
  ~SecretFile() {
    close(file_);
    if (!kept_) unlink(path_.c_str());
  }
  SecretFile(const SecretFile&) = delete;
  SecretFile& operator=(const SecretFile&) = delete;
  void keep(const std::string& text) {
    if (write(file_, text.data(), text.size()) != static_cast<ssize_t>(text.size()) || fsync(file_) != 0)
      throw std::runtime_error("cannot write " + path_.string() + "; nothing was changed");
    kept_ = true;
  }

 private:
  std::filesystem::path path_;
  int file_;
  bool kept_ = false;
};

}  // namespace detail

// Creates the board if there is none.
inline int run_course_roster(const RosterOptions& o, std::FILE* out = stdout) {
  return detail::guarded(out, [&] {
    constexpr int64_t kMostBytes = int64_t{1} << 20;
    const auto roster = board::parse_roster(detail::read_limited(o.file, kMostBytes), o.file.string());
    std::optional<detail::SecretFile> tokens;
    if (!o.tokens.empty()) tokens.emplace(o.tokens);
    board::Store store(o.board);
    std::string text;
    const board::Enrolled done =
        board::Course(store).enroll(roster, o.file.string(), [&](const board::Enrolled& enrolled) {
          for (const auto& [name, token] : enrolled.tokens)
            text += board::csv_field(name) + "," + token + "\n";
          if (tokens) tokens->keep("name,token\n" + text);
        });
    fmt::print(out, "{} users are new, {} were there already\n", done.added, done.changed);
    if (done.pseudonyms > 0)
      fmt::print(out, "pseudonyms are on, since the roster gives {}; `course pseudonyms off` shows names\n",
                 done.pseudonyms);
    if (tokens)
      fmt::print(out, "{} tokens are in {}, and are shown nowhere else\n", done.tokens.size(),
                 o.tokens.string());
    else if (!text.empty())
      fmt::print(out, "tokens, which are shown only now:\nname,token\n{}", text);
    return kPass;
  });
}

inline int run_course_renew(const CourseUserOptions& o, std::FILE* out = stdout, std::FILE* notes = stderr) {
  return detail::guarded(notes, [&] {
    detail::require_board(o.board);
    board::Store store(o.board);
    const std::string token = board::Course(store).renew_token(o.name);
    detail::print_token(out, notes,
                        o.name + " has a new token, which is shown only now; the old one is void:", token);
    return kPass;
  });
}

inline int run_course_revoke(const CourseUserOptions& o, std::FILE* out = stdout) {
  return detail::guarded(out, [&] {
    detail::require_board(o.board);
    board::Store store(o.board);
    board::Course(store).revoke_token(o.name);
    fmt::print(out, "{} has no token any more; `course renew` gives a new one\n", o.name);
    return kPass;
  });
}

inline int run_course_worker_add(const CourseUserOptions& o, std::FILE* out = stdout,
                                 std::FILE* notes = stderr) {
  return detail::guarded(notes, [&] {
    detail::require_board(o.board);
    board::Store store(o.board);
    const board::WorkerToken token = board::Course(store).add_worker(o.name);
    detail::print_token(out, notes,
                        o.name +
                            " may play matches with this token, which is shown only now (`tinymlperf work "
                            "--server URL --token-file FILE`):",
                        token.text());
    return kPass;
  });
}

inline int run_course_worker_revoke(const CourseUserOptions& o, std::FILE* out = stdout) {
  return detail::guarded(out, [&] {
    detail::require_board(o.board);
    board::Store store(o.board);
    board::Course(store).revoke_worker(o.name);
    fmt::print(out, "{} may not play matches any more; what it plays now is played again by another worker\n",
               o.name);
    return kPass;
  });
}

inline int run_course_worker_list(const CourseBoardOptions& o, std::FILE* out = stdout) {
  return detail::guarded(out, [&] {
    detail::require_board(o.board);
    board::Store store(o.board);
    tinytorch::document::Rows rows{{"worker", "added", "last asked", "hardware", ""}};
    for (const board::WorkerRow& w : board::Workers(store.database()).all())
      rows.push_back({w.name, w.created, w.seen, w.hardware, w.key.empty() ? "token revoked" : ""});
    fmt::print(out, "{}", tinytorch::document::text_table(rows));
    return kPass;
  });
}

inline int run_course_deadline(const CourseDeadlineOptions& o, std::FILE* out = stdout) {
  return detail::guarded(out, [&] {
    detail::require_board(o.board);
    board::Store store(o.board);
    board::Course(store).set_deadline(o.moment == "none" ? "" : o.moment);
    if (o.moment == "none")
      fmt::print(out, "there is no deadline\n");
    else
      fmt::print(out, "after {} nobody submits or asks for a match; what waits then is still played\n",
                 o.moment);
    return kPass;
  });
}

template <bool is_private>
int run_course_privacy(const CourseBoardOptions& o, std::FILE* out = stdout) {
  return detail::guarded(out, [&] {
    detail::require_board(o.board);
    board::Store store(o.board);
    board::Course(store).set_private(is_private);
    fmt::print(out, is_private ? "sources are hidden until the deadline\n" : "sources are shown\n");
    return kPass;
  });
}

inline int run_course_pseudonyms(const CoursePseudonymsOptions& o, std::FILE* out = stdout) {
  return detail::guarded(out, [&] {
    if (o.state != "on" && o.state != "off")
      throw std::invalid_argument("course pseudonyms: expected on or off, found " + o.state);
    detail::require_board(o.board);
    board::Store store(o.board);
    board::Course(store).set_pseudonyms(o.state == "on");
    if (o.state == "on")
      fmt::print(out,
                 "everybody but instructors sees pseudonyms, and no sources; `user list` says who is who\n");
    else
      fmt::print(out, "everybody sees the names of users\n");
    return kPass;
  });
}

inline int run_course_grades(const GradesOptions& o, std::FILE* out = stdout) {
  return detail::guarded(out, [&] {
    detail::require_board(o.board);
    board::Store store(o.board);
    const std::string text = board::grades_csv(store, o.latest ? board::Graded::latest : board::Graded::best);
    if (o.out.empty()) {
      fmt::print(out, "{}", text);
      return kPass;
    }
    tinytorch::write_file(o.out.string(), std::string_view(text));
    fmt::print(out, "wrote {}\n", o.out.string());
    return kPass;
  });
}

}  // namespace tinymlperf
