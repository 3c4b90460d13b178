// `tinymlperf show` prints a board's tables and queue, `show ID` a submission, `diff A B` what two of them differ in.
#pragma once

#include <tinymlperf/board/queries.hpp>
#include <tinymlperf/commands/common.hpp>
#include <tinytorch/benchmarking/document.hpp>

namespace tinymlperf {

struct ShowOptions {
  std::filesystem::path board;
  int64_t submission = 0;  // 0: the board itself
};

struct DiffOptions {
  std::filesystem::path board;  // for numbers
  std::string a, b;             // a folder, a bundle, or the number of a submission
};

namespace detail {

inline std::string text_of(const std::optional<board::Interval>& i,
                           const char* digits = "{:.4g} [{:.4g}, {:.4g}]") {
  return i ? fmt::format(fmt::runtime(digits), i->estimate, i->low, i->high) : "";
}

inline const char* text_of(board::Level level) {
  constexpr const char* kNames[] = {"self-reported", "re-run", "audited"};
  return kNames[static_cast<int>(level)];
}

inline std::string text_of(const board::Table& t) {
  tinytorch::document::Rows rows{{"entry", "rank", "score [95 %]", t.quality_metric}};
  for (const auto& [name, measure] : t.scenarios) rows[0].push_back(name + " " + measure);
  for (const char* head : {"size", "id", "level", ""}) rows[0].push_back(head);
  for (const board::Row& r : t.rows) {
    tinytorch::document::Row row{r.name, r.rank ? std::to_string(r.rank) : "",
                                 text_of(r.score, "{:.1f} [{:.1f}, {:.1f}]"), text_of(r.quality)};
    for (const auto& scenario : t.scenarios) {
      row.emplace_back();
      for (const board::Cell& c : r.cells)
        if (c.scenario == scenario.first) row.back() = fmt::format("{:.4g}", c.value);
    }
    row.push_back(r.model_bytes ? tinytorch::document::show_bytes(r.model_bytes) : "");
    row.insert(row.end(), {std::to_string(r.submission), text_of(r.level), r.not_ranked});
    rows.push_back(std::move(row));
  }
  return fmt::format("{}, {}, {}, tier {}: {}\n\n{}", t.key.benchmark, t.key.division, t.key.hardware,
                     t.key.tier, t.task, tinytorch::document::text_table(rows));
}

inline std::string runs_table(const std::vector<board::Run>& runs) {
  tinytorch::document::Rows rows{{"run", "scenario", "class", "times the baseline", ""}};
  for (const board::Run& r : runs)
    rows.push_back({std::to_string(r.id), r.benchmark + " " + r.scenario, r.run_class, text_of(r.ratio),
                    r.out.empty() ? "against " + r.baseline : "out: " + r.out});
  return tinytorch::document::text_table(rows, 1);
}

inline std::string text_of(const board::Submission& s) {
  std::string out = fmt::format("{} {} by {}{}\nid {}\n{}, tier {}, {}, licence {}\n", s.id, s.name, s.author,
                                s.team.empty() ? "" : " (" + s.team + ")", s.bundle, s.division, s.tier,
                                text_of(s.level), s.licence.empty() ? "not said" : s.licence);
  if (!s.note.empty()) out += "\n" + s.note + "\n";
  for (const auto& [metric, value] : s.claims) out += fmt::format("claims {} {}\n", metric, value);
  for (const std::string& reason : s.reasons) out += "look at " + reason + "\n";
  tinytorch::document::Rows files{{"file", "bytes", "sha256"}};
  for (const board::File& f : s.files) files.push_back({f.path, std::to_string(f.bytes), f.sha256});
  out += "\n" + tinytorch::document::text_table(files);
  if (!s.runs.empty()) out += "\n" + runs_table(s.runs);
  return out;
}

inline std::string text_of(const std::vector<board::Job>& queue) {
  constexpr const char* kStates[] = {"queued", "running", "done", "failed"};
  tinytorch::document::Rows rows{{"job", "submission", "match", "state", ""}};
  for (const board::Job& j : queue)
    rows.push_back({std::to_string(j.id), fmt::format("{} {}", j.submission, j.name),
                    j.benchmark + " " + j.scenario, kStates[static_cast<int>(j.state)], j.message});
  return tinytorch::document::text_table(rows, 1);
}

// The texts of what a name on the command line means.
inline board::Texts texts_of(const std::string& name, const std::filesystem::path& board) {
  board::Texts out;
  if (const auto number = number_of(name); number && !board.empty()) {
    require_board(board);
    board::Store store(board);
    if (!store.bundle_bytes(*number)) throw std::invalid_argument("there is no submission " + name);
    return board::Queries(store).texts(*number);
  }
  if (!std::filesystem::exists(name))
    throw std::invalid_argument(name +
                                ": expected a folder, a bundle, or with --board the number of a submission");
  const auto files = std::filesystem::is_directory(name) ? bundle::read_folder(name)
                                                         : bundle::read_bundle(read_bundle_file(name)).files;
  for (const bundle::ArchiveFile& f : files)
    if (bundle::is_shown(f)) out[f.path] = f.content;
  return out;
}

}  // namespace detail

inline int run_show(const ShowOptions& o, std::FILE* out = stdout) {
  return detail::guarded(out, [&] {
    detail::require_board(o.board);
    board::Store store(o.board);
    board::Queries queries(store);
    if (o.submission != 0) {
      const auto s = queries.submission(o.submission);
      if (!s) throw std::invalid_argument("there is no submission " + std::to_string(o.submission));
      fmt::print(out, "{}", detail::text_of(*s));
      return kPass;
    }
    for (const board::TableKey& key : queries.table_keys())
      fmt::print(out, "{}\n", detail::text_of(queries.table(key).value()));
    const auto queue = queries.queue();
    if (!queue.empty()) fmt::print(out, "{}", detail::text_of(queue));
    return kPass;
  });
}

// As diff does: 0 they are the same, 1 they differ.
inline int run_diff(const DiffOptions& o, std::FILE* out = stdout) {
  return detail::guarded(out, [&] {
    const std::string text =
        board::folder_diff("a", detail::texts_of(o.a, o.board), "b", detail::texts_of(o.b, o.board));
    fmt::print(out, "{}", text);
    return text.empty() ? kPass : kFailed;
  });
}

}  // namespace tinymlperf
