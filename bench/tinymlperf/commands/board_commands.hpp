// The options of the commands on bundles and boards. Each command is done in its own header.
#pragma once

#include <memory>
#include <tinymlperf/commands/appeal.hpp>
#include <tinymlperf/commands/board.hpp>
#include <tinymlperf/commands/command.hpp>
#include <tinymlperf/commands/course.hpp>
#include <tinymlperf/commands/jobs.hpp>
#include <tinymlperf/commands/pack.hpp>
#include <tinymlperf/commands/review.hpp>
#include <tinymlperf/commands/serve.hpp>
#include <tinymlperf/commands/submit.hpp>
#include <tinymlperf/commands/work.hpp>

namespace tinymlperf {

namespace detail {

inline void board_option(CLI::App& command, std::filesystem::path& board) {
  command.add_option("--board", board, "the board's database file")->required();
}
// Everybody on a machine can read a command line while it runs, so there are two other ways.
inline void token_options(CLI::App& command, Token& token) {
  command.add_option("--token", token.text, "as `user add` gave it out")->envname("TINYMLPERF_TOKEN");
  command.add_option("--token-file", token.file, "a file whose first line is the token, instead of --token");
}
inline void address_option(CLI::App& command, std::filesystem::path& board) {
  command.add_option("--board", board, "the board's database file, or its address: http://HOST:PORT")
      ->required();
}
inline void number_option(CLI::App& command, const char* name, int64_t& number, const char* text) {
  command.add_option(name, number, text)->required()->check(CLI::PositiveNumber);
}

// A command of the table as an action on its options: `run` prints to the terminal.
template <class Options>
Action board_action(std::shared_ptr<Options> options, int (*run)(const Options&, std::FILE*)) {
  return [options = std::move(options), run] { return run(*options, stdout); };
}
// A command that prints a token has a second file for the text beside it (print_token).
template <class Options>
Action board_action(std::shared_ptr<Options> options, int (*run)(const Options&, std::FILE*, std::FILE*)) {
  return [options = std::move(options), run] { return run(*options, stdout, stderr); };
}

}  // namespace detail

// ---- bundles

inline Action check_command(CLI::App& command) {
  const auto o = std::make_shared<CheckOptions>();
  command.add_option("path", o->path, "a .tmlp file, or an entry's folder")->required();
  return detail::board_action(o, run_check);
}

inline Action pack_command(CLI::App& command) {
  const auto o = std::make_shared<PackOptions>();
  command.add_option("folder", o->folder, "with model.json and weights.safetensors, or plugin.cpp")
      ->required();
  command.add_option("--out", o->out, "the bundle (default: NAME.tmlp)");
  command.add_option("--author", o->author, "default: the model's");
  command.add_option("--team", o->team, "");
  command.add_option("--division", o->division, "closed, open or kernel (default: open)");
  command.add_option("--hardware", o->hardware, "cpu-1t, cpu-mt or gpu(NAME) (default: cpu-mt)");
  command
      .add_option("--benchmark", o->benchmarks,
                  judge::benchmark_ids() + ", joined by commas (default: dig), or krn: kernels")
      ->delimiter(',')
      ->allow_extra_args(false);
  command.add_option("--scenario", o->scenarios, "joined by commas (default: single_stream,offline)")
      ->delimiter(',')
      ->allow_extra_args(false);
  command.add_option("--notes", o->notes, "on the technique");
  command.add_option("--licence", o->licence, "for example CC0-1.0");
  return detail::board_action(o, run_pack);
}

inline Action diff_command(CLI::App& command) {
  const auto o = std::make_shared<DiffOptions>();
  command.add_option("a", o->a, "a folder, a bundle, or with --board a submission's number")->required();
  command.add_option("b", o->b, "likewise")->required();
  command.add_option("--board", o->board, "the board's database file");
  return detail::board_action(o, run_diff);
}

// ---- users and submissions

inline Action user_add_command(CLI::App& command) {
  const auto o = std::make_shared<UserOptions>();
  command.add_option("name", o->name, "")->required();
  command.add_option("--quota", o->quota, "submissions and asked matches a day (default: 20)")
      ->check(CLI::NonNegativeNumber);
  command.add_flag("--instructor", o->instructor,
                   "may also cancel, hide and retry what is not theirs, over HTTP");
  detail::board_option(command, o->board);
  return detail::board_action(o, run_user_add);
}

inline Action user_list_command(CLI::App& command) {
  const auto o = std::make_shared<UserListOptions>();
  detail::board_option(command, o->board);
  return detail::board_action(o, run_user_list);
}

inline Action user_command(CLI::App& command) {
  static constexpr Command kCommands[] = {
      {"add", "let somebody submit; prints the token", user_add_command},
      {"list", "everybody, their quotas, and what they used of them today", user_list_command},
  };
  return one_of(command, kCommands);
}

inline Action submit_command(CLI::App& command) {
  const auto o = std::make_shared<SubmitOptions>();
  command.add_option("bundle", o->bundle, "as `pack` made it")->required();
  command.add_flag("--baseline", o->baseline, "it becomes the baseline of its tables, for ever");
  command.add_flag("--wait", o->wait, "follow its jobs until they have ended, and print the result");
  detail::address_option(command, o->board);
  detail::token_options(command, o->token);
  return detail::board_action(o, run_submit);
}

inline Action watch_command(CLI::App& command) {
  const auto o = std::make_shared<WatchOptions>();
  detail::number_option(command, "id", o->submission, "a submission's number");
  detail::address_option(command, o->board);
  detail::token_options(command, o->token);
  return detail::board_action(o, run_watch);
}

inline Action head_to_head_command(CLI::App& command) {
  const auto o = std::make_shared<HeadToHeadOptions>();
  command.add_option("submission", o->submission, "the challenger")->required();
  command.add_option("against", o->against, "the holder")->required();
  detail::address_option(command, o->board);
  detail::token_options(command, o->token);
  return detail::board_action(o, run_head_to_head);
}

inline Action work_command(CLI::App& command) {
  const auto o = std::make_shared<WorkCommandOptions>();
  command.add_option("--class", o->run_class, "smoke, ranked or official")
      ->capture_default_str()
      ->envname("TINYMLPERF_CLASS");
  command.add_option("--hardware", o->hardware,
                     "play the jobs of this class, as gpu(NAME) (default: this processor's)");
  command.add_flag("!--no-real-time", o->real_time,
                   "let others of this machine interrupt, who otherwise wait while entries are timed");
  auto* const board = command.add_option("--board", o->board, "the board's database file");
  auto* const server = command.add_option("--server", o->server,
                                          "or the board's address, from another machine: http://HOST:PORT");
  board->excludes(server);
  detail::token_options(command, o->token);
  command.add_option("--outbox", o->outbox, "the folder of results that the address has not taken yet")
      ->capture_default_str();
  return detail::board_action(o, run_work);
}

template <int (*run)(const JobOptions&, std::FILE*)>
Action one_job_command(CLI::App& command) {
  const auto o = std::make_shared<JobOptions>();
  detail::number_option(command, "number", o->job, "the job's number");
  detail::address_option(command, o->board);
  detail::token_options(command, o->token);
  return detail::board_action(o, run);
}

inline Action job_command(CLI::App& command) {
  static constexpr Command kCommands[] = {
      {"cancel", "cancel a job of yours that waits", one_job_command<run_job_cancel>},
      {"retry", "let a job that failed wait again (instructors)", one_job_command<run_job_retry>},
  };
  return one_of(command, kCommands);
}

inline Action withdraw_command(CLI::App& command) {
  const auto o = std::make_shared<WithdrawOptions>();
  detail::number_option(command, "submission", o->submission, "its number");
  command.add_option("reason", o->reason, "at most 2000 bytes; it is published")->required();
  detail::address_option(command, o->board);
  detail::token_options(command, o->token);
  return detail::board_action(o, run_withdraw);
}

inline Action restore_command(CLI::App& command) {
  const auto o = std::make_shared<WithdrawOptions>();
  detail::number_option(command, "submission", o->submission, "its number");
  command.add_option("reason", o->reason, "at most 2000 bytes")->required();
  detail::board_option(command, o->board);
  return detail::board_action(o, run_restore);
}

// ---- appeals and reviews

inline Action appeal_add_command(CLI::App& command) {
  const auto o = std::make_shared<AppealOptions>();
  detail::number_option(command, "submission", o->submission, "its number");
  detail::number_option(command, "run", o->run, "the run's number");
  command.add_option("note", o->note, "at most 2000 bytes; it is published")->required();
  detail::address_option(command, o->board);
  detail::token_options(command, o->token);
  return detail::board_action(o, run_appeal_add);
}

inline Action appeal_answer_command(CLI::App& command) {
  const auto o = std::make_shared<AnswerOptions>();
  detail::number_option(command, "appeal", o->appeal, "its number");
  command.add_option("text", o->text, "at most 2000 bytes; it is published")->required();
  detail::board_option(command, o->board);
  return detail::board_action(o, run_appeal_answer);
}

inline Action appeal_list_command(CLI::App& command) {
  const auto o = std::make_shared<AppealListOptions>();
  detail::board_option(command, o->board);
  return detail::board_action(o, run_appeal_list);
}

inline Action appeal_command(CLI::App& command) {
  static constexpr Command kCommands[] = {
      {"add", "say once why a run of yours was refused wrongly", appeal_add_command},
      {"answer", "answer an appeal, once", appeal_answer_command},
      {"list", "all appeals, those without an answer first", appeal_list_command},
  };
  return one_of(command, kCommands);
}

template <int (*run)(const ReviewOptions&, std::FILE*)>
Action decision_command(CLI::App& command) {
  const auto o = std::make_shared<ReviewOptions>();
  detail::number_option(command, "submission", o->submission, "its number");
  detail::number_option(command, "run", o->run, "the run's number");
  command.add_option("reason", o->reason, "at most 2000 bytes; it is published")->required();
  detail::board_option(command, o->board);
  return detail::board_action(o, run);
}

inline Action review_list_command(CLI::App& command) {
  const auto o = std::make_shared<ReviewListOptions>();
  detail::board_option(command, o->board);
  return detail::board_action(o, run_review_list);
}

inline Action review_command(CLI::App& command) {
  static constexpr Command kCommands[] = {
      {"release", "give it its rank", decision_command<run_review_release>},
      {"refuse", "leave it without one", decision_command<run_review_refuse>},
      {"list", "what is or was held, and what was said of it", review_list_command},
  };
  return one_of(command, kCommands);
}

// ---- classes

inline Action course_roster_command(CLI::App& command) {
  const auto o = std::make_shared<RosterOptions>();
  command
      .add_option("file", o->file,
                  "CSV with the columns name, team, token, quota and pseudonym; only name is needed")
      ->required();
  command.add_option("--tokens", o->tokens, "write the tokens of new users to this new file, for you alone");
  detail::board_option(command, o->board);
  return detail::board_action(o, run_course_roster);
}

template <auto run>
Action course_user_command(CLI::App& command) {
  const auto o = std::make_shared<CourseUserOptions>();
  command.add_option("name", o->name, "the user's or the worker's name")->required();
  detail::board_option(command, o->board);
  return detail::board_action(o, run);
}

inline Action course_worker_list_command(CLI::App& command) {
  const auto o = std::make_shared<CourseBoardOptions>();
  detail::board_option(command, o->board);
  return detail::board_action(o, run_course_worker_list);
}

inline Action course_worker_command(CLI::App& command) {
  static constexpr Command kCommands[] = {
      {"add", "let a machine play matches over HTTP; prints its token",
       course_user_command<run_course_worker_add>},
      {"revoke", "take a worker's token away", course_user_command<run_course_worker_revoke>},
      {"list", "all workers, their hardware, and when each last asked for a job", course_worker_list_command},
  };
  return one_of(command, kCommands);
}

inline Action course_deadline_command(CLI::App& command) {
  const auto o = std::make_shared<CourseDeadlineOptions>();
  command.add_option("moment", o->moment, "such as 2026-12-24T23:59:59Z (UTC), or none")->required();
  detail::board_option(command, o->board);
  return detail::board_action(o, run_course_deadline);
}

template <bool is_private>
Action course_privacy_command(CLI::App& command) {
  const auto o = std::make_shared<CourseBoardOptions>();
  detail::board_option(command, o->board);
  return detail::board_action(o, run_course_privacy<is_private>);
}

inline Action course_pseudonyms_command(CLI::App& command) {
  const auto o = std::make_shared<CoursePseudonymsOptions>();
  command.add_option("state", o->state, "on or off")->required()->check(CLI::IsMember({"on", "off"}));
  detail::board_option(command, o->board);
  return detail::board_action(o, run_course_pseudonyms);
}

inline Action course_grades_command(CLI::App& command) {
  const auto o = std::make_shared<GradesOptions>();
  command.add_option("--out", o->out, "the CSV file to write (default: the terminal)");
  command.add_flag("--latest", o->latest, "grade the latest submission of each user, not the best");
  detail::board_option(command, o->board);
  return detail::board_action(o, run_course_grades);
}

inline Action course_command(CLI::App& command) {
  static constexpr Command kCommands[] = {
      {"roster", "add a class from a CSV file, or change quotas, teams and tokens", course_roster_command},
      {"renew", "give a user a new token; the old one is void", course_user_command<run_course_renew>},
      {"revoke", "take a user's token away", course_user_command<run_course_revoke>},
      {"worker", "machines that play matches over HTTP", course_worker_command},
      {"deadline", "after this moment nobody submits", course_deadline_command},
      {"private", "hide sources until the deadline", course_privacy_command<true>},
      {"public", "show sources at once", course_privacy_command<false>},
      {"pseudonyms", "show everybody but instructors other names of users", course_pseudonyms_command},
      {"grades", "one submission of each user in each table, as CSV", course_grades_command},
  };
  return one_of(command, kCommands);
}

// ---- boards

inline Action show_command(CLI::App& command) {
  const auto o = std::make_shared<ShowOptions>();
  command.add_option("id", o->submission, "a submission's number")->check(CLI::PositiveNumber);
  detail::board_option(command, o->board);
  return detail::board_action(o, run_show);
}

inline Action export_command(CLI::App& command) {
  const auto o = std::make_shared<TransferOptions>();
  command.add_option("--out", o->file, "the file to write")->required();
  detail::board_option(command, o->board);
  return detail::board_action(o, run_export);
}

inline Action import_command(CLI::App& command) {
  const auto o = std::make_shared<TransferOptions>();
  command.add_option("file", o->file, "as `export` wrote it")->required();
  detail::board_option(command, o->board);
  return detail::board_action(o, run_import);
}

inline Action serve_command(CLI::App& command) {
  const auto o = std::make_shared<ServeCommandOptions>();
  command.add_option("--host", o->server.host, "who may come: 127.0.0.1 is this machine alone")
      ->capture_default_str();
  command.add_option("--port", o->server.port, "0: any free one")->capture_default_str();
  detail::board_option(command, o->board);
  return action_on(o, run_serve);
}

inline Action site_command(CLI::App& command) {
  const auto o = std::make_shared<SiteOptions>();
  command.add_option("--out", o->folder, "the folder to write to")->required();
  detail::board_option(command, o->board);
  return detail::board_action(o, run_site);
}

}  // namespace tinymlperf
