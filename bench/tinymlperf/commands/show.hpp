// `tinymlperf show` prints a board's tables and queue, `show ID` a submission, and `diff A B` the differences
// of two submissions.
#pragma once

#include <tinymlperf/board/store/queries.hpp>
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

inline std::string bytes_text(int64_t bytes) { return bytes ? tinytorch::document::show_bytes(bytes) : ""; }

// fast_1, fast_1.5 and fast_2
inline std::string fast_text(const std::optional<board::KernelCount>& k) {
  if (!k || !k->fast) return "";
  const auto& [one, half_more, two] = *k->fast;
  return fmt::format("{:.2f} {:.2f} {:.2f}", one, half_more, two);
}

// The header or the cells of a row, for tables of kernels or of models.
inline tinytorch::document::Row own_heads(const board::Table& t) {
  if (t.kernels) return {"ops right", "fast 1, 1.5, 2", "peak"};
  tinytorch::document::Row out{t.quality_metric};
  for (const auto& [name, measure] : t.scenarios) out.push_back(name + " " + measure);
  out.push_back("size");
  return out;
}
inline tinytorch::document::Row own_cells(const board::Table& t, const board::Row& r) {
  if (t.kernels)
    return {r.kernels ? fmt::format("{} of {}", r.kernels->right, r.kernels->ops) : "", fast_text(r.kernels),
            bytes_text(r.peak_bytes)};
  tinytorch::document::Row out{text_of(r.quality)};
  for (const auto& scenario : t.scenarios) {
    out.emplace_back();
    for (const board::Cell& c : r.cells)
      if (c.scenario == scenario.first) out.back() = fmt::format("{:.4g}", c.value);
  }
  out.push_back(bytes_text(r.model_bytes));
  return out;
}

inline std::string text_of(const board::Table& t) {
  tinytorch::document::Rows rows{{"entry", "rank", "score [95 %]"}};
  const auto append = [](tinytorch::document::Row& to, const tinytorch::document::Row& more) {
    to.insert(to.end(), more.begin(), more.end());
  };
  append(rows[0], own_heads(t));
  append(rows[0], {"id", "level", ""});
  for (const board::Row& r : t.rows) {
    tinytorch::document::Row row{r.name, r.rank ? std::to_string(r.rank) : "",
                                 text_of(r.score, "{:.1f} [{:.1f}, {:.1f}]")};
    append(row, own_cells(t, r));
    row.insert(row.end(), {std::to_string(r.submission), text_of(r.level), one_line(r.not_ranked)});
    rows.push_back(std::move(row));
  }
  return fmt::format("{}, {}, {}, tier {}: {}\n\n{}", t.key.benchmark, t.key.division, t.key.hardware,
                     t.key.tier, t.task, tinytorch::document::text_table(rows));
}

inline std::string tokens_text(const board::TokenTimes& t) {
  using tinytorch::document::show_seconds;
  return show_seconds(t.to_first) + " to the first token, " + show_seconds(t.per_token) + " a token";
}

inline std::string runs_table(const std::vector<board::Run>& runs) {
  tinytorch::document::Rows rows{{"run", "scenario", "class", "times the baseline", ""}};
  for (const board::Run& r : runs)
    rows.push_back({std::to_string(r.id), r.benchmark + " " + r.scenario, r.run_class, text_of(r.ratio),
                    (r.out.empty() ? "against " + r.baseline : "out: " + one_line(r.out)) +
                        (r.tokens ? "; " + tokens_text(*r.tokens) : "") +
                        (r.load.empty() ? "" : "; " + r.load)});
  return tinytorch::document::text_table(rows, 1);
}

// The newest run of kernels, op by op.
inline std::string ops_table(const std::vector<board::Run>& runs) {
  const auto found = std::ranges::find_if(runs, [](const board::Run& r) { return r.kernels.has_value(); });
  if (found == runs.end()) return "";
  tinytorch::document::Rows rows{{"op", "", "times the baseline", "on hidden shapes", ""}};
  for (const board::OpRow& op : found->ops)
    rows.push_back({op.op, op.state, text_of(op.ratio), text_of(op.hidden), op.reason});
  return fmt::format("run {}, {} of {} ops right; fast 1, 1.5, 2: {}\n{}", found->id, found->kernels->right,
                     found->kernels->ops, fast_text(found->kernels),
                     tinytorch::document::text_table(rows, 1));
}

inline std::string text_of(const board::Submission& s) {
  std::string out = fmt::format("{} {} by {}{}\nid {}\n{}, tier {}, {}, licence {}\n", s.id, s.name, s.author,
                                s.team.empty() ? "" : " (" + s.team + ")", s.bundle, s.division, s.tier,
                                text_of(s.level), s.licence.empty() ? "not said" : s.licence);
  if (s.hiding)
    return out + fmt::format("\n{} {}: {}\n",
                             s.hiding->by_owner ? "withdrawn by its owner" : "hidden by the instructor",
                             s.hiding->date, s.hiding->reason);
  if (!s.note.empty()) out += "\n" + s.note + "\n";
  for (const auto& [metric, value] : s.claims) out += fmt::format("claims {} {}\n", metric, value);
  if (s.compiled) out += "its forward pass is compiled\n";
  for (const std::string& header : s.replaced) out += "replaces " + header + "\n";
  for (const std::string& reason : s.reasons) out += "look at " + reason + "\n";
  tinytorch::document::Rows files{{"file", "bytes", "sha256"}};
  for (const board::File& f : s.files) files.push_back({f.path, std::to_string(f.bytes), f.sha256});
  out += "\n" + tinytorch::document::text_table(files);
  if (!s.runs.empty()) out += "\n" + runs_table(s.runs) + ops_table(s.runs);
  return out;
}

inline std::string text_of(const std::vector<board::Job>& queue) {
  tinytorch::document::Rows rows{{"job", "submission", "match", "state", ""}};
  for (const board::Job& j : queue)
    rows.push_back({std::to_string(j.id), fmt::format("{} {}", j.submission, j.name),
                    j.benchmark + " " + j.scenario, board::state_name(j.state), one_line(j.message)});
  return tinytorch::document::text_table(rows, 1);
}

// The text files of a folder, a bundle or a submission that is named on the command line.
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
    board::Queries queries(store, {.has_file = true});
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

// Exit status as of diff: 0 they are the same, 1 they differ.
inline int run_diff(const DiffOptions& o, std::FILE* out = stdout) {
  return detail::guarded(out, [&] {
    const std::string text =
        board::folder_diff("a", detail::texts_of(o.a, o.board), "b", detail::texts_of(o.b, o.board));
    fmt::print(out, "{}", text);
    return text.empty() ? kPass : kFailed;
  });
}

}  // namespace tinymlperf
