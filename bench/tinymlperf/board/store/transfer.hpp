// A board as one tar file: every bundle, every run, and the ranks that follow from them.
//
//   board.json            {"schema": "tinymlperf-board-2",
//                          "bundles": [{"file", "user", "created"}, ...], "runs": [file, ...],
//                          "baselines": [{"benchmark", "division", "bundle"}, ...], "ranks": [...],
//                          "reviews": [{"run": its digest, "bundle", "released", "reason", "created"}, ...],
//                          "older": [files of runs whose judge kept no evidence of its audits, ...],
//                          "hidden": [{"bundle", "hidden", "by_owner", "reason", "created"}, ...]}
//   bundles/000001.tmlp   runs/000001.json
//
// An import checks everything as if it were new, and computes the ranks in a temporary board before anything
// is stored. Known items stay as they are, so importing is idempotent. Matches that were not played yet are
// queued here; jobs and tokens are not exported. Exports of "tinymlperf-board-1" hold older runs alone, and
// early ones of both schemas have no list of hidden submissions.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <tinymlperf/board/store/queries.hpp>
#include <tinymlperf/judge/results/verify_run.hpp>
#include <vector>

namespace tinymlperf::board {

constexpr const char* kBoardFile = "board.json";
constexpr const char *kBoardSchema = "tinymlperf-board-2", *kOlderBoardSchema = "tinymlperf-board-1";
constexpr bundle::ArchiveLimits kBoardLimits{.files = 200000, .bytes = int64_t{1} << 32};

// The ranks of every table by bundle, for the comparison of two boards.
inline Json ranks(Store& store) {
  Queries queries(store);
  Json tables = Json::array();
  for (const TableKey& key : queries.table_keys()) {
    Json rows = Json::array();
    const Table table = queries.table(key).value();
    for (const Row& row : table.rows)
      if (row.rank > 0)
        rows.push_back(
            {{"bundle",
              store.database().text("SELECT sha256 FROM bundles WHERE id = ?", row.submission).value()},
             {"rank", row.rank},
             {"score", interval_to_json(*row.score)}});
    tables.push_back({{"benchmark", key.benchmark},
                      {"division", key.division},
                      {"tier", key.tier},
                      {"hardware", key.hardware},
                      {"rows", rows}});
  }
  return tables;
}

inline std::string export_board(Store& store) {
  Database& db = store.database();
  std::vector<bundle::ArchiveFile> files(1);
  Json bundles = Json::array(), runs = Json::array(), baselines = Json::array(), older = Json::array();
  const auto name = [](const char* folder, size_t number, const char* end) {
    return fmt::format("{}/{:06}{}", folder, number, end);
  };
  for (Rows r = db.query(
           "SELECT b.content, u.name, b.created FROM bundles b JOIN users u ON u.id = b.user ORDER BY b.id");
       r.next();) {
    files.push_back({name("bundles", bundles.size() + 1, ".tmlp"), r.text(0)});
    bundles.push_back({{"file", files.back().path}, {"user", r.text(1)}, {"created", r.text(2)}});
  }
  for (Rows r = db.query("SELECT id FROM runs ORDER BY id"); r.next();) {
    files.push_back({name("runs", runs.size() + 1, ".json"),
                     judge::to_json(read_run(db, r.integer(0)).value()).dump() + "\n"});
    runs.push_back(files.back().path);
    if (is_older_run(db, r.integer(0))) older.push_back(files.back().path);
  }
  for (Rows r = db.query(
           "SELECT l.benchmark, l.division, b.sha256 FROM baselines l JOIN bundles b ON b.id = l.bundle "
           "ORDER BY 1, 2, l.tier");
       r.next();)
    baselines.push_back({{"benchmark", r.text(0)}, {"division", r.text(1)}, {"bundle", r.text(2)}});
  Json reviews = Json::array();
  for (Rows r = db.query(
           "SELECT n.sha256, b.sha256, w.released, w.reason, w.created FROM reviews w JOIN runs n ON n.id = "
           "w.run JOIN bundles b ON b.id = w.bundle ORDER BY w.id");
       r.next();)
    reviews.push_back({{"run", r.text(0)},
                       {"bundle", r.text(1)},
                       {"released", r.integer(2) != 0},
                       {"reason", r.text(3)},
                       {"created", r.text(4)}});
  Json hidden = Json::array();
  for (Rows r = db.query("SELECT b.sha256, h.hidden, h.by, h.reason, h.created FROM hidings h JOIN bundles b "
                         "ON b.id = h.bundle ORDER BY h.id");
       r.next();)
    hidden.push_back({{"bundle", r.text(0)},
                      {"hidden", r.integer(1) != 0},
                      {"by_owner", r.text(2) == "owner"},
                      {"reason", r.text(3)},
                      {"created", r.text(4)}});
  files[0] = {kBoardFile, Json{{"schema", kBoardSchema},
                               {"bundles", bundles},
                               {"runs", runs},
                               {"baselines", baselines},
                               {"reviews", reviews},
                               {"older", older},
                               {"hidden", hidden},
                               {"ranks", ranks(store)}}
                                  .dump(1) +
                              "\n"};
  return bundle::write_archive(files);
}

struct Imported {
  int64_t bundles = 0, runs = 0;  // new on this board
  int64_t known_bundles = 0, known_runs = 0;
};

namespace detail {

struct Luggage {
  std::vector<bundle::ArchiveFile> files;
  Json board;

