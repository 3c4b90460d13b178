// A match of kernels: contenders take turns (A B B A, as in match.hpp). In each turn every op is asked for
// every shape, in a random order that is the same for all.
//
//   public shapes   timed and ranked
//   hidden shapes   drawn with the match, small or with prime sides; their speed is reported
//   adversarial     inputs that break a shortcut, on a hidden shape
//   channel         inputs and output of a public shape without any work: the cost of asking
//
// The inputs of a query are drawn for it alone, so there is nothing to remember. All queries have one form
// and all answers are graded after the turn, while no contender runs: small ones whole, large ones in rows
// that are drawn then. A contender cannot tell whether an answer counts for speed or for correctness.
//
// One wrong answer, or one that is faster than the machine allows, makes the op wrong, with the reason. An
// absent op is not compared. A contender that fails or does not answer in time is out.
//
// Device code is timed by the GPU's own events, which its answers report (device/device_worker.hpp), since
// the way to the GPU takes longer than most ops; the judge's clock checks them. A time at a slow GPU clock is
// graded, not counted, and asked again on other inputs.
#pragma once

#include <memory>
#include <tinymlperf/channel/session.hpp>
#include <tinymlperf/judge/match/audits.hpp>
#include <tinymlperf/judge/match/contender_process.hpp>
#include <tinymlperf/judge/match/grade.hpp>
#include <tinymlperf/judge/match/progress.hpp>
#include <tinymlperf/judge/results/kernel_run.hpp>
#include <tinymlperf/ops/sizes.hpp>
#include <tinytorch/benchmarking/schedule.hpp>

namespace tinymlperf::judge::kernels {

struct KernelClass {
  const char* name;
  size_t blocks;
  int64_t queries;       // for each public shape, in each turn
  double patience = 30;  // seconds without an answer after which a contender is out
  size_t processes = 1;  // processes of each contender, one after the other
  double budget = 900;   // seconds for which the processes of a contender may run in all; then it is out
};
inline constexpr KernelClass kSmokeKernels{"smoke", 6, 1}, kRankedKernels{"ranked", 12, 5, 30, 12, 3600},
    kOfficialKernels{"official", 12, 25, 30, 12, 7200};

struct KernelContender {
  KernelContenderRecord record;
  std::unique_ptr<channel::Session> session;
  StartProcess start;
  double budget = 0;  // seconds for which its processes may still run
  bool on_device = false;
  double fastest_clock = 0, slowest_clock = 0;  // clock of a GPU in Hz; 0: not measured
  int64_t discarded = 0;                        // times at a slow clock
  int64_t changed = 0;                          // answers that audit A5 accuses
  struct Doubts {                               // doubts of audit A10 about the times of an op
    int64_t outputs = 0, doubtful = 0;
    std::string first = {};
  };
  std::vector<Doubts> doubts = {};  // one for each op
  int64_t outputs() const {
    int64_t all = 0;
    for (const Doubts& d : doubts) all += d.outputs;
    return all;
  }
};

// Draws the questions that every contender is asked, as records of all ops without answers.
inline std::vector<OpRecord> draw_ops(const std::vector<KernelTask>& tasks, uint64_t seed) {
  std::vector<OpRecord> out;
  tinytorch::Generator random(seed);
  for (const KernelTask& task : tasks) {
    OpRecord& op = out.emplace_back(OpRecord{task.name});
    const std::string ordinary = name_of(Distribution::ordinary);
    for (const Shape& sides : task.shapes) op.cases.push_back({"public", ordinary, sides});
    const std::vector<Shape> hidden = draw_hidden_shapes(task, random);
    for (const Shape& sides : hidden) op.cases.push_back({"hidden", ordinary, sides});
    for (const Distribution d : task.adversarial)
      op.cases.push_back({"adversarial", name_of(d), hidden[1 + random.below(hidden.size() - 1)]});
  }
  return out;
}

class KernelMatch {
 public:
  KernelMatch(const std::vector<KernelTask>& tasks, const KernelClass& match_class, uint64_t seed,
              RemeasuredPeaks machine = {}, Watcher watcher = {})
      : tasks_(tasks),
        class_(match_class),
        seed_(seed),
        machine_(std::move(machine)),
        watcher_(std::move(watcher)) {}

