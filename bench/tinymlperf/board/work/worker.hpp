// A worker of the board: compiles new source (C2), claims a job, unpacks both bundles into a fresh folder,
// plays the match, and stores the result. It may be killed at any moment; then its lease ends and another
// worker plays the match again.
#pragma once

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <tinymlperf/board/store/job_source.hpp>
#include <tinymlperf/bundle/compile.hpp>
#include <tinymlperf/judge/match/kernel_claims.hpp>
#include <tinymlperf/judge/match/play.hpp>
#include <tinymlperf/support/machine_load.hpp>
#include <tinymlperf/support/machine_lock.hpp>

namespace tinymlperf::board {

// Plays a match between the entries in folders; the first is the baseline.
using Player = std::function<AnyRun(const RunOptions&)>;

namespace detail {

// Reports the progress of a claimed job, and renews its lease while this object lives by repeating the last
// report.
class Heartbeat {
 public:
  Heartbeat(JobSource& jobs, const Claim& claim, std::string message, double lease)
      : jobs_(jobs), claim_(claim), message_(std::move(message)), thread_([this, lease](const auto& stop) {
          std::unique_lock lock(mutex_);
          while (!wake_.wait_for(lock, stop, std::chrono::duration<double>(lease / 4), [] {
            return false;
          }) && !stop.stop_requested()) {
            try {
              jobs_.report(claim_, progress_, message_);
            } catch (const std::exception&) {
              return;  // finish() will report it
            }
          }
        }) {}

  // Throws LeaseLost.
  void report(double progress, std::string message) {
    const std::lock_guard lock(mutex_);
    progress_ = progress, message_ = std::move(message);
    jobs_.report(claim_, progress_, message_);
  }

