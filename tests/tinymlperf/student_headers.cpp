// Header sets as submissions: a replaced header, slower or wrong on purpose, affects the process that answers
// and nothing else. A student's program (run --worker) answers in a match of the library's judge.
#include <doctest/doctest.h>

#include <fstream>
#include <support/few.hpp>
#include <support/refusals.hpp>
#include <support/sanitized.hpp>
#include <support/small_tasks.hpp>
#include <support/start_as_worker.hpp>
#include <tinymlperf/commands/run.hpp>
#include <tinymlperf/judge/results/verify_run.hpp>
#include <tinytorch/tinytorch.hpp>

namespace fs = std::filesystem;
using namespace tinymlperf;
using namespace tinymlperf::judge;
using namespace tinymlperf::judge::kernels;
using test::holds;

namespace {

// A submission that calls the library's softmax.
constexpr const char* kSoftmaxPlugin = R"(
#include <tinymlperf/entries/kernels.hpp>
#include <tinytorch/backend/cpu/softmax.hpp>
using namespace tinymlperf;
int main() {
  return serve_kernels({kernel("softmax", [](Inputs in, std::span<float> out) {
    tinytorch::backend::View x{const_cast<std::byte*>(in[0].bytes.data()), tinytorch::f32, {}, {}};
    for (const int64_t side : in[0].shape) x.shape.push_back(side);
    x.strides.push_back(in[0].shape[1]), x.strides.push_back(1);
    tinytorch::backend::View y = x;
    y.data = out.data();
    tinytorch::backend::cpu::softmax(y, x, 1);
  })});
})";

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

// Adds the library's header `name` to a submission, with the text `was` replaced by `becomes`.
void replace(const fs::path& folder, const std::string& name, const std::string& was,
             const std::string& becomes) {
  std::string text =
      tinymlperf::detail::read_limited(fs::path(tinytorch_tree::kSourceFolder) / "include" / name, 1 << 20);
  const size_t at = text.find(was);
  REQUIRE_MESSAGE(at != std::string::npos, name << " no longer contains: " << was);
  write(folder / kHeaderFolder / name, text.replace(at, was.size(), becomes));
}

constexpr const char* kSoftmax = "tinytorch/backend/cpu/softmax.hpp";
constexpr const char* kScale = "const T scale = T(1) / static_cast<T>(sum);";

std::vector<float> softmax_here() {
  return tt::softmax(tt::linspace(-3, 5, 64 * 48).reshape({64, 48}), 1).to_vector<float>();
}

// Writes an untrained linear model for the benchmark dig.
void put_model(const fs::path& folder) {
  const EntrySpec spec = parse_entry(
      R"({"schema": 1, "name": "linear", "input": [1, 28, 28], "classes": 10,
          "layers": [{"type": "flatten"}, {"type": "linear", "in": 784, "out": 10}]})");
  tt::Generator random(1);
  save_entry(folder, spec, build_layers(spec, random)->state_dict());
}

Json read_run(const fs::path& out) {
  std::ifstream file(out / "run.json");
  return Json::parse(file);
}

}  // namespace

TEST_CASE(
    "a slower header makes its plugin slower, a wrong one makes it wrong, and neither affects the judge" *
    doctest::skip(test::kSanitized) * test::takes_minutes()) {
  const TemporaryFolder f;
  for (const char* name : {"plain", "slow"}) write(f / name / kPluginFile, kSoftmaxPlugin);
  replace(f / "slow", kSoftmax, kScale,
          "volatile T again = 0;\n"
          "for (int64_t i = 0; i < 200 * n; ++i) again = again + out[i % n];\n" +
              std::string(kScale));
  // A submission of headers alone: the library's kernels are compiled with them.
  replace(f / "wrong", kSoftmax, kScale, "const T scale = T(2) / static_cast<T>(sum);");
  const std::vector<float> before = softmax_here();
  const sandbox::Offers offers = tinymlperf::detail::sandbox_of_machine();
  std::vector<std::unique_ptr<Stage>> stages;
  std::vector<KernelContender> contenders;
  for (const char* name : {"plain", "slow", "wrong"}) {
    contenders.emplace_back();
    tinymlperf::detail::admit_kernels(contenders.back(), f / name, false, 3, offers, stages);
    REQUIRE_MESSAGE(contenders.back().record.out.empty(), contenders.back().record.out);
    CHECK(stages.back()->tier() == "T2");
  }
  KernelMatch(test::small_tasks({"softmax"}, 8, 64, 40), {"short", 6, 3, 10}, 3)(contenders);
  KernelRun run{"short", "cpu-mt", "", 3, {}, {}, {}};
  for (KernelContender& c : contenders) run.contenders.push_back(c.record);
  const KernelContenderRecord &plain = run.contenders[0], &slow = run.contenders[1],
                              &wrong = run.contenders[2];
  CHECK(plain.ops[0].state == "right");
  CHECK(slow.ops[0].state == "right");
  const auto ratio = times_the_baseline(slow.ops[0], plain.ops[0]);
  REQUIRE(ratio);
  CHECK(ratio->high < 0.5);
  CHECK(wrong.ops[0].state == "wrong");
  CHECK_MESSAGE(holds(wrong.ops[0].reason, "found"), wrong.ops[0].reason);
  // The judge uses the library's header.
  CHECK(softmax_here() == before);
  CHECK(softmax_here() != std::vector<float>(before.size()));
  // The document lists the replaced headers of the contenders that have some.
  const Json document = to_json(run);
  CHECK_FALSE(document.at("contenders")[0].contains("replaced"));
  for (const size_t i : {1u, 2u}) CHECK(document.at("contenders")[i].at("replaced") == Json{kSoftmax});
  CHECK(to_json(read_kernel_run(document)) == document);
}