  void operator()(std::vector<KernelContender>& contenders) {
    for (KernelContender& c : contenders) {
      c.record.ops = draw_ops(tasks_, seed_);
      c.budget = class_.budget;
      attempt(c, [&] { c.session->allow(c.budget), prepare(c); });
    }
    std::vector<uint64_t> turns(contenders.size());
    size_t number = 0;
    for (const auto& block :
         tinytorch::benchmarking::mirrored_blocks(contenders.size(), class_.blocks, seed_)) {
      if (watcher_) watcher_({Scenario::single_stream, number, class_.blocks, number + 1, class_.blocks, {}});
      if (is_fresh_process_due(number++, class_.blocks, class_.processes))
        for (KernelContender& c : contenders)
          attempt(c, [&] { replace_process(c, [&](KernelContender& fresh) { prepare(fresh); }); });
      for (const size_t i : block) {
        reference_.push_back(reference_seconds());
        attempt(contenders[i], [&] { take_turn(contenders[i], turns[i]++); });
      }
    }
    for (KernelContender& c : contenders) {
      attempt(c, [&] { conclude(c); });
      end_process(c);
    }
  }

 private:
  enum class Purpose { work, channel };
  struct Question {
    size_t op, place;
    Purpose purpose;
    uint64_t seed;  // seed of the inputs
  };
  struct Answered {
    Question question;
    double seconds;
    channel::Tensors answer;
    std::string complaint = {};  // why the answer is wrong for another reason than its numbers
    std::string doubt = {};      // why its time is doubted: many such make the op wrong
    double clock = 0;            // clock of a GPU in Hz
  };

  uint64_t mixed(uint64_t a, uint64_t b) const {
    const tinytorch::PhiloxBlock block = tinytorch::philox(seed_ ^ (a * 0x9E3779B97F4A7C15u), b);
    return (uint64_t{block.v[0]} << 32) | block.v[1];
  }
  static Distribution distribution_of(const CaseRecord& c) {
    const auto found = std::ranges::find(kDistributionNames, c.distribution);
    return static_cast<Distribution>(found - kDistributionNames.begin());
  }
  channel::Tensors inputs_of(const Question& q, const CaseRecord& c) const {
    return draw_inputs(tasks_[q.op], c.sides, distribution_of(c), q.seed);
  }

  // Asks each op once, to find out which are present, and to run their code for the first time.
  void prepare(KernelContender& c) {
    c.session->set_limits(limits_of_messages(tasks_));
    c.session->prepare("krn", 30);
    for (size_t op = 0; op < tasks_.size(); ++op) {
      const auto hidden = std::ranges::find(c.record.ops[op].cases, "hidden", &CaseRecord::kind);
      const Question q{op, static_cast<size_t>(hidden - c.record.ops[op].cases.begin()), Purpose::work,
                       mixed(1, op)};
      const Answered a = ask(c, q);
      std::string& state = c.record.ops[op].state;
      if (state == "unasked") state = a.answer.empty() ? "absent" : "right";
      if (!a.answer.empty()) grade(c, a);
    }
    c.session->hold();
  }

  // The order and the inputs depend on the number of the turn.
  std::vector<Question> questions(const KernelContender& c, uint64_t turn) const {
    std::vector<Question> out;
    tinytorch::Generator random(mixed(2, turn));
    for (size_t op = 0; op < tasks_.size(); ++op)
      for (size_t place = 0; place < c.record.ops[op].cases.size(); ++place) {
        const bool ranked = c.record.ops[op].cases[place].kind == "public";
        for (int64_t i = 0; i < (ranked ? class_.queries : 1); ++i)
          out.push_back({op, place, Purpose::work, mixed(3 + turn, out.size())});
        if (ranked && !c.on_device) out.push_back({op, place, Purpose::channel, mixed(3 + turn, out.size())});
      }
    for (size_t i = out.size(); i > 1; --i) std::swap(out[i - 1], out[random.below(i)]);
    return out;
  }

