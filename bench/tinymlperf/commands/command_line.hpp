// The words of the commands on bundles and boards. Each is declared here and done in its own header.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <tinymlperf/commands/appeal.hpp>
#include <tinymlperf/commands/board.hpp>
#include <tinymlperf/commands/pack.hpp>
#include <tinymlperf/commands/review.hpp>
#include <tinymlperf/commands/serve.hpp>
#include <tinymlperf/commands/submit.hpp>
#include <tinymlperf/commands/work.hpp>
#include <utility>
#include <vector>

namespace tinymlperf {

class BoardCommands {
 public:
  explicit BoardCommands(CLI::App& app) {
    bundles(app);
    uploads(app);
    appeals(app);
    reviews(app);
    boards(app);
  }
  // The exit status of the command that was called; nothing: it was none of these.
  std::optional<int> run() const {
    for (const auto& [command, action] : commands_)
      if (*command) return action();
    return std::nullopt;
  }

 private:
  // A command with its options, which live as long as this does.
  template <class Options>
  std::pair<CLI::App*, Options*> add(CLI::App& app, const char* name, const char* what,
                                     int (*action)(const Options&)) {
    auto options = std::make_shared<Options>();
    CLI::App* command = app.add_subcommand(name, what);
    commands_.emplace_back(command, [options, action] { return action(*options); });
    return {command, options.get()};
  }
  static void board_option(CLI::App* command, std::filesystem::path& board) {
    command->add_option("--board", board, "the board's database file")->required();
  }
  // A command line can be read by everybody on a machine while it runs, so there are two other ways.
  static void token_options(CLI::App* command, detail::Token& token) {
    command->add_option("--token", token.text, "as `user add` gave it out")->envname("TINYMLPERF_TOKEN");
    command->add_option("--token-file", token.file,
                        "a file whose first line is the token, instead of --token");
  }
  static void address_option(CLI::App* command, std::filesystem::path& board) {
    command->add_option("--board", board, "the board's database file, or its address: http://HOST:PORT")
        ->required();
  }

  void bundles(CLI::App& app) {
    auto [check, c] = add<CheckOptions>(app, "check", "what a board would say to a bundle or folder",
                                        [](const CheckOptions& o) { return run_check(o); });
    check->add_option("path", c->path, "a .tmlp file, or an entry's folder")->required();
    auto [pack, p] = add<PackOptions>(app, "pack", "make a bundle (.tmlp) of an entry's folder",
                                      [](const PackOptions& o) { return run_pack(o); });
    pack->add_option("folder", p->folder, "with model.json and weights.safetensors, or plugin.cpp")
        ->required();
    pack->add_option("--out", p->out, "the bundle (default: NAME.tmlp)");
    pack->add_option("--author", p->author, "default: the model's");
    pack->add_option("--team", p->team, "");
    pack->add_option("--division", p->division, "closed, open or kernel (default: open)");
    pack->add_option("--hardware", p->hardware, "cpu-1t, cpu-mt or gpu(NAME) (default: cpu-mt)");
    pack->add_option("--benchmark", p->benchmarks,
                     judge::benchmark_ids() + ", joined by commas (default: dig), or krn: kernels")
        ->delimiter(',')
        ->allow_extra_args(false);
    pack->add_option("--scenario", p->scenarios, "joined by commas (default: single_stream,offline)")
        ->delimiter(',')
        ->allow_extra_args(false);
    pack->add_option("--notes", p->notes, "on the technique");
    pack->add_option("--licence", p->licence, "for example CC0-1.0");
    auto [diff, d] = add<DiffOptions>(app, "diff", "what two entries differ in, as a unified diff",
                                      [](const DiffOptions& o) { return run_diff(o); });
    diff->add_option("a", d->a, "a folder, a bundle, or with --board a submission's number")->required();
    diff->add_option("b", d->b, "likewise")->required();
    diff->add_option("--board", d->board, "the board's database file");
  }

  void uploads(CLI::App& app) {
    CLI::App* user = app.add_subcommand("user", "who may submit")->require_subcommand(1);
    auto [add_user, u] = add<UserOptions>(*user, "add", "let somebody submit; prints the token",
                                          [](const UserOptions& o) { return run_user_add(o); });
    add_user->add_option("name", u->name, "")->required();
    add_user->add_option("--quota", u->quota, "submissions and asked matches a day (default: 20)")
        ->check(CLI::NonNegativeNumber);
    board_option(add_user, u->board);
    auto [list, l] =
        add<UserListOptions>(*user, "list", "everybody, their quotas, and what they used of them today",
                             [](const UserListOptions& o) { return run_user_list(o); });
    board_option(list, l->board);
    auto [submit, s] = add<SubmitOptions>(app, "submit", "give a bundle to a board",
                                          [](const SubmitOptions& o) { return run_submit(o); });
    submit->add_option("bundle", s->bundle, "as `pack` made it")->required();
    submit->add_flag("--baseline", s->baseline, "it becomes the baseline of its tables, for ever");
    submit->add_flag("--wait", s->wait, "follow its jobs until they have ended, and print the result");
    address_option(submit, s->board);
    token_options(submit, s->token);
    auto [watch, f] = add<WatchOptions>(app, "watch", "follow a submission's jobs until they have ended",
                                        [](const WatchOptions& o) { return run_watch(o); });
    watch->add_option("id", f->submission, "a submission's number")->required()->check(CLI::PositiveNumber);
    address_option(watch, f->board);
    auto [match, m] = add<HeadToHeadOptions>(app, "head-to-head", "ask for a match of two submissions",
                                             [](const HeadToHeadOptions& o) { return run_head_to_head(o); });
    match->add_option("submission", m->submission, "the challenger")->required();
    match->add_option("against", m->against, "the holder")->required();
    address_option(match, m->board);
    token_options(match, m->token);
    auto [work, w] = add<WorkCommandOptions>(app, "work", "play the matches that a board waits for",
                                             [](const WorkCommandOptions& o) { return run_work(o); });
    work->add_option("--class", w->run_class, "smoke, ranked or official")->capture_default_str();
    work->add_option("--hardware", w->hardware,
                     "play the jobs of this class, as gpu(NAME) (default: this processor's)");
    work->add_flag("!--no-real-time", w->real_time,
                   "let others of this machine interrupt, who otherwise wait while entries are timed");
    board_option(work, w->board);
  }