TEST_CASE("a model with replaced headers is run with these headers" * doctest::skip(test::kSanitized) *
          test::takes_minutes()) {
  const TemporaryFolder f;
  for (const char* name : {"library", "mine"}) put_model(f / name);
  constexpr const char* kLinear = "tinytorch/layers/linear.hpp";
  replace(f / "mine", kLinear, "return linear(x, weight, bias);",
          "return linear(x, weight, bias) * std::numeric_limits<double>::quiet_NaN();");
  RunOptions o;
  o.entries = {f / "library", f / "mine"};
  o.run_class = "quick", o.seed = 5, o.out = f / "out";
  REQUIRE(run_match(o) == kPass);
  const Json run = read_run(o.out);
  CHECK(verify_run(run) == "");
  const Json &library = run.at("contenders")[0], &mine = run.at("contenders")[1];
  CHECK(library.at("tier") == "T0");
  CHECK_MESSAGE(library.at("out") == "", library.at("out").dump());
  CHECK(mine.at("tier") == "T2");
  CHECK(mine.at("replaced") == Json{kLinear});
  CHECK_MESSAGE(holds(mine.at("out"), "not finite"), mine.at("out").dump());
}

// A header that hides its means from readers, in the three kinds of submissions that have headers.
TEST_CASE("replaced headers are read by the static rules, as they are written and after the preprocessor" *
          doctest::skip(test::kSanitized) * test::takes_minutes()) {
  const TemporaryFolder f;
  put_model(f / "model");
  write(f / "plugin" / kPluginFile, kSoftmaxPlugin);
  constexpr const char* kGuard = "#pragma once\n";
  for (const char* name : {"plugin", "kernels", "model"})
    replace(f / name, kSoftmax, kGuard,
            std::string(kGuard) +
                "#include <ctime>\n#include <cstdlib>\n#define JOINED(a, b) a##b\n"
                "inline auto when() { return JOINED(clock_get, time)(0, nullptr); }\n"
                "inline auto where() { return getenv(\"HOME\"); }\n");
  const sandbox::Offers offers = tinymlperf::detail::sandbox_of_machine();
  for (const std::string name : {"plugin", "kernels", "model"}) {
    CAPTURE(name);
    const Stage stage(f / name, offers);
    std::string all;
    for (const std::string& reason : stage.reasons()) all += reason + "\n";
    const std::string file = std::string("include/") + kSoftmax + ":";
    CHECK_MESSAGE(holds(all, file + "15: inspects the environment in which it runs"), all);
    CHECK_MESSAGE(holds(all, file + "13: joins names with ##, which hides them from a reader"), all);
    CHECK_MESSAGE(holds(all, file + "14: after the preprocessor, reads a clock"), all);
  }
}