  void take_turn(KernelContender& c, uint64_t turn) {
    std::vector<Answered> all, ungraded;
    size_t bytes = 0;
    c.session->resume();
    std::vector<Question> open = questions(c, turn);
    const size_t planned = open.size();
    for (size_t i = 0; i < open.size(); ++i) {
      const Question q = open[i];
      if (c.record.ops[q.op].state == "absent") continue;
      Answered a = ask(c, q);
      if (is_slow(c, a) && open.size() < 2 * planned) {
        ++c.discarded;
        open.push_back({q.op, q.place, q.purpose, mixed(q.seed, 5)});
      } else {
        all.push_back({q, a.seconds, {}});
      }
      if (q.purpose == Purpose::channel) continue;
      for (const channel::Tensor& t : a.answer) bytes += t.bytes.size();
      ungraded.push_back(std::move(a));
      if (bytes < kMostUngraded) continue;
      c.session->hold();
      grade_all(c, ungraded), bytes = 0;
      c.session->resume();
    }
    c.session->hold();
    grade_all(c, ungraded);
    for (OpRecord& op : c.record.ops)
      if (op.state != "absent")
        for (CaseRecord& one : op.cases) one.turns.emplace_back();
    for (const Answered& a : all) {
      CaseRecord& one = c.record.ops[a.question.op].cases[a.question.place];
      (a.question.purpose == Purpose::channel ? one.channel : one.turns.back()).push_back(a.seconds);
    }
  }
  static constexpr size_t kMostUngraded = size_t{64} << 20;  // bytes of answers that are kept
  void grade_all(KernelContender& c, std::vector<Answered>& answers) {
    for (const Answered& a : answers) grade(c, a);
    answers.clear();
  }

  Answered ask(KernelContender& c, const Question& q) {
    const KernelTask& task = tasks_[q.op];
    const CaseRecord& one = c.record.ops[q.op].cases[q.place];
    const std::string name = q.purpose == Purpose::work ? task.name : "";
    channel::Tensors query{
        channel::make_tensor<char>(channel::DType::u8, {static_cast<int64_t>(name.size())}, std::span(name))};
    const Shape output = task.output(one.sides);
    query.push_back(
        channel::make_tensor<int64_t>(channel::DType::i64, {static_cast<int64_t>(output.size())}, output));
    const auto dtype = static_cast<uint8_t>(task.result);
    query.push_back(channel::make_tensor<uint8_t>(channel::DType::u8, {1}, std::span(&dtype, 1)));
    for (channel::Tensor& t : inputs_of(q, one)) query.push_back(std::move(t));
    try {
      const auto asked = c.session->ask(++asked_, query);
      channel::Event event = c.session->next(class_.patience);
      while (event.frame.kind != channel::Kind::answer)
        throw std::runtime_error("a kernel answers at once, not in pieces");
      const double seconds = std::chrono::duration<double>(event.at - asked).count();
      Answered out{q, seconds, channel::parse_tensors(event.frame.payload)};
      return c.on_device && !out.answer.empty() ? timed_by_device(std::move(out)) : out;
    } catch (const std::exception& e) {
      throw std::runtime_error(task.name + " " + to_text(one.sides) + " " + one.distribution + ": " +
                               e.what());
    }
  }

  // Removes the measurements that device code reports from the answer.
  static Answered timed_by_device(Answered a) {
    if (a.answer.size() != 3 || a.answer[1].dtype != channel::DType::f64 || a.answer[1].shape != Shape{3} ||
        a.answer[2].dtype != channel::DType::u8)
      throw std::runtime_error("expected an output, three times and a complaint");
    const auto report = a.answer[1].values<double>();
    const auto letters = a.answer[2].values<char>();
    a.complaint.assign(letters.begin(), letters.end());
    a.doubt = host_clock_complaint(report[0], report[1], a.seconds);
    a.seconds = report[0], a.clock = report[2];
    a.answer.resize(1);
    return a;
  }
  static bool is_slow(KernelContender& c, const Answered& a) {
    if (!(a.clock > 0)) return false;
    c.fastest_clock = std::max(c.fastest_clock, a.clock);
    c.slowest_clock = c.slowest_clock > 0 ? std::min(c.slowest_clock, a.clock) : a.clock;
    return a.clock < 0.75 * c.fastest_clock;
  }

