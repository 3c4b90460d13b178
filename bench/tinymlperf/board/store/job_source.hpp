// The interface through which a worker gets jobs and returns their results. It has two implementations: the
// board's own file (LocalJobs), and a board at an address (web/remote_jobs.hpp), whose server asks a
// LocalJobs in turn.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <tinymlperf/board/store/queries.hpp>
#include <vector>

namespace tinymlperf::board {

// A job, and what its match needs. Bundles are named by their digests.
struct Assignment {
  Claim claim;
  std::string opponent;             // name of the contender that it is played against
  std::string submission, against;  // bundles of the two contenders
  std::string base;                 // bundle of the table's baseline; empty: there is none
  double best = 1;                  // the best ranked entry of the table, in times the baseline (audit A11)
  double lease = 0;                 // seconds, renewed by each report
};

// A submission whose source was not compiled yet.
struct Uncompiled {
  int64_t submission = 0;
  std::string bundle;
};

// The board cannot be asked, or does not know the worker (any more). The job is not to blame.
class BoardUnavailable : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class JobSource {
 public:
  virtual ~JobSource() = default;
  // Returns true if claim() would give a job.
  virtual bool has_job(const std::string& hardware) = 0;
  virtual std::optional<Assignment> claim(const std::string& hardware) = 0;
  // The bytes of a bundle. Throws Refusal if the board has no such bundle.
  virtual std::string bundle(const std::string& digest) = 0;
  virtual std::vector<Uncompiled> uncompiled(const std::string& hardware) = 0;
  virtual void note_compiled(int64_t submission, const std::string& why_not) = 0;
  // Renews the lease. This and the next two throw LeaseLost.
  virtual void report(const Claim& claim, double progress, const std::string& message) = 0;
  // Returns the number of the run. The same result may come twice.
  virtual int64_t finish(const Claim& claim, const AnyRun& run) = 0;
  // Returns true if the job waits again.
  virtual bool fail(const Claim& claim, const std::string& why, Fault fault) = 0;
};

// The jobs of a board in a file.
class LocalJobs final : public JobSource {
 public:
  explicit LocalJobs(Store& store) : store_(store) {}

  bool has_job(const std::string& hardware) override { return store_.queue().has_job(hardware); }

  std::optional<Assignment> claim(const std::string& hardware) override {
    const auto claim = store_.queue().claim(hardware);
    if (!claim) return std::nullopt;
    const bundle::Manifest m = store_.manifest(claim->submission).value();
    const auto base = store_.baseline(claim->benchmark, m.division, m.tier);
    return Assignment{*claim,
                      store_.manifest(claim->against).value().name,
                      digest_of_bundle(claim->submission),
                      digest_of_bundle(claim->against),
                      base ? digest_of_bundle(*base) : "",
                      best_of_table(*claim, m),
                      store_.options().queue.lease};
  }

  std::string bundle(const std::string& digest) override {
    auto bytes = store_.database().text("SELECT content FROM bundles WHERE sha256 = ?", digest);
    if (!bytes)
      throw Refusal("bundle", "", "the digest of one of this board", tinymlperf::detail::show(Json(digest)));
    return *std::move(bytes);
  }

  std::vector<Uncompiled> uncompiled(const std::string& hardware) override {
    std::vector<Uncompiled> out;
    for (const int64_t one : store_.queue().uncompiled(hardware)) out.push_back({one, digest_of_bundle(one)});
    return out;
  }
  void note_compiled(int64_t submission, const std::string& why_not) override {
    store_.queue().note_compiled(submission, why_not);
  }

  void report(const Claim& claim, double progress, const std::string& message) override {
    store_.queue().report(claim, progress, message);
  }
  int64_t finish(const Claim& claim, const AnyRun& run) override { return store_.queue().finish(claim, run); }
  bool fail(const Claim& claim, const std::string& why, Fault fault) override {
    return store_.queue().fail(claim, why, fault);
  }

 private:
  std::string digest_of_bundle(int64_t submission) {
    return store_.database().text("SELECT sha256 FROM bundles WHERE id = ?", submission).value();
  }

  // The best ranked entry in the scenario; at least 1, the baseline itself.
  double best_of_table(const Claim& claim, const bundle::Manifest& m) {
    const auto table = Queries(store_).table({claim.benchmark, m.division, m.hardware, m.tier});
    double best = 1;
    for (const Row& row : table ? table->rows : std::vector<Row>())
      for (const Cell& cell : row.cells)
        if (row.rank > 0 && cell.scenario == claim.scenario && cell.ratio)
          best = std::max(best, cell.ratio->estimate);
    return best;
  }

  Store& store_;
};

}  // namespace tinymlperf::board
