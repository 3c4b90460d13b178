// The board's side of workers on other machines: checks what a worker sends, and asks the board's jobs.
//
// Nothing that a worker says of a job is taken: the claim is looked up by the job and its owner token. A
// result is stored after its evidence was verified as `verify` does it.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <tinymlperf/board/store/workers.hpp>
#include <tinymlperf/board/web/body_rules.hpp>
#include <tinymlperf/board/web/reply.hpp>
#include <tinymlperf/board/web/work_messages.hpp>
#include <tinymlperf/judge/results/verify_run.hpp>

namespace tinymlperf::board {

class WorkDesk {
 public:
  static constexpr int64_t kMessageBytes = int64_t{1} << 16;

  // `most_bytes`: of a result.
  explicit WorkDesk(Store& store, int64_t most_bytes = int64_t{1} << 30)
      : store_(store), jobs_(store), most_bytes_(most_bytes) {}

  int64_t most_bytes() const { return most_bytes_; }
  BodyRule rule(const std::string& address) const {
    return {address == "/worker/finish" ? most_bytes_ : kMessageBytes, "application/json"};
  }
  static bool is_work(const Address& a) { return !a.parts.empty() && a.parts[0] == "worker"; }
  // The method of an address; empty: there is no such address.
  static std::string method_of(const Address& a) {
    if (a.parts.size() == 3 && a.parts[1] == "bundles") return "GET";
    if (a.parts.size() != 2) return "";
    for (const char* known : {"waiting", "claim", "uncompiled", "compiled", "report", "finish", "fail"})
      if (a.parts[1] == known) return "POST";
    return "";
  }

  std::optional<WorkerRow> worker_of(const std::string& identity) {
    return identity.empty() ? std::nullopt : Workers(store_.database()).of_identity(identity);
  }

  // `address`: as it was asked for, "/worker/claim".
  Reply answer(const WorkerRow& worker, const std::string& address, const std::string& body,
               const std::string& signature) {
    if (!same_signature(worker, address, body, signature))
      return problem(403, "The signature is not that of this worker's key for this address and body.");
    try {
      const Json j = body.empty() ? Json() : tinymlperf::detail::parse_json(body, kFile);
      if (!body.empty() && canonical_text(j) != body)
        return problem(400, "The body is not the canonical text of its JSON document.");
      return reply(worker, address.substr(address.rfind('/') + 1), address, j);
    } catch (const LeaseLost& e) {
      return problem(409, e.what());
    } catch (const Refusal& e) {
      return problem(422, e.what());
    } catch (const std::invalid_argument& e) {
      return problem(422, e.what());
    }
  }

 private:
  using F = tinymlperf::detail::Fields;
  static constexpr const char* kFile = "request";
  static constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

  static Reply problem(int status, const std::string& why) {
    return problem_reply({status, clean(why, 8000)}, true);
  }
  static bool same_signature(const WorkerRow& w, const std::string& address, const std::string& body,
                             const std::string& signature) {
    return !w.key.empty() && bundle::same_secret(signature_of(w.key, address, body), signature);
  }

  Reply reply(const WorkerRow& worker, const std::string& last, const std::string& address, const Json& j) {
    if (address.starts_with("/worker/bundles/")) return {200, "application/octet-stream", jobs_.bundle(last)};
    if (last == "waiting") return json_reply({{"waiting", jobs_.has_job(hardware_of(j))}});
    if (last == "claim") return claim(worker, hardware_of(j));
    if (last == "uncompiled") return uncompiled(hardware_of(j));
    if (last == "compiled") return compiled(j);
    if (last == "report") return report(j);
    if (last == "finish") return finish(worker, j);
    return fail(worker, j);
  }

  static std::string hardware_of(const Json& j) {
    return F(j, "", {"hardware"}, kFile).text("hardware", 100, nullptr);
  }
  Claim claim_of(const F& f) {
    return store_.queue().claim_of(f.integer("job", 1, kMost), f.text("owner", 64, nullptr));
  }
  void note(const WorkerRow& worker, const Claim& c, const std::string& what) {
    Transaction t(store_.database());
    store_.note("worker", {}, c.submission, worker.name + ": job " + std::to_string(c.job) + " " + what);
    t.commit();
  }

  Reply claim(const WorkerRow& worker, const std::string& hardware) {
    const auto found = jobs_.claim(hardware);
    Workers(store_.database()).note_claim(worker.id, hardware, store_.queue().now());
    if (found) note(worker, found->claim, "was taken");
    return json_reply({{"job", found ? assignment_to_json(*found) : Json()}});
  }
  Reply uncompiled(const std::string& hardware) {
    Json list = Json::array();
    for (const Uncompiled& u : jobs_.uncompiled(hardware))
      list.push_back({{"submission", u.submission}, {"bundle", u.bundle}});
    return json_reply({{"submissions", list}});
  }
  Reply compiled(const Json& j) {
    const F f(j, "", {"submission", "why_not"}, kFile);
    const int64_t submission = f.integer("submission", 1, kMost);
    if (!store_.bundle_bytes(submission)) f.refuse("submission", "one of this board", "another");
    jobs_.note_compiled(submission, clean(f.text("why_not", kMessageBytes, nullptr), 8000));
    return json_reply(Json::object());
  }
  Reply report(const Json& j) {
    const F f(j, "", {"job", "owner", "progress", "message"}, kFile);
    const double progress = f.number("progress", 0, 1.000001, 0);
    jobs_.report(claim_of(f), std::min(progress, 1.0), clean(f.text("message", 2000, nullptr), 2000));
    return json_reply(Json::object());
  }
  Reply finish(const WorkerRow& worker, const Json& j) {
    const F f(j, "", {"job", "owner", "run"}, kFile);
    const Claim c = claim_of(f);
    if (!f.has("run")) f.refuse("run", "a run.json", "none");
    const Json& document = j.at("run");
    if (const std::string wrong = run_complaint(document); !wrong.empty())
      throw Refusal(kFile, "run", "a run whose numbers follow from its evidence", wrong);
    const bool known = store_.database().integer("SELECT 1 FROM runs WHERE job = ?", c.job).has_value();
    const int64_t run = jobs_.finish(c, judge::read_any_run(document));
    if (!known) note(worker, c, "was played, run " + std::to_string(run));
    return json_reply({{"run", run}});
  }
  Reply fail(const WorkerRow& worker, const Json& j) {
    const F f(j, "", {"job", "owner", "why", "fault"}, kFile);
    const Claim c = claim_of(f);
    const bool entry =
        f.one_of("fault", nullptr, {name_of(Fault::entry), name_of(Fault::machine)}) == name_of(Fault::entry);
    const std::string why = clean(f.text("why", kMessageBytes, nullptr), 8000);
    const bool again = jobs_.fail(c, why, entry ? Fault::entry : Fault::machine);
    note(worker, c, again ? "failed, and waits again" : "failed");
    return json_reply({{"again", again}});
  }

  Store& store_;
  LocalJobs jobs_;
  int64_t most_bytes_;
};

}  // namespace tinymlperf::board
