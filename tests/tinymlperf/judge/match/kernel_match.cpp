// Matches of kernels between real processes: the library against itself, against a slower plugin, one with
// missing ops, and one that fails.
#include <doctest/doctest.h>

#include <set>
#include <support/scene.hpp>
#include <support/small_tasks.hpp>
#include <tinymlperf/judge/match/kernel_match.hpp>
#include <tinymlperf/judge/results/verify_run.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinymlperf;
using namespace tinymlperf::judge;
using namespace tinymlperf::judge::kernels;

namespace {

// Answers with the times and the complaint that the judge's worker sends for a GPU.
Tensors as_a_device_would(const std::vector<Kernel>& kernels, const Tensors& query, const std::string& kind) {
  const tinytorch::benchmarking::SteadyClock clock;
  const double start = clock();
  Tensors answer = answer_kernel_query(kernels, query);
  usleep(1500);
  const double host = clock() - start;
  const double report[] = {(kind == "device, hidden work" ? 0.5 : 0.97) * host, host, 1e9};
  const std::string complaint =
      kind == "device, late write" ? "audit A5, output fingerprint: byte 3 of its output changed" : "";
  answer.push_back(channel::make_tensor<double>(channel::DType::f64, {3}, report));
  answer.push_back(channel::make_tensor<char>(channel::DType::u8, {static_cast<int64_t>(complaint.size())},
                                              std::span(complaint)));
  return answer;
}

// The library's kernels, with one that is different.
int library_but(const hostile::Arguments& args) {
  const std::string kind = args.at(0);
  std::vector<Kernel> kernels = library::kernels();
  const auto softmax = std::ranges::find(kernels, "softmax", &Kernel::name);
  const auto honest = softmax->run;
  if (kind == "lacks softmax") kernels.erase(softmax);
  if (kind == "slow softmax")
    softmax->run = [honest](Inputs in, Tensor& out) { usleep(2000), honest(in, out); };
  if (kind == "crashes")
    softmax->run = [honest, calls = 0](Inputs in, Tensor& out) mutable {
      if (++calls > 20) hostile::crash();
      honest(in, out);
    };
  if (kind == "gives up")
    softmax->run = [](Inputs, std::span<float>) { throw std::runtime_error("no softmax today"); };
  if (kind == "never answers")
    softmax->run = [](Inputs, std::span<float>) {
      for (;;) pause();
    };
  if (kind == "asked twice")
    softmax->run = [honest, seen = std::set<std::vector<float>>()](Inputs in, Tensor& out) mutable {
      const auto x = in[0].values<float>();
      // Inputs of a single number repeat by chance, so they are not compared.
      const bool known = x.size() > 1 && std::ranges::any_of(x, [](float v) { return v != 0 && v != 1; }) &&
                         !seen.insert({x.begin(), x.end()}).second;
      if (known) throw std::runtime_error("these inputs came before");
      honest(in, out);
    };
  return serve([&](const Query& query) {
    if (kind == "in pieces") query.token(query.inputs.back());
    if (kind.starts_with("device")) return as_a_device_would(kernels, query.inputs, kind);
    return answer_kernel_query(kernels, query.inputs);
  });
}

[[gnu::constructor]] void start_as_child(int argc, char** argv) {
  hostile::maybe_perform(argc, argv, {{"library", library_but}});
}

constexpr KernelClass kTiny{"tiny", 6, 1, 1};

std::vector<KernelContender> play(const test::Scene& scene, const std::vector<std::string>& who,
                                  RemeasuredPeaks machine = {}) {
  std::vector<KernelContender> contenders;
  for (const std::string& kind : who) {
    contenders.emplace_back();
    contenders.back().record.name = kind;
    contenders.back().on_device = kind.starts_with("device");
    contenders.back().session = std::make_unique<channel::Session>(scene.child({"library", kind}),
                                                                   scene.policy, test::machines()[0].offers);
  }
  KernelMatch(test::small_tasks({"softmax", "add", "matmul"}, 16, 8, 23), kTiny, 5,
              std::move(machine))(contenders);
  return contenders;
}

KernelRun run_of(std::vector<KernelContender>& contenders) {
  KernelRun run{"smoke", "cpu-1t", "2026-01-31T12:00:00Z", 5, Json::object(), Json::object(), {}};
  for (KernelContender& c : contenders) run.contenders.push_back(c.record);
  return run;
}

}  // namespace