 private:
  JobSource& jobs_;
  const Claim& claim_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  double progress_ = 0;
  std::string message_;
  std::jthread thread_;  // the last member: it ends before what it uses
};

// Sets the contenders' names, digests and tiers from their bundles, and audits their claims.
template <class Document>
void name_contenders(Document& d, const std::vector<bundle::Bundle>& bundles) {
  for (size_t i = 0; i < bundles.size(); ++i) {
    auto& c = d.contenders.at(i);
    const bundle::Manifest& m = bundles[i].manifest;
    std::vector<std::pair<std::string, double>> claims;
    for (const bundle::Claim& claimed : m.claims) claims.emplace_back(claimed.metric, claimed.value);
    if (c.out.empty() && !c.audits.empty()) c.audits.push_back(claims_audit(d, c, claims));
    // The tier that ran must be the tier that is ranked: a bundle of data holds no code.
    if (c.out.empty() && c.tier != m.tier)
      throw std::invalid_argument("the bundle of " + m.name + " is of tier " + m.tier + ", and ran as " +
                                  c.tier);
    c.name = m.name, c.bundle = bundles[i].id, c.tier = m.tier;
  }
}

// Audit A11, in a match against the table's baseline.
template <class Document>
void audit_leap(Document& d, double best) {
  for (size_t place = 1; place < d.contenders.size(); ++place) {
    const auto result = result_of(d, place);
    if (result && result->ratio && d.contenders[place].out.empty())
      d.contenders[place].audits.push_back(judge::leap_audit(result->ratio->estimate, best));
  }
}

inline AnyRun measure(JobSource& jobs, const Assignment& job, const std::string& run_class,
                      const Player& play, judge::Watcher watcher) {
  const TemporaryFolder folder;
  const Claim& claim = job.claim;
  RunOptions o;
  o.benchmark = claim.benchmark, o.scenario = claim.scenario, o.run_class = run_class;
  o.watcher = std::move(watcher);
  std::vector<bundle::Bundle> bundles;
  for (const auto& [submission, digest] :
       {std::pair(claim.against, job.against), std::pair(claim.submission, job.submission)}) {
    bundles.push_back(bundle::read_bundle(jobs.bundle(digest)));
    o.entries.push_back(folder.path() / std::to_string(submission));
    bundle::unpack(bundles.back(), o.entries.back());
  }
  o.division = bundles.back().manifest.division == "closed" ? "closed" : "open";
  // In a head-to-head match the first entry need not be the table's baseline.
  if (o.division == "closed" && !job.base.empty() && job.base != job.against && job.base != job.submission) {
    o.baseline = folder.path() / "baseline";
    bundle::unpack(bundle::read_bundle(jobs.bundle(job.base)), o.baseline);
  } else if (job.base == job.submission) {
    o.baseline = o.entries.back();
  }
  const LoadMeter meter;
  AnyRun run = play(o);
  std::visit([&](auto& d) { note_other_load(d.machine, meter.others()); }, run);
  std::visit([&](auto& d) { name_contenders(d, bundles); }, run);
  if (claim.kind == "run") std::visit([&](auto& d) { audit_leap(d, job.best); }, run);
  return run;
}

}  // namespace detail

// Throws Refusal if a bundle's source does not compile.
using Compiler = std::function<void(const bundle::Bundle&)>;

inline void compile_here(const bundle::Bundle& b) { (void)bundle::check_compiles(b, sandbox::probe()); }

struct WorkOptions {
  std::string hardware = hardware_class(describe_machine());
  std::string run_class = "ranked";
  double lease = 0;  // seconds; 0: as long as the board says
  Player play = play_any;
  Compiler compile = compile_here;
  // The machine's lock, which is held while a job is compiled and played; empty: none is taken.
  std::filesystem::path lock = {};
  std::function<void(const std::string& holder)> waits = [](const std::string&) {};  // others have it
  std::chrono::milliseconds step{1000};  // between two looks whether it is free
};

// The machine's lock, which may take as long as another one's match; empty: no job waits any more.
inline std::unique_ptr<MachineLock> wait_for_machine(JobSource& jobs, const WorkOptions& o) {
  for (std::string told; jobs.has_job(o.hardware); std::this_thread::sleep_for(o.step)) {
    auto lock = std::make_unique<MachineLock>("a board's worker", o.lock);
    if (lock->is_held()) return lock;
    if (told != lock->holder()) o.waits(told = lock->holder());
  }
  return nullptr;
}

// Runs check C2 for all waiting submissions that were not compiled yet, so that their authors learn of
// mistakes before the queue is played.
inline void compile_waiting(JobSource& jobs, const WorkOptions& o) {
  constexpr size_t kMostBytes = 8000;  // limit of the compiler's message
  for (const auto& [submission, digest] : jobs.uncompiled(o.hardware)) {
    std::string why_not;
    try {
      o.compile(bundle::read_bundle(jobs.bundle(digest)));
    } catch (const Refusal& r) {
      why_not = clean(std::string_view(r.what()).substr(0, kMostBytes));
    } catch (const sandbox::Unavailable&) {
      return;  // the match will report it
    }
    jobs.note_compiled(submission, why_not);
  }
}

// Tells whether the entry or the machine caused an exception. The judge refuses an entry, or a match that
// cannot be played as asked, with one of two exceptions; the same job would then fail in the same way again.
inline Fault fault_of(const std::exception& e) {
  const bool certain = dynamic_cast<const Refusal*>(&e) || dynamic_cast<const std::invalid_argument*>(&e);
  return certain ? Fault::entry : Fault::machine;
}

struct Worked {
  int64_t job = 0, run = 0;
  std::string failure;   // why there is no run
  bool retried = false;  // the job waits again
};

// Plays one job, if there is one for this hardware. If its match cannot be played the job fails, or waits
// again; errors of the database, and a board that cannot be asked, are thrown.
inline std::optional<Worked> work_once(JobSource& jobs, const WorkOptions& o) {
  const auto lock = o.lock.empty() ? nullptr : wait_for_machine(jobs, o);
  if (!lock && !o.lock.empty()) return std::nullopt;
  compile_waiting(jobs, o);
  const auto job = jobs.claim(o.hardware);
  if (!job) return std::nullopt;
  const Claim& claim = job->claim;
  Worked done{claim.job, 0, ""};
  try {
    try {
      const std::string against = "against " + job->opponent;
      jobs.report(claim, 0, against);
      detail::Heartbeat heartbeat(jobs, claim, against, o.lease > 0 ? o.lease : job->lease);
      const auto watcher = [&](const judge::Progress& now) {
        heartbeat.report(now.share(), now.text() + ", " + against);
      };
      const AnyRun d = detail::measure(jobs, *job, o.run_class, o.play, watcher);
      done.run = jobs.finish(claim, d);
    } catch (const LeaseLost&) {
      throw;
    } catch (const DatabaseError&) {
      throw;
    } catch (const BoardUnavailable&) {
      throw;
    } catch (const std::exception& e) {
      done.failure = e.what();
      done.retried = jobs.fail(claim, clean(std::string_view(done.failure).substr(0, 8000)), fault_of(e));
    }
  } catch (const LeaseLost& e) {
    done.failure = e.what();
  }
  return done;
}
inline std::optional<Worked> work_once(Store& store, const WorkOptions& o) {
  LocalJobs jobs(store);
  return work_once(jobs, o);
}

}  // namespace tinymlperf::board
