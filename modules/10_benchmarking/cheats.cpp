// A laboratory with three entries and the judge: one entry is honest, `two-faces` answers a repeated picture
// by a guess, and `remembers` stores its answers. Change them, or add a cheat that the judge does not find.
//
//   g++ -std=c++20 -O2 -I include -I bench modules/10_benchmarking/cheats.cpp -o build/cheats -lfmt -pthread
//   build/cheats
//
// Each entry is this program again, in a sandboxed process that exchanges messages with the judge through its
// standard input and output.
#include <fmt/format.h>

#include <map>
#include <set>
#include <tinymlperf/benchmarks/benchmarks.hpp>
#include <tinymlperf/entries/plugin.hpp>
#include <tinymlperf/judge/match/match.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinymlperf;
namespace fs = std::filesystem;

namespace {

// ---- the entries

using Picture = std::vector<float>;

// Nearest neighbour among 1500 known pictures: not precise, but each answer is computed.
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

// This entry assumes that each answer is graded once: it computes the first answer for a picture and guesses
// the later ones.
class TwoFaces {
 public:
  int64_t operator()(const Picture& x) { return seen_.insert(x).second ? slow_(x) : x[300] > 0.5f; }

 private:
  Neighbour slow_;
  std::set<Picture> seen_;
};

// This entry stores its answers and does not compute an answer for a known picture again.
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
      const int64_t digit = name == "two-faces"   ? two_faces(x)
                            : name == "remembers" ? remembers(x)
                                                  : honest(x);
      scores[10 * s + static_cast<size_t>(digit)] = 1;
    }
    return {make_tensor({static_cast<int64_t>(samples), 10}, scores)};
  });
}

// ---- the judge

// A temporary folder with a copy of this program, accessible to the user of the sandbox.
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

int judge_all(const std::vector<std::string>& entries) {
  constexpr judge::RunClass kShort{"short", 0.5, 12, 6, 512};
  constexpr judge::Scenario kScenario = judge::Scenario::single_stream;
  const sandbox::Offers offers = sandbox::probe();
  sandbox::require(offers, sandbox::Level::basic);
  const auto hidden = judge::make_benchmark("dig"), fresh = judge::make_benchmark("dig");
  hidden->draw(kShort.hidden, 5);
  fresh->draw(kShort.hidden, 6);  // pictures for an audit, which no entry has seen
  std::vector<std::unique_ptr<Stage>> stages;
  std::vector<judge::Contender> contenders(entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    stages.push_back(std::make_unique<Stage>());
    contenders[i].record.name = entries[i];
    contenders[i].session = stages[i]->start(entries[i], offers);
  }
  judge::Match({*hidden, *fresh}, kScenario, kShort, 5)(contenders);
  for (const judge::Contender& c : contenders) {
    const auto ratio = judge::times_the_baseline(kScenario, c.record, contenders[0].record);
    const auto value = judge::value_of(kScenario, c.record);
    fmt::print("{:<10} p90 {:.2f} ms  {}\n", c.record.name, value ? 1e3 * *value : 0,
               !c.record.out.empty() ? "out: " + c.record.out
               : ratio               ? fmt::format("{:.2f} times the baseline", ratio->estimate)
                                     : "no ratio");
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--entry") return play(argv[2]);
  return judge_all({"honest", "two-faces", "remembers"});
}