TEST_CASE("headers that replace nothing, are in core/ or are links are refused" *
          doctest::skip(test::kSanitized)) {
  const TemporaryFolder f;
  const auto refused = [&](const char* name) {
    const fs::path folder = f / "entry";
    write(folder / kPluginFile, "int main() {}\n");
    write(folder / kHeaderFolder / name, "#pragma once\n");
    const std::string why = test::refusal([&] { (void)header_set_of(folder); });
    ContenderRecord record;
    CHECK_FALSE(tinymlperf::detail::admit(record, folder, "dig", {}));
    CHECK(record.out == why);
    fs::remove_all(folder);
    return why;
  };
  CHECK(holds(refused("tinytorch/tensor/mine.hpp"),
              "replaces nothing, since the library has no include/tinytorch/tensor/mine.hpp"));
  CHECK(holds(refused("mine.hpp"), "move new code into such a header"));
  CHECK(holds(refused("tinymlperf/judge/match/match.hpp"), "replaces nothing"));
  CHECK(holds(refused("tinytorch/core/shape.hpp"), "outside core/"));
  CHECK(holds(refused("tinytorch/backend/cuda/kernels/softmax.cuh"), "a .hpp header"));
  const fs::path folder = f / "links";
  write(folder / "elsewhere.hpp", "#pragma once\n");
  fs::create_directories((folder / kHeaderFolder / kSoftmax).parent_path());
  fs::create_symlink(folder / "elsewhere.hpp", folder / kHeaderFolder / kSoftmax);
  CHECK(holds(test::refusal([&] { (void)header_set_of(folder); }), "found a link"));
  fs::remove_all(folder / kHeaderFolder);
  fs::create_directory_symlink(fs::path(tinytorch_tree::kSourceFolder) / "include", folder / kHeaderFolder);
  CHECK(holds(test::refusal([&] { (void)header_set_of(folder); }), "include: expected a file or a folder"));
}

TEST_CASE(
    "a student's program answers for the same model as the judge's, and the document names it and its "
    "headers" *
    doctest::skip(test::kSanitized) * test::takes_minutes()) {
  const TemporaryFolder f;
  put_model(f / "linear");
  // The program lists its replaced headers, and its answers give all digits the same score.
  write(f / "program" / kPluginFile, R"(
#include <cstdio>
#include <tree/source_folder.hpp>
#include <string>
#include <tinymlperf/entries/plugin.hpp>
using namespace tinymlperf;
int main(int argc, char** argv) {
  if (argc < 3 || std::string(argv[1]) != "worker") return 2;
  if (std::string(argv[2]) == "--headers") return std::puts("tinytorch/tensor/strides.hpp") < 0;
  return serve([&](const Query& query) -> Tensors {
    const int64_t n = query.inputs.at(0).shape.at(0);
    const std::vector<float> none(static_cast<size_t>(10 * n));
    Tensors out{make_tensor({n, 10}, std::span<const float>(none))};
    const int64_t bytes = 4096;
    if (argc == 4) out.push_back(make_tensor<int64_t>(DType::i64, {1}, std::span(&bytes, 1)));
    return out;
  });
})");
  const fs::path program = f / "worker";
  REQUIRE(std::system(("g++ -std=c++20 -O1 -I " + std::string(tinytorch_tree::kSourceFolder) + "/bench -I " +
                       tinytorch_tree::kSourceFolder + "/include " + (f / "program" / kPluginFile).string() +
                       " -o " + program.string())
                          .c_str()) == 0);
  RunOptions o;
  o.entries = {f / "linear"}, o.worker = program;
  o.run_class = "quick", o.seed = 5, o.out = f / "out";
  REQUIRE(run_match(o) == kPass);
  const Json run = read_run(o.out);
  CHECK(verify_run(run) == "");
  REQUIRE(run.at("contenders").size() == 2);
  const Json &library = run.at("contenders")[0], &student = run.at("contenders")[1];
  for (const Json& c : run.at("contenders")) CHECK_MESSAGE(c.at("out") == "", c.at("out").dump());
  CHECK(library.at("tier") == "T0");
  CHECK_FALSE(library.contains("worker"));
  CHECK(student.at("name") == "linear-student");
  CHECK(student.at("tier") == "T2");
  CHECK(student.at("worker") == program.string());
  CHECK(student.at("replaced") == Json{"tinytorch/tensor/strides.hpp"});
  CHECK(student.at("peak_bytes") == 4096);
  CHECK(student.at("credit") != library.at("credit"));
  // Refused: a missing program, one that lists no headers, entries with code of their own, and kernels.
  o.worker = f / "none";
  CHECK(run_match(o) == kSetUpProblem);
  o.worker = "/bin/false";
  REQUIRE(run_match(o) == kPass);
  CHECK(holds(read_run(o.out).at("contenders")[1].at("out"), "of a build with TINYTORCH_STUDENT"));
  o.worker = program, o.entries = {f / "program"};
  CHECK(run_match(o) == kSetUpProblem);
  o.benchmark = "krn";
  CHECK(run_match(o) == kSetUpProblem);
}