  bool is_older() const { return board.is_object() && board.value("schema", Json()) == kOlderBoardSchema; }
  const std::string& content(const std::string& path) const {
    for (const bundle::ArchiveFile& file : files)
      if (file.path == path) return file.content;
    throw Refusal(kBoardFile, "", "only files of this archive", tinymlperf::detail::show(Json(path)));
  }
};

inline Luggage open_luggage(std::string_view bytes) {
  Luggage l{bundle::read_archive(bytes, kBoardLimits), {}};
  l.board = tinymlperf::detail::parse_json(l.content(kBoardFile), kBoardFile);
  if (l.is_older()) l.board["older"] = l.board.value("runs", Json::array());
  if (l.board.is_object() && !l.board.contains("hidden")) l.board["hidden"] = Json::array();
  const tinymlperf::detail::Fields fields(
      l.board, "", {"schema", "bundles", "runs", "baselines", "ranks", "reviews", "older", "hidden"},
      kBoardFile);
  if (!l.is_older() && fields.text("schema", 60, nullptr) != kBoardSchema)
    fields.refuse("schema", kBoardSchema, tinymlperf::detail::show(l.board.at("schema")));
  for (const char* key : {"bundles", "runs", "baselines", "ranks", "reviews", "older", "hidden"})
    fields.array(key, 0, kBoardLimits.files);
  return l;
}

inline void unload_bundles(Store& store, const Luggage& l, Imported& count) {
  for (const Json& j : l.board.at("bundles")) {
    const tinymlperf::detail::Fields f(j, "bundles", {"file", "user", "created"}, kBoardFile);
    const bool fresh =
        store.adopt(f.text("user", 60, nullptr), l.content(f.text("file", bundle::kPathLength, nullptr)),
                    f.text("created", 30, nullptr));
    ++(fresh ? count.bundles : count.known_bundles);
  }
  for (const Json& j : l.board.at("baselines")) {
    const tinymlperf::detail::Fields f(j, "baselines", {"benchmark", "division", "bundle"}, kBoardFile);
    store.adopt_baseline(f.text("benchmark", 60, nullptr), f.text("division", 60, nullptr),
                         f.text("bundle", 64, nullptr));
  }
}

inline AnyRun read_run_file(const std::string& path, const std::string& text, RunAge age) {
  std::string wrong;
  try {
    const Json document = tinymlperf::detail::parse_json(text, path);
    wrong = verify_run(document, age);
    if (wrong.empty()) return judge::read_any_run(document);
  } catch (const std::exception& e) {
    wrong = e.what();
  }
  throw Refusal(path, "", "a run whose numbers follow from its samples", wrong);
}

inline void unload_runs(Store& store, const Luggage& l, Imported& count) {
  for (const Json& j : l.board.at("runs")) {
    const std::string path = j.is_string() ? j.get<std::string>() : "";
    const Json& older = l.board.at("older");
    const bool is_older = std::ranges::find(older, j) != older.end();
    const AnyRun d = read_run_file(path, l.content(path), is_older ? RunAge::older : RunAge::present);
    const auto before = store.database().integer("SELECT count(*) FROM runs");
    store.ingest(d, is_older ? 2 : 0);
    ++(store.database().integer("SELECT count(*) FROM runs") != before ? count.runs : count.known_runs);
  }
}

inline void unload_reviews(Store& store, const Luggage& l) {
  Database& db = store.database();
  for (const Json& j : l.board.at("reviews")) {
    const tinymlperf::detail::Fields f(j, "reviews", {"run", "bundle", "released", "reason", "created"},
                                       kBoardFile);
    const auto run = db.integer("SELECT id FROM runs WHERE sha256 = ?", f.text("run", 64, nullptr));
    const auto bundle = db.integer("SELECT id FROM bundles WHERE sha256 = ?", f.text("bundle", 64, nullptr));
    if (!run || !bundle) f.refuse("run", "a run and a bundle of this archive", "others");
    store.adopt_review(*bundle, *run,
                       {f.boolean("released", false), f.text("reason", kNoteBytes, nullptr),
                        f.text("created", 30, nullptr)});
  }
}

inline void unload_hidings(Store& store, const Luggage& l) {
  for (const Json& j : l.board.at("hidden")) {
    const tinymlperf::detail::Fields f(j, "hidden", {"bundle", "hidden", "by_owner", "reason", "created"},
                                       kBoardFile);
    const auto bundle =
        store.database().integer("SELECT id FROM bundles WHERE sha256 = ?", f.text("bundle", 64, nullptr));
    if (!bundle) f.refuse("bundle", "a bundle of this archive", "another");
    store.adopt_hiding(*bundle, {f.boolean("hidden", true), f.boolean("by_owner", false),
                                 f.text("reason", kNoteBytes, nullptr), f.text("created", 30, nullptr)});
  }
}

inline Imported unload(Store& store, const Luggage& l) {
  Imported count;
  unload_bundles(store, l, count);
  unload_runs(store, l, count);
  unload_reviews(store, l);
  unload_hidings(store, l);
  for (const Json& j : l.board.at("bundles"))
    store.settle(bundle::sha256(l.content(j.at("file").get<std::string>())));
  return count;
}

}  // namespace detail

// Throws Refusal. Items before the refused one are stored, and a further import continues from there.
inline Imported import_board(Store& store, std::string_view bytes) {
  const detail::Luggage luggage = detail::open_luggage(bytes);
  Store rehearsal(":memory:", store.options());
  detail::unload(rehearsal, luggage);
  const Json again = ranks(rehearsal);
  if (!tinymlperf::detail::agree(luggage.board.at("ranks"), again))
    throw Refusal(kBoardFile, "ranks", "those that follow from the samples",
                  "others: " + tinymlperf::detail::show(luggage.board.at("ranks")));
  return detail::unload(store, luggage);
}

}  // namespace tinymlperf::board
