// Checks a whole board without trusting it: digests, manifests, rows, rules of the tables, samples.
#pragma once

#include <limits>
#include <string>
#include <tinymlperf/board/store/queries.hpp>
#include <tinymlperf/judge/results/verify_run.hpp>
#include <vector>

namespace tinymlperf::board {

namespace detail {

using Complaints = std::vector<std::string>;

// Every table, index and trigger must be as this program creates it, and there must be no others.
inline void verify_schema(Database& db, Complaints& out) {
  const auto schema = [](Database& of) {
    std::map<std::string, std::string> objects;
    for (Rows r = of.query("SELECT name, coalesce(sql, '') FROM sqlite_schema"); r.next();)
      objects[r.text(0)] = r.text(1);
    return objects;
  };
  Database fresh(":memory:");
  prepare(fresh);
  const auto expected = schema(fresh), found = schema(db);
  for (const auto& [name, sql] : expected)
    if (!found.contains(name) || found.at(name) != sql)
      out.push_back("schema: " + name + " is missing or changed");
  for (const auto& [name, sql] : found)
    if (!expected.contains(name)) out.push_back("schema: " + name + " does not belong there");
  const std::string integrity = db.text("PRAGMA integrity_check").value_or("");
  if (integrity != "ok") out.push_back("database: " + integrity);
  if (db.query("PRAGMA foreign_key_check").next())
    out.push_back("database: a row names another that is not there");
}

inline void verify_bundle(Store& store, int64_t id, Complaints& out) {
  Database& db = store.database();
  const std::string where = "submission " + std::to_string(id) + ": ";
  try {
    const bundle::Bundle b = bundle::read_bundle(store.bundle_bytes(id).value());
    bundle::check_rules(b);
    const auto same = db.integer(
        "SELECT id FROM bundles WHERE id = ? AND sha256 = ? AND manifest = ? AND name = ? AND division = ? "
        "AND tier = ? AND hardware = ?",
        id, b.id, b.manifest_text, b.manifest.name, b.manifest.division, b.manifest.tier,
        b.manifest.hardware);
    if (!same) out.push_back(where + "its row is not what its bundle says");
    if (db.integer("SELECT count(*) FROM files WHERE bundle = ?", id) != static_cast<int64_t>(b.files.size()))
      out.push_back(where + "files were added or are missing");
    for (const bundle::ArchiveFile& file : b.files)
      if (!db.integer(
              "SELECT 1 FROM files WHERE bundle = ? AND path = ? AND sha256 = ? AND bytes = ? AND text = ?",
              id, file.path, bundle::sha256(file.content), static_cast<int64_t>(file.content.size()),
              bundle::is_shown(file) ? file.content : ""))
        out.push_back(where + file.path + " is not what its bundle has");
    for (const Fingerprint& f : fingerprints_of(b)) {
      const auto kept = db.text("SELECT hashes FROM fingerprints WHERE bundle = ? AND kind = ?", id, f.kind);
      if (kept && *kept != bytes_of(f.hashes))  // an earlier board has none
        out.push_back(where + "its fingerprint of " + f.kind + " does not follow from its files");
    }
  } catch (const Refusal& r) {
    out.push_back(where + r.what());
  }
}

inline void verify_stored_run(Database& db, int64_t id, Complaints& out) {
  const std::string where = "run " + std::to_string(id) + ": ";
  try {
    const AnyRun d = read_run(db, id).value();
    if (db.text("SELECT sha256 FROM runs WHERE id = ?", id) != digest_of(d))
      out.push_back(where + "it is not what was measured");
    if (const std::string wrong =
            verify_run(judge::to_json(d), is_older_run(db, id) ? RunAge::older : RunAge::present);
        !wrong.empty())
      out.push_back(where + wrong);
  } catch (const std::exception& e) {
    out.push_back(where + e.what());
  }
}

}  // namespace detail

// The seal of a board after its first `runs` runs, or after all: their number and a digest that chains
// theirs. Runs are only ever added, so a seal that somebody noted stays valid while the board grows.
inline std::string seal_of_board(Database& db, int64_t runs = std::numeric_limits<int64_t>::max()) {
  std::string link;
  int64_t count = 0;
  for (Rows r = db.query("SELECT sha256 FROM runs ORDER BY id LIMIT ?", runs); r.next(); ++count)
    link = bundle::sha256(link + r.text(0));
  return std::to_string(count) + ":" + link;
}

// Describes why `seal` does not fit the board. The text is empty if the board still holds every run that it
// held when `seal` was noted.
inline std::string seal_complaint(Database& db, const std::string& seal) {
  const size_t digits = seal.find_first_not_of("0123456789");
  if (digits == 0 || digits > 15 || seal[digits] != ':')
    return "a board's seal is a number of runs, a colon and a digest";
  const std::string found = seal_of_board(db, std::stoll(seal.substr(0, digits)));
  return found == seal ? ""
                       : "the seal is " + found + ", expected " + seal + ": a run was changed or removed";
}

// Lists all faults of a board; the list is empty if the board is as it was submitted and measured. Ranks
// follow from the samples, since every query recomputes them.
inline std::vector<std::string> verify_board(Store& store) {
  std::vector<std::string> out;
  Database& db = store.database();
  const auto ids = [](Rows r) {
    std::vector<int64_t> all;
    while (r.next()) all.push_back(r.integer(0));
    return all;
  };
  detail::verify_schema(db, out);
  for (const int64_t id : ids(db.query("SELECT id FROM bundles ORDER BY id")))
    detail::verify_bundle(store, id, out);
  for (const int64_t id : ids(db.query("SELECT id FROM runs ORDER BY id")))
    detail::verify_stored_run(db, id, out);
  for (Rows r = db.query("SELECT DISTINCT run, bundle FROM reviews"); r.next();) {
    const auto result = result_in(db, r.integer(0), r.integer(1));
    if (!result || !result->held)
      out.push_back("run " + std::to_string(r.integer(0)) + ": it was reviewed, but it is not held");
  }
  for (const int64_t id : ids(db.query("SELECT j.id FROM jobs j LEFT JOIN runs r ON r.job = j.id WHERE "
                                       "(j.state = 'done') <> (r.id IS NOT NULL) ORDER BY j.id")))
    out.push_back("job " + std::to_string(id) + ": done without a run, or a run without being done");
  return out;
}

}  // namespace tinymlperf::board