TEST_CASE(
    "the seed determines the questions: four public shapes of an op, hidden ones, and adversarial inputs") {
  const std::vector<OpRecord> ops = draw_ops(judge::kernels::tasks(), 5),
                              same = draw_ops(judge::kernels::tasks(), 5),
                              other = draw_ops(judge::kernels::tasks(), 6);
  REQUIRE(ops.size() == judge::kernels::tasks().size());
  const auto hidden = [](const OpRecord& op) {
    std::vector<Shape> out;
    for (const CaseRecord& c : op.cases)
      if (c.kind == "hidden") out.push_back(c.sides);
    return out;
  };
  for (size_t i = 0; i < ops.size(); ++i) {
    CHECK(std::ranges::count(ops[i].cases, "public", &CaseRecord::kind) >= 4);
    CHECK(std::ranges::count(ops[i].cases, "adversarial", &CaseRecord::kind) ==
          std::ssize(judge::kernels::tasks()[i].adversarial));
    CHECK(hidden(ops[i]).size() >= 2);
    CHECK(hidden(ops[i]) == hidden(same[i]));
    CHECK(hidden(ops[i]) != hidden(other[i]));
  }
}

TEST_CASE(
    "the library against itself and a slower softmax: all is right, the one is behind, every sample is "
    "kept") {
  const test::Scene scene;
  auto contenders = play(scene, {"as it is", "slow softmax"});
  for (const KernelContender& c : contenders) {
    CHECK_MESSAGE(c.record.out.empty(), c.record.out);
    CHECK(quality_of(c.record)->estimate == 1);
    for (const OpRecord& op : c.record.ops) {
      CHECK_MESSAGE(op.state == "right", op.reason);
      for (const CaseRecord& one : op.cases) {
        CHECK(one.turns.size() == 12);
        CHECK(one.checked >= 12);
        CHECK(one.right == one.checked);
        CHECK(one.channel.size() == (one.kind == "public" ? 12 : 0));
      }
    }
  }
  const auto ratio = times_the_baseline(contenders[1].record.ops[0], contenders[0].record.ops[0]);
  REQUIRE(ratio);
  CHECK(ratio->high < 0.7);
  CHECK(times_the_baseline(contenders[1].record.ops[0], contenders[0].record.ops[0], "hidden")->high < 0.7);
  CHECK(*fast(contenders[1].record, contenders[0].record, 1) <= 8.0 / 12.0);
  CHECK(verify_run(to_json(run_of(contenders))) == "");
}

TEST_CASE("an absent op is not compared; the others are") {
  const test::Scene scene;
  auto contenders = play(scene, {"as it is", "lacks softmax"});
  const KernelContenderRecord &baseline = contenders[0].record, &c = contenders[1].record;
  CHECK_MESSAGE(c.out.empty(), c.out);
  CHECK(c.ops[0].state == "absent");
  CHECK(c.ops[0].cases[0].turns.empty());
  CHECK(c.ops[0].cases[0].checked == 0);
  CHECK_FALSE(times_the_baseline(c.ops[0], baseline.ops[0]));
  CHECK(times_the_baseline(c.ops[1], baseline.ops[1]));
  CHECK(score_of(c, baseline));
  CHECK(verify_run(to_json(run_of(contenders))) == "");
}