  void grade(KernelContender& c, const Answered& a) {
    OpRecord& op = c.record.ops[a.question.op];
    CaseRecord& one = op.cases[a.question.place];
    const KernelTask& task = tasks_[a.question.op];
    const Grader grader(task, one.sides, distribution_of(one), inputs_of(a.question, one));
    const Grade grade =
        one.kind == "public" ? grader(a.answer, some_rows(grader.rows(), a.question.seed)) : grader(a.answer);
    const bool right = grade.right && a.complaint.empty();
    ++one.checked;
    c.changed += a.complaint.starts_with("audit A5");
    c.doubts.resize(tasks_.size());
    KernelContender::Doubts& doubts = c.doubts[a.question.op];
    ++doubts.outputs, doubts.doubtful += !a.doubt.empty();
    if (doubts.first.empty()) doubts.first = a.doubt;
    one.right += right;
    if (!right) wrong(op, a.complaint.empty() ? grade.reason : a.complaint);
  }
  static void wrong(OpRecord& op, const std::string& reason) {
    if (op.state == "wrong") return;  // the first reason is kept
    op.state = "wrong", op.reason = reason;
  }
  // Nobody could know these rows when the answer was made.
  std::vector<int64_t> some_rows(int64_t rows, uint64_t seed) const {
    constexpr int64_t kRows = 8;
    tinytorch::Generator random(mixed(seed, 4));
    std::vector<int64_t> out;
    for (int64_t i = 0; i < std::min(rows, kRows); ++i)
      out.push_back(rows <= kRows ? i : static_cast<int64_t>(random.below(static_cast<uint64_t>(rows))));
    return out;
  }

  void conclude(KernelContender& c) {
    std::vector<AuditResult>& audits = c.record.audits;
    audits.push_back(c.on_device ? fingerprint_audit(c.outputs(), c.changed)
                                 : fingerprint_audit(c.outputs()));
    double closest = std::numeric_limits<double>::infinity();
    for (size_t op = 0; op < tasks_.size(); ++op)
      for (const CaseRecord& one : c.record.ops[op].cases) {
        const double flops = 2 * tasks_[op].multiply_adds(one.sides);
        // Writes of a GPU may still be in its cache.
        const double bytes =
            c.on_device ? read_bytes_of(tasks_[op], one.sides) : bytes_of(tasks_[op], one.sides);
        for (const auto& turn : one.turns)
          for (const double seconds : turn) {
            const double least = machine_.least_seconds(flops, bytes, seconds);
            closest = std::min(closest, seconds / least);
            if (seconds < least)
              wrong(c.record.ops[op],
                    fmt::format(
                        "audit A6, floor: {} was answered in {:.3g} s; this machine needs at least {:.3g} s",
                        to_text(one.sides), seconds, least));
          }
      }
    if (std::isfinite(closest))
      audits.push_back(
          {"A6", "floor", closest >= 1,
           fmt::format("no answer took less than {:.3g} times what this machine needs", closest)});
    audits.push_back(c.on_device ? device_clock_audit(c) : clock_audit(reference_));
    if (!c.on_device) return;
    int64_t doubtful = 0;
    for (size_t op = 0; op < c.doubts.size(); ++op) {
      doubtful += c.doubts[op].doubtful;
      if (!host_clock_audit(c.doubts[op].outputs, c.doubts[op].doubtful).passed && c.doubts[op].outputs > 0)
        wrong(c.record.ops[op], c.doubts[op].first);
    }
    audits.push_back(host_clock_audit(c.outputs(), doubtful));
  }
  static AuditResult device_clock_audit(const KernelContender& c) {
    const double share = c.fastest_clock > 0 ? c.slowest_clock / c.fastest_clock : 0;
    return {"A7", "clock", share >= 0.75,
            fmt::format("the GPU's clock was at {:.0f} to {:.0f} MHz; {} times below 75 % were asked again",
                        c.slowest_clock / 1e6, c.fastest_clock / 1e6, c.discarded)};
  }

  std::vector<KernelTask> tasks_;
  KernelClass class_;
  uint64_t seed_, asked_ = 0;
  RemeasuredPeaks machine_;
  Watcher watcher_;
  std::vector<double> reference_;
};

}  // namespace tinymlperf::judge::kernels