  void appeals(CLI::App& app) {
    CLI::App* appeal = app.add_subcommand("appeal", "what is said of a refused run")->require_subcommand(1);
    auto [add_one, a] = add<AppealOptions>(*appeal, "add", "say once why a run of yours was refused wrongly",
                                           [](const AppealOptions& o) { return run_appeal_add(o); });
    add_one->add_option("submission", a->submission, "its number")->required()->check(CLI::PositiveNumber);
    add_one->add_option("run", a->run, "the run's number")->required()->check(CLI::PositiveNumber);
    add_one->add_option("note", a->note, "at most 2000 bytes; it is published")->required();
    address_option(add_one, a->board);
    token_options(add_one, a->token);
    auto [answer, w] = add<AnswerOptions>(*appeal, "answer", "answer an appeal, once",
                                          [](const AnswerOptions& o) { return run_appeal_answer(o); });
    answer->add_option("appeal", w->appeal, "its number")->required()->check(CLI::PositiveNumber);
    answer->add_option("text", w->text, "at most 2000 bytes; it is published")->required();
    board_option(answer, w->board);
    auto [list, l] = add<AppealListOptions>(*appeal, "list", "all appeals, those without an answer first",
                                            [](const AppealListOptions& o) { return run_appeal_list(o); });
    board_option(list, l->board);
  }

  void reviews(CLI::App& app) {
    CLI::App* review =
        app.add_subcommand("review", "what is said of a result that is held")->require_subcommand(1);
    const auto decision = [&](const char* name, const char* what, int (*action)(const ReviewOptions&)) {
      auto [command, r] = add<ReviewOptions>(*review, name, what, action);
      command->add_option("submission", r->submission, "its number")->required()->check(CLI::PositiveNumber);
      command->add_option("run", r->run, "the run's number")->required()->check(CLI::PositiveNumber);
      command->add_option("reason", r->reason, "at most 2000 bytes; it is published")->required();
      board_option(command, r->board);
    };
    decision("release", "give it its rank", [](const ReviewOptions& o) { return run_review_release(o); });
    decision("refuse", "leave it without one", [](const ReviewOptions& o) { return run_review_refuse(o); });
    auto [list, l] = add<ReviewListOptions>(*review, "list", "what is or was held, and what was said of it",
                                            [](const ReviewListOptions& o) { return run_review_list(o); });
    board_option(list, l->board);
  }

  void boards(CLI::App& app) {
    auto [show, s] = add<ShowOptions>(app, "show", "a board's tables and queue, or a submission",
                                      [](const ShowOptions& o) { return run_show(o); });
    show->add_option("id", s->submission, "a submission's number")->check(CLI::PositiveNumber);
    board_option(show, s->board);
    auto [out, e] = add<TransferOptions>(app, "export", "all bundles and runs of a board as one file",
                                         [](const TransferOptions& o) { return run_export(o); });
    out->add_option("--out", e->file, "the file to write")->required();
    board_option(out, e->board);
    auto [in, i] =
        add<TransferOptions>(app, "import", "take in what another board exported, and check all of it",
                             [](const TransferOptions& o) { return run_import(o); });
    in->add_option("file", i->file, "as `export` wrote it")->required();
    board_option(in, i->board);
    auto [serve, w] = add<ServeCommandOptions>(app, "serve", "a board as a web site on this machine",
                                               [](const ServeCommandOptions& o) { return run_serve(o); });
    serve->add_option("--host", w->server.host, "who may come: 127.0.0.1 is this machine alone")
        ->capture_default_str();
    serve->add_option("--port", w->server.port, "0: any free one")->capture_default_str();
    board_option(serve, w->board);
    auto [site, f] = add<SiteOptions>(app, "site", "a board's pages as files",
                                      [](const SiteOptions& o) { return run_site(o); });
    site->add_option("--out", f->folder, "the folder to write to")->required();
    board_option(site, f->board);
  }

  std::vector<std::pair<CLI::App*, std::function<int()>>> commands_;
};

}  // namespace tinymlperf
