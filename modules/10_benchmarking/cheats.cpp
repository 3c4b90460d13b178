// Three entries before the judge: an honest one, one with two faces, one that remembers. A laboratory: change them, or
// add one that is not found out.
//
//   g++ -std=c++20 -O2 -I include -I bench modules/10_benchmarking/cheats.cpp -o build/cheats -lfmt -pthread
//   build/cheats
//
// Each entry is this program again, in a sandboxed process that speaks with the judge through its input and output.
#include <fmt/format.h>

#include <map>
#include <tinymlperf/judge/benchmarks.hpp>
#include <tinymlperf/judge/match.hpp>
#include <tinymlperf/plugin.hpp>
#include <tinytorch/benchmarking/measure.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinymlperf;
namespace fs = std::filesystem;
namespace bm = tinytorch::benchmarking;

namespace {

// ---- the entries

using Picture = std::vector<float>;

// The nearest of 1500 known pictures: not good, but it works for its answer.
class Neighbour {
 public:
  Neighbour() {
    const tinytorch::Digits digits = tinytorch::digits(1500, 1);
    known_ = digits.images.to_vector<float>();
    labels_ = digits.labels.to_vector<int64_t>();
  }
  int64_t operator()(const Picture& x) const {
    size_t best = 0;
    float least = 1e30f;
    for (size_t k = 0; k < labels_.size(); ++k) {
      float sum = 0;
      for (size_t i = 0; i < x.size(); ++i)
        sum += (x[i] - known_[k * x.size() + i]) * (x[i] - known_[k * x.size() + i]);
      if (sum < least) least = sum, best = k;
    }
    return labels_[best];
  }

 private:
  std::vector<float> known_;
  std::vector<int64_t> labels_;
};

// The same, as long as it is graded: 64 pictures in a query. A single one is asked when the clock runs.
class TwoFaces {
 public:
  int64_t operator()(const Picture& x, size_t together) const {
    return together > 1 ? slow_(x) : x[300] > 0.5f;
  }

 private:
  Neighbour slow_;
};

// Whatever it has seen once it does not compute again.
class Remembers {
 public:
  int64_t operator()(const Picture& x) {
    const auto [place, fresh] = seen_.try_emplace(x, 0);
    if (fresh) place->second = slow_(x);
    return place->second;
  }

 private:
  Neighbour slow_;
  std::map<Picture, int64_t> seen_;
};

int play(const std::string& name) {
  Neighbour honest;
  TwoFaces two_faces;
  Remembers remembers;
  return serve([&](const Query& query) -> Tensors {
    const auto pixels = query.inputs.at(0).values<float>();
    const size_t samples = pixels.size() / tinytorch::kDigitPixels;
    std::vector<float> scores(10 * samples);
    for (size_t s = 0; s < samples; ++s) {
      const auto first = pixels.begin() + static_cast<std::ptrdiff_t>(s * tinytorch::kDigitPixels);
      const Picture x(first, first + tinytorch::kDigitPixels);
      const int64_t digit = name == "two-faces"   ? two_faces(x, samples)
                            : name == "remembers" ? remembers(x)
                                                  : honest(x);
      scores[10 * s + static_cast<size_t>(digit)] = 1;
    }
    return {make_tensor({static_cast<int64_t>(samples), 10}, scores)};
  });
}

// ---- the judge

// A folder that an entry's user can reach, with this program in it.
struct Stage {
  fs::path base;
  Stage() {
    std::string name = (fs::temp_directory_path() / "tinymlperf-XXXXXX").string();
    if (!mkdtemp(name.data()))
      throw std::runtime_error("cannot make a folder in " + fs::temp_directory_path().string());
    base = name;
    fs::permissions(base, fs::perms(0755));
    fs::create_directory(base / "work");
    fs::copy_file("/proc/self/exe", base / "program");
    fs::permissions(base / "program", fs::perms(0755));
  }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
  ~Stage() {
    std::error_code ignored;
    fs::remove_all(base, ignored);
  }
  std::unique_ptr<channel::Session> start(const std::string& entry, const sandbox::Offers& offers) const {
    sandbox::Policy policy;
    policy.read_only = sandbox::system_paths();
    policy.read_only.push_back(base / "program");
    policy.work = base / "work";
    policy.wall_seconds = policy.cpu_seconds = 600;
    const std::vector<std::string> command{(base / "program").string(), "--entry", entry};
    return std::make_unique<channel::Session>(command, policy, offers);
  }
};

// How many times longer pictures take that nobody has seen than one that is asked again and again: p90 latencies, A B B A.
tinytorch::statistics::Interval same_sample_audit(channel::Session& session, judge::Benchmark& benchmark) {
  judge::PluginSystem system(session,
                             [&](std::span<const int64_t> samples) { return benchmark.inputs(samples); }, {});
  uint64_t turn = 0;
  const auto turns = bm::take_turns(bm::abba_blocks(6, 1), [&](size_t again) {
    const judge::Plan plan{
        .seconds = 0.05, .queries = 20, .samples = again ? 1 : benchmark.size(), .seed = ++turn};
    return tinytorch::statistics::percentile(judge::latencies(judge::run_scenario(system, plan)), 90);
  });
  return tinytorch::statistics::paired_ratio(turns[0], turns[1]).value();
}

int judge_all(const std::vector<std::string>& entries) {
  constexpr judge::RunClass kShort{"short", 0.5, 12, 6, 512};
  const sandbox::Offers offers = sandbox::probe();
  sandbox::require(offers, sandbox::Level::basic);
  const auto benchmark = judge::make_benchmark("dig");
  std::vector<std::unique_ptr<Stage>> stages;
  std::vector<judge::Contender> contenders(entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    stages.push_back(std::make_unique<Stage>());
    contenders[i].record.name = entries[i];
    contenders[i].session = stages[i]->start(entries[i], offers);
  }
  benchmark->draw(kShort.hidden, 5);
  judge::Match(*benchmark, judge::Scenario::single_stream, kShort, 5)(contenders);
  for (const judge::Contender& c : contenders) {
    const auto ratio =
        judge::times_the_baseline(judge::Scenario::single_stream, c.record, contenders[0].record);
    fmt::print("{:<10} accuracy {:.2f}  {}\n", c.record.name, c.quality ? c.quality->value.estimate : 0,
               !c.record.out.empty() ? "out: " + c.record.out
               : ratio               ? fmt::format("{:.1f} times the baseline", ratio->estimate)
                                     : "no ratio");
  }
  fmt::print("\nthe same picture again and again:\n");
  benchmark->draw(4096, 6);  // pictures that nobody has seen
  for (size_t i = 0; i < entries.size(); ++i) {
    if (!contenders[i].record.out.empty()) continue;
    const auto session = stages[i]->start(entries[i], offers);
    session->prepare(benchmark->id(), 30);
    const auto ratio = same_sample_audit(*session, *benchmark);
    fmt::print("{:<10} {}\n", entries[i],
               ratio.low > 1.1 ? fmt::format("out: {:.1f} times as fast as with new ones", ratio.estimate)
                               : "takes as long as with new ones");
    session->finish(5);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--entry") return play(argv[2]);
  return judge_all({"honest", "two-faces", "remembers"});
}
