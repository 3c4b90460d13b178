// Runs in the database: a run.json split into rows, and joined again into the same document.
#pragma once

#include <bit>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <tinymlperf/board/store/database.hpp>
#include <tinymlperf/bundle/digest.hpp>
#include <tinymlperf/bundle/manifest.hpp>
#include <tinymlperf/entries/entry.hpp>
#include <tinymlperf/entries/header_set.hpp>
#include <tinymlperf/judge/results/any_run.hpp>
#include <tinytorch/benchmarking/paired_ratio.hpp>
#include <vector>

namespace tinymlperf::board {

using judge::AnyRun;
using judge::ContenderRecord;
using judge::RunDocument;
using judge::kernels::KernelContenderRecord;
using judge::kernels::KernelRun;

namespace detail {

static_assert(std::endian::native == std::endian::little, "samples are stored as little-endian f64 and i64");

template <class T>
std::string_view bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}
template <class T>
std::vector<T> values_of(const std::string& bytes) {
  if (bytes.size() % sizeof(T) != 0) throw DatabaseError("samples that are no whole numbers of 8 bytes");
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// Removes the date, so that the rest describes the machine.
inline Json without_date(Json machine) {
  if (machine.is_object()) machine.erase("date");
  return machine;
}

inline void insert_contender(Database& db, int64_t run, int64_t place, const ContenderRecord& c) {
  std::optional<std::string> bundle;
  if (!c.bundle.empty()) bundle = c.bundle;
  std::optional<double> quality, low, high;
  if (c.quality) quality = c.quality->estimate, low = c.quality->low, high = c.quality->high;
  db.run("INSERT INTO contenders VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", run, place,
         c.name, bundle, c.tier, c.out, quality, low, high, c.credit, c.model_bytes, c.peak_bytes,
         c.multiply_adds, Blob{bytes_of(c.minus_bits)}, Blob{bytes_of(c.wins.positives)},
         Blob{bytes_of(c.wins.negatives)},
         c.evidence.empty() ? "" : judge::to_json(c.evidence).dump(-1, ' ', true));
  for (size_t i = 0; i < c.turns.size(); ++i)
    db.run("INSERT INTO turns VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)", run, place, static_cast<int64_t>(i),
           c.turns[i].seconds, c.turns[i].samples, Blob{bytes_of(c.turns[i].latencies)}, c.turns[i].rate,
           Blob{bytes_of(c.turns[i].tokens)}, Blob{bytes_of(c.turns[i].to_first)});
  for (size_t i = 0; i < c.training.size(); ++i)
    db.run("INSERT INTO trainings VALUES(?, ?, ?, ?, ?, ?, ?, ?)", run, place, static_cast<int64_t>(i),
           static_cast<int64_t>(c.training[i].seed), c.training[i].limit, Blob{bytes_of(c.training[i].times)},
           Blob{bytes_of(c.training[i].qualities)}, c.training[i].ended);
  for (size_t i = 0; i < c.audits.size(); ++i)
    db.run("INSERT INTO audits VALUES(?, ?, ?, ?, ?, ?, ?)", run, place, static_cast<int64_t>(i),
           c.audits[i].id, c.audits[i].name, c.audits[i].passed, c.audits[i].detail);
}

// Returns true if the bundle with this digest is a model that asks for a compiled forward pass.
inline bool is_compiled(Database& db, const std::string& digest) {
  const auto model = db.text(
      "SELECT m.text FROM bundles b JOIN files m ON m.bundle = b.id AND m.path = 'model.json' "
      "WHERE b.sha256 = ? AND NOT EXISTS (SELECT 1 FROM files p WHERE p.bundle = b.id AND p.path = "
      "'plugin.cpp')",
      digest);
  return model && asks_to_compile(*model);
}

inline ContenderRecord read_contender(Database& db, int64_t run, const Rows& row) {
  ContenderRecord c;
  c.name = row.text(1);
  c.bundle = row.text(2);
  c.tier = row.text(3);
  c.out = row.text(4);
  if (!row.is_null(5)) c.quality = judge::Interval{row.number(5), row.number(6), row.number(7)};
  c.model_bytes = row.integer(8);
  c.peak_bytes = row.integer(9);
  c.multiply_adds = row.integer(10);
  c.credit = row.text(11);
  c.minus_bits = values_of<double>(row.text(12));
  c.wins = {values_of<int64_t>(row.text(13)), values_of<int64_t>(row.text(14))};
  if (const std::string evidence = row.text(15); !evidence.empty())
    c.evidence = judge::read_evidence(Json::parse(evidence), c.name);
  const int64_t place = row.integer(0);
  for (Rows t = db.query("SELECT seconds, samples, latencies, rate, tokens, to_first FROM turns WHERE run = "
                         "? AND place = ? ORDER BY turn",
                         run, place);
       t.next();)
    c.turns.push_back({t.number(0), t.integer(1), values_of<double>(t.text(2)), t.number(3),
                       values_of<int64_t>(t.text(4)), values_of<double>(t.text(5))});
  for (Rows t = db.query("SELECT seed, time_limit, times, qualities, ended FROM trainings WHERE run = ? AND "
                         "place = ? ORDER BY number",
                         run, place);
       t.next();)
    c.training.push_back({static_cast<uint64_t>(t.integer(0)), t.number(1), values_of<double>(t.text(2)),
                          values_of<double>(t.text(3)), t.text(4)});
  for (Rows a = db.query(
           "SELECT code, name, passed, detail FROM audits WHERE run = ? AND place = ? ORDER BY number", run,
           place);
       a.next();)
    c.audits.push_back({a.text(0), a.text(1), a.integer(2) != 0, a.text(3)});
  if (Rows b = db.query("SELECT manifest FROM bundles WHERE sha256 = ?", c.bundle);
      c.tier == "T2" && b.next())
    c.replaced = HeaderSet::names_in(bundle::parse_manifest(b.text(0)).files);
  c.compiled = is_compiled(db, c.bundle);
  return c;
}

// Stores a contender of a match of kernels. Its row has the fields that both kinds of matches share, and each
// op has its own row, with its nested samples as in run.json.
inline void insert_contender(Database& db, int64_t run, int64_t place, const KernelContenderRecord& c) {
  ContenderRecord common;
  common.name = c.name, common.bundle = c.bundle, common.tier = c.tier, common.out = c.out;
  common.peak_bytes = c.peak_bytes, common.audits = c.audits;
  insert_contender(db, run, place, common);
  for (size_t i = 0; i < c.ops.size(); ++i)
    db.run("INSERT INTO ops VALUES(?, ?, ?, ?, ?, ?, ?)", run, place, static_cast<int64_t>(i), c.ops[i].op,
           c.ops[i].state, c.ops[i].reason,
           judge::kernels::detail::cases_to_json(c.ops[i]).dump(-1, ' ', true));
}

inline KernelContenderRecord kernels_of(Database& db, int64_t run, int64_t place,
                                        const ContenderRecord& common) {
  KernelContenderRecord c{common.name, common.tier, common.out, common.peak_bytes, common.audits};
  c.bundle = common.bundle, c.replaced = common.replaced;
  for (Rows r =
           db.query("SELECT op, state, reason, cases FROM ops WHERE run = ? AND place = ? ORDER BY number",
                    run, place);
       r.next();)
    c.ops.push_back(judge::kernels::detail::read_op(
        {{"op", r.text(0)}, {"state", r.text(1)}, {"reason", r.text(2)}, {"cases", Json::parse(r.text(3))}}));
  return c;
}

// `common` has the fields that both kinds of run share.
inline KernelRun kernel_run(Database& db, int64_t run, const RunDocument& common) {
  KernelRun k{common.run_class, common.hardware, common.date, common.seed,
              common.machine,   common.sandbox,  {}};
  for (size_t i = 0; i < common.contenders.size(); ++i)
    k.contenders.push_back(kernels_of(db, run, static_cast<int64_t>(i), common.contenders[i]));
  return k;
}

}  // namespace detail

// The digest of the document without the numbers that follow from its samples; it identifies the measurement.
inline std::string digest_of(const AnyRun& d) {
  Json j = judge::to_json(d);
  j["machine"] = detail::without_date(j["machine"]);
  j.erase(judge::kChain);
  for (Json& c : j["contenders"]) {
    for (const char* derived : {"value", "times_the_baseline", "ops_right", "score", "fast"})
      c.erase(derived);
    if (!c.contains("ops")) continue;
    c.erase("quality");
    for (Json& op : c["ops"]) {
      op.erase("times_the_baseline");
      op.erase("hidden_times_the_baseline");
    }
  }
  return bundle::sha256(j.dump(-1, ' ', true));
}

namespace detail {

template <class Document>
int64_t insert_run(Database& db, const Document& d, std::optional<int64_t> job, const std::string& now) {
  const judge::Measured what = judge::measured_by(d);
  const std::string machine = detail::without_date(d.machine).dump(-1, ' ', true);
  db.run("INSERT INTO machines(description) VALUES(?) ON CONFLICT DO NOTHING", machine);
  const int64_t machine_id = db.integer("SELECT id FROM machines WHERE description = ?", machine).value();
  const int64_t run = db.insert(
      "INSERT INTO runs(job, sha256, benchmark, scenario, division, class, hardware, date, seed, "
      "hidden_samples, quality_metric, quality_floor, machine, sandbox, created) "
      "VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
      job, digest_of(d), what.benchmark, what.scenario, what.division, d.run_class, d.hardware, d.date,
      static_cast<int64_t>(d.seed), what.hidden_samples, what.quality_metric, what.quality_floor, machine_id,
      d.sandbox.dump(-1, ' ', true), now);
  for (size_t i = 0; i < d.contenders.size(); ++i)
    detail::insert_contender(db, run, static_cast<int64_t>(i), d.contenders[i]);
  return run;
}

}  // namespace detail

// Call it inside a transaction. Every contender's bundle must be known already, or be empty. Throws
// std::invalid_argument if the document is invalid, or is of a text that others do not have.
inline int64_t insert_run(Database& db, const AnyRun& document, std::optional<int64_t> job,
                          const std::string& now) {
  const AnyRun any =
      judge::read_any_run(judge::to_json(document));  // the reader of documents checks all runs
  if (const auto* d = std::get_if<RunDocument>(&any); d && !d->text.is_null())
    throw std::invalid_argument("a run on a text of one's own has no place in a table");
  if (const auto* d = std::get_if<RunDocument>(&any);
      d && std::ranges::any_of(d->contenders, [](const auto& c) { return !c.worker.empty(); }))
    throw std::invalid_argument("a run with a worker of one's own has no place in a table");
  return std::visit([&](const auto& d) { return detail::insert_run(db, d, job, now); }, any);
}

inline bool is_older_run(Database& db, int64_t run) {
  return db.integer("SELECT run FROM older_runs WHERE run = ?", run).has_value();
}

// Reads a run; the result is nullopt if there is no such run.
inline std::optional<AnyRun> read_run(Database& db, int64_t run) {
  Rows row = db.query(
      "SELECT benchmark, scenario, class, hardware, date, seed, hidden_samples, quality_metric, "
      "quality_floor, description, sandbox, division FROM runs JOIN machines ON machines.id = machine "
      "WHERE runs.id = ?",
      run);
  if (!row.next()) return std::nullopt;
  RunDocument d;
  d.run_class = row.text(2), d.hardware = row.text(3), d.date = row.text(4);
  d.seed = static_cast<uint64_t>(row.integer(5));
  d.machine = Json::parse(row.text(9)), d.sandbox = Json::parse(row.text(10));
  for (Rows c =
           db.query("SELECT place, name, bundle, tier, out, quality, quality_low, quality_high, model_bytes, "
                    "peak_bytes, multiply_adds, credit, minus_bits, positive_wins, negative_wins, "
                    "evidence FROM contenders WHERE run = ? ORDER BY place",
                    run);
       c.next();)
    d.contenders.push_back(detail::read_contender(db, run, c));
  if (row.text(0) == kKernelBenchmark) return detail::kernel_run(db, run, d);
  d.benchmark = row.text(0), d.scenario = judge::scenario_named(row.text(1));
  d.division = row.text(11), d.hidden_samples = row.integer(6);
  d.quality_metric = row.text(7), d.quality_floor = row.number(8);
  return d;
}

// In a direct match of two: true if the second beat the first, by the rule for new records. Empty while
// either is out.
inline std::optional<tinytorch::statistics::RecordTrial> record_trial(const KernelRun& d) {
  if (d.contenders.size() != 2 || !judge::kernels::score_of(d.contenders[1], d.contenders[0]))
    return std::nullopt;
  const auto blocks = judge::kernels::score_blocks(d.contenders[1], d.contenders[0]);
  return tinytorch::statistics::challenge_record(blocks.baseline, blocks.ours);
}
inline std::optional<tinytorch::statistics::RecordTrial> record_trial(const RunDocument& d) {
  if (d.contenders.size() != 2 || !judge::times_the_baseline(d.scenario, d.contenders[1], d.contenders[0]))
    return std::nullopt;
  if (d.scenario == judge::Scenario::time_to_quality)
    return judge::training_record(d.contenders[0].training, d.contenders[1].training);
  const auto ratios =
      tinytorch::statistics::block_ratios(judge::block_costs(d.scenario, d.contenders[0].turns),
                                          judge::block_costs(d.scenario, d.contenders[1].turns),
                                          tinytorch::benchmarking::rounds_of(d.contenders[0].turns.size()));
  return tinytorch::statistics::challenge_record(ratios, std::vector<double>(ratios.size(), 1));
}

}  // namespace tinymlperf::board