TEST_CASE("a session takes the questions of its match, whatever its limits were before") {
  const test::Scene scene;
  std::vector<KernelContender> contenders(1);
  contenders[0].session =
      std::make_unique<channel::Session>(scene.child({"library", "as it is"}), scene.policy,
                                         test::machines()[0].offers, channel::Limits{.tensors = 16});
  KernelMatch(test::small_tasks({"softmax", "attention_paged", "kv_append"}, 16, 8, 5), kTiny, 5)(contenders);
  CHECK_MESSAGE(contenders[0].record.out.empty(), contenders[0].record.out);
  for (const OpRecord& op : contenders[0].record.ops) CHECK_MESSAGE(op.state == "right", op.reason);
}

TEST_CASE("no inputs repeat") {
  const test::Scene scene;
  const auto contenders = play(scene, {"asked twice"});
  CHECK_MESSAGE(contenders[0].record.out.empty(), contenders[0].record.out);
  CHECK(contenders[0].record.ops[0].state == "right");
}

TEST_CASE(
    "who breaks, gives up, is silent or answers in pieces is out, with op and reason; the others go on") {
  const test::Scene scene;
  auto contenders = play(scene, {"as it is", "crashes", "gives up", "never answers", "in pieces"});
  CHECK(contenders[0].record.out.empty());
  CHECK(contenders[0].record.ops[0].cases[0].turns.size() == 12);
  const std::vector<std::pair<size_t, const char*>> reasons{
      {1, "ended"}, {2, "no softmax today"}, {3, "sent nothing"}, {4, "not in pieces"}};
  for (const auto& [i, reason] : reasons) {
    const std::string& out = contenders[i].record.out;
    CHECK_MESSAGE(out.find(reason) != std::string::npos, out);
    CHECK_MESSAGE(out.find("softmax [") == 0, out);
    CHECK_FALSE(score_of(contenders[i].record, contenders[0].record));
  }
  CHECK(verify_run(to_json(run_of(contenders))) == "");
}

TEST_CASE("an answer that is faster than the machine's peak allows is wrong") {
  const test::Scene scene;
  const auto contenders = play(scene, {"as it is"}, RemeasuredPeaks([] {
                                 return RemeasuredPeaks::Rates{1e3, 1e3};
                               }));
  for (const OpRecord& op : contenders[0].record.ops) {
    CHECK(op.state == "wrong");
    CHECK(op.reason.find("audit A6, floor") == 0);
  }
  const auto floor = std::ranges::find(contenders[0].record.audits, "A6", &AuditResult::id);
  REQUIRE(floor != contenders[0].record.audits.end());
  CHECK_FALSE(floor->passed);
}

TEST_CASE(
    "of device code, outputs that change later and events that miss work are audits, and make an op wrong") {
  const test::Scene scene;
  const auto contenders = play(scene, {"device", "device, late write", "device, hidden work"});
  const auto audit = [&](size_t contender, const char* id) {
    const auto& audits = contenders[contender].record.audits;
    const auto found = std::ranges::find(audits, id, &AuditResult::id);
    REQUIRE(found != audits.end());
    return *found;
  };
  const auto reason = [&](size_t contender) { return contenders[contender].record.ops[0].reason; };
  for (const KernelContender& c : contenders) CHECK_MESSAGE(c.record.out.empty(), c.record.out);
  CHECK_MESSAGE(contenders[0].record.ops[0].state == "right", reason(0));
  CHECK_MESSAGE(audit(0, "A5").passed, audit(0, "A5").detail);
  CHECK_MESSAGE(audit(0, "A10").passed, audit(0, "A10").detail);
  CHECK(reason(1).find("audit A5, output fingerprint") == 0);
  CHECK_FALSE(audit(1, "A5").passed);
  CHECK(audit(1, "A10").passed);
  CHECK(reason(2).find("audit A10, host clock") == 0);
  CHECK(audit(2, "A5").passed);
  CHECK_FALSE(audit(2, "A10").passed);
}

TEST_CASE("an answer over a pipe is its own fingerprint") {
  const test::Scene scene;
  const auto contenders = play(scene, {"as it is"});
  const AuditResult& a = contenders[0].record.audits.at(0);
  CHECK(a.id == "A5");
  CHECK(a.passed);
  CHECK(a.detail.find("had left their process") != std::string::npos);
}
