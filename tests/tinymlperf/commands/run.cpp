// The command `run`: a match between two entries, and options that it refuses. This program is also the
// workers.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <support/few.hpp>
#include <support/sanitized.hpp>
#include <support/start_as_worker.hpp>
#include <tinymlperf/commands/quantize.hpp>
#include <tinymlperf/commands/run.hpp>
#include <tinymlperf/judge/results/verify_run.hpp>
#include <tinymlperf/training/train.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinymlperf;

namespace {

// The untrained bundled entries of a benchmark, which every user may read.
struct Models {
  std::filesystem::path path;
  explicit Models(std::string_view benchmark = "dig") {
    std::string name = (std::filesystem::temp_directory_path() / "tinymlperf_run_XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("mkdtemp");
    path = name;
    std::filesystem::permissions(path, std::filesystem::perms(0755));
    for (const Recipe& recipe : bundled_recipes(benchmark)) {
      tt::Generator random(3);
      save_entry(path / recipe.spec.name, recipe.spec, build_model(recipe.spec, random, 3)->state_dict());
    }
  }
  ~Models() { std::filesystem::remove_all(path); }
};

}  // namespace

TEST_CASE("a match is played, and written with every sample" * doctest::skip(test::kSanitized)) {
  const Models folder;
  RunOptions o;
  o.entries = {folder.path / "linear", folder.path / "mlp"};
  o.out = folder.path / "out";
  o.seed = 5;
  CHECK(run_match(o) == kPass);
  std::ifstream file(o.out / "run.json");
  const Json run = Json::parse(file);
  CHECK(run.at("seed") == 5);
  CHECK(run.at("benchmark") == "dig");
  CHECK(run.at("sandbox").contains("landlock"));
  REQUIRE(run.at("contenders").size() == 2);
  for (const Json& r : run.at("contenders")) {
    CHECK_MESSAGE(r.at("out") == "", r.at("out").dump());
    CHECK(r.at("turns").size() == 12);
    CHECK(r.at("turns")[0].at("latencies").size() >= 12);
    CHECK(r.at("quality").at("estimate").get<double>() < 0.7);
    CHECK(r.at("model_bytes").get<int64_t>() > 0);
  }
  CHECK(run.at("contenders")[0].at("times_the_baseline").at("estimate") == 1);
  CHECK(judge::to_json(judge::read_run_document(run)) == run);
}

TEST_CASE("closed division: the baseline's weights play, packed or not, and trained ones are out" *
          doctest::skip(test::kSanitized)) {
  const Models folder;
  QuantizeCommand q{.entry = folder.path / "linear", .out = folder.path / "packed"};
  q.spec.format = "I8";
  REQUIRE(run_quantize(q) == kPass);
  q.calibration = 1000;
  CHECK(run_quantize(q) == kSetUpProblem);
  q.calibration = 0, q.spec.format = "Q4_0", q.out = folder.path / "not_packed";
  CHECK(run_quantize(q) == kFailed);  // rows of 784 numbers are no multiple of 32, so all stay floats
  // Other weights than the baseline's, packed in the same way.
  const Recipe recipe = bundled_recipes("dig").front();
  tt::Generator random(4);
  save_entry(folder.path / "trained", recipe.spec, build_model(recipe.spec, random, 4)->state_dict());
  QuantizeCommand other{.entry = folder.path / "trained", .out = folder.path / "other"};
  other.spec.format = "I8";
  REQUIRE(run_quantize(other) == kPass);
  RunOptions o;
  std::filesystem::copy(folder.path / "linear", folder.path / "again");
  o.entries = {folder.path / "linear", folder.path / "packed", folder.path / "other", folder.path / "again",
               folder.path / "trained"};
  o.out = folder.path / "out", o.division = "closed", o.seed = 5;
  for (const auto& entry : o.entries)
    for (const auto& file : std::filesystem::directory_iterator(entry))
      std::filesystem::permissions(file, std::filesystem::perms(0644));
  CHECK(run_match(o) == kPass);
  std::ifstream file(o.out / "run.json");
  const Json run = Json::parse(file);
  const Json& packed = run.at("contenders")[1];
  CHECK_MESSAGE(packed.at("out") == "", packed.at("out").dump());
  CHECK(packed.at("turns").size() == 12);
  const Json& audits = packed.at("audits");
  const auto replay = std::ranges::find_if(audits, [](const Json& a) { return a.at("id") == "A12"; });
  REQUIRE(replay != audits.end());
  CHECK(replay->at("passed") == true);
  CHECK(packed.at("model_bytes").get<int64_t>() <
        run.at("contenders")[0].at("model_bytes").get<int64_t>() / 3);
  const std::string out = run.at("contenders")[2].at("out");
  CHECK_MESSAGE(out.find("audit A12, replay: packed.safetensors has") == 0, out);
  for (const size_t i : {0, 3}) CHECK(run.at("contenders")[i].at("out") == "");
  const std::string floats = run.at("contenders")[4].at("out");
  CHECK_MESSAGE(floats.find("audit A12, replay: weights.safetensors has") == 0, floats);
}

TEST_CASE("an entry whose passes are compiled plays in a sandbox, keeps the closed division, and is named" *
          doctest::skip(test::kSanitized)) {
  const Models folder;
  const Recipe recipe = bundled_recipes("dig").front();
  EntrySpec spec = recipe.spec;
  spec.compile = true;
  tt::Generator random(3);
  save_entry(folder.path / "compiled", spec, build_model(spec, random, 3)->state_dict());
  RunOptions o;
  o.entries = {folder.path / recipe.spec.name, folder.path / "compiled"};
  o.out = folder.path / "out", o.division = "closed", o.seed = 5;
  for (const char* const scenario : {"single_stream", "offline"}) {
    o.scenario = scenario;
    CHECK(run_match(o) == kPass);
    std::ifstream file(o.out / "run.json");
    const Json run = Json::parse(file);
    const Json &plain = run.at("contenders")[0], &compiled = run.at("contenders")[1];
    for (const Json* c : {&plain, &compiled}) CHECK_MESSAGE(c->at("out") == "", c->at("out").dump());
    CHECK_FALSE(plain.contains("compiled"));
    CHECK(compiled.at("compiled") == true);
    CHECK(compiled.at("credit") == plain.at("credit"));
    CHECK(detail::text_of(judge::read_run_document(run)).find("compiled: its forward pass is compiled") !=
          std::string::npos);
    std::filesystem::remove_all(o.out);
  }
}

TEST_CASE("two entries of another benchmark, by its own measure of quality" *
          doctest::skip(test::kSanitized) * test::takes_minutes()) {
  const Models folder("kws");
  // The small one against itself.
  std::filesystem::copy(folder.path / "ds-cnn-narrow", folder.path / "again");
  RunOptions o;
  o.entries = {folder.path / "ds-cnn-narrow", folder.path / "again"};
  o.benchmark = "kws", o.out = folder.path / "out", o.seed = 5;
  CHECK(run_match(o) == kPass);
  std::ifstream file(o.out / "run.json");
  const Json run = Json::parse(file);
  CHECK(run.at("benchmark") == "kws");
  REQUIRE(run.at("contenders").size() == 2);
  for (const Json& r : run.at("contenders")) {
    CHECK_MESSAGE(r.at("out") == "", r.at("out").dump());
    CHECK(r.at("turns").size() == 12);
    CHECK(r.at("quality").at("estimate") < run.at("quality_floor"));
    CHECK(r.at("quality") == run.at("contenders")[0].at("quality"));
  }
}

TEST_CASE("text is continued token by token, and held against what its author calls likeliest" *
          doctest::skip(test::kSanitized) * test::takes_minutes()) {
  const Models folder("lm");
  RunOptions o;
  o.entries = {folder.path / "gpt-narrow"};
  o.benchmark = "lm", o.scenario = "generation", o.out = folder.path / "out", o.seed = 5;
  CHECK(run_match(o) == kPass);
  std::ifstream file(o.out / "run.json");
  const Json r = Json::parse(file).at("contenders")[0];
  CHECK_MESSAGE(r.at("out") == "", r.at("out").dump());
  REQUIRE(r.at("turns").size() == 12);
  for (const Json& turn : r.at("turns")) {
    CHECK(turn.at("tokens").size() == turn.at("latencies").size());
    for (size_t i = 0; i < turn.at("tokens").size(); ++i) {
      CHECK(turn.at("tokens")[i].get<int64_t>() > 1);
      CHECK(turn.at("to_first")[i] <= turn.at("latencies")[i]);
    }
  }
  CHECK(r.at("value").get<double>() > 0);
  CHECK_FALSE(r.at("quality").is_null());
}

TEST_CASE("a text of one's own is the hidden set, and closed compares bits window by window" *
          doctest::skip(test::kSanitized) * test::takes_minutes()) {
  const Models folder("lm");
  std::filesystem::copy(folder.path / "gpt-narrow", folder.path / "again");
  std::ofstream(folder.path / "mine.txt") << tt::grammar::text(60000, 9);
  RunOptions o;
  o.entries = {folder.path / "gpt-narrow", folder.path / "again"};
  o.benchmark = "lm", o.scenario = "offline", o.division = "closed", o.out = folder.path / "out", o.seed = 5;
  o.text = folder.path / "mine.txt";
  CHECK(run_match(o) == kPass);
  std::ifstream file(o.out / "run.json");
  const Json run = Json::parse(file);
  CHECK(verify_run(run) == "");
  CHECK(run.at("text") == Json{{"file", "mine.txt"}, {"bytes", 60000}, {"held_out", 36000}});
  CHECK(run.at("hidden_samples") == 512);
  for (const Json& c : run.at("contenders")) {
    CHECK_MESSAGE(c.at("out") == "", c.at("out").dump());
    CHECK(c.at("minus_bits").size() == 512);
    CHECK(c.at("credit") == "");
  }
  judge::RunDocument d = judge::read_run_document(run);
  d.quality_floor = -100;  // nobody has trained them
  const auto gate = judge::quality_gate(d, d.contenders[1]);
  CHECK(gate.passed);
  CHECK(gate.reason.find("bits per byte less 1.01 times") == 0);
  std::ofstream(folder.path / "mine.txt") << tt::grammar::text(50000, 9);
  CHECK(run_match(o) == kSetUpProblem);  // too short for so many windows
  o.text = folder.path / "nowhere.txt";
  CHECK(run_match(o) == kSetUpProblem);
  o.text = folder.path / "mine.txt", o.scenario = "";
  for (const char* other : {"dig", "ttq-lm", "krn"}) {
    o.benchmark = other;
    CHECK(run_match(o) == kSetUpProblem);
  }
}

TEST_CASE("an entry of another benchmark is out, and told which one was asked" *
          doctest::skip(test::kSanitized) * test::takes_minutes()) {
  const Models digits, words("kws");
  RunOptions o;
  o.entries = {digits.path / "linear", words.path / "ds-cnn-narrow"};
  o.out = digits.path / "out", o.seed = 5;
  CHECK(run_match(o) == kPass);
  std::ifstream file(o.out / "run.json");
  const Json contenders = Json::parse(file).at("contenders");
  CHECK(contenders[0].at("out") == "");
  const auto out = contenders[1].at("out").get<std::string>();
  CHECK_MESSAGE(out.find("benchmark: expected \"dig\"") != std::string::npos, out);
  CHECK(contenders[1].at("turns").empty());
}

TEST_CASE("an unknown class is refused with a list of the classes") {
  std::string told;
  try {
    detail::run_class_named("huge");
  } catch (const std::invalid_argument& e) {
    told = e.what();
  }
  CHECK(told.find("--class huge") == 0);
  for (const std::string name : {"quick", "race", "smoke", "ranked", "official"}) {
    CHECK(detail::run_class_named(name).name == name);
    CHECK_MESSAGE(told.find(name) != std::string::npos, told);
  }
}

TEST_CASE("entries, benchmarks, scenarios and divisions that do not exist are refused with the reason") {
  const Models folder;
  RunOptions o;
  o.out = folder.path / "out";
  o.entries = {folder.path / "nobody"};
  CHECK(run_match(o) == kSetUpProblem);
  o.entries = {folder.path / "linear"};
  o.scenario = "train";
  CHECK(run_match(o) == kSetUpProblem);
  o.scenario = "generation";
  CHECK(run_match(o) == kSetUpProblem);
  o.scenario = "offline", o.run_class = "huge";
  CHECK(run_match(o) == kSetUpProblem);
  o.run_class = "smoke", o.benchmark = "vww";
  CHECK(run_match(o) == kSetUpProblem);
  o.benchmark = "dig", o.division = "secret";
  CHECK(run_match(o) == kSetUpProblem);
  o.division = "open", o.seed = kTrainingSeed;
  CHECK(run_match(o) == kSetUpProblem);
  CHECK_FALSE(std::filesystem::exists(o.out));
}
