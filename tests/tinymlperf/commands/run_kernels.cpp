// The command `run-kernels`: the library's plugin against another one, and options that it refuses.
#include <doctest/doctest.h>

#include <fstream>
#include <support/few.hpp>
#include <support/sanitized.hpp>
#include <support/small_tasks.hpp>
#include <tinymlperf/commands/run.hpp>
#include <tinymlperf/judge/results/verify_run.hpp>
#include <tinymlperf/support/temporary_folder.hpp>
#include <tinytorch/tinytorch.hpp>
#include <tree/source_folder.hpp>

using namespace tinymlperf;

namespace {

namespace fs = std::filesystem;
const fs::path kSource = tinytorch_tree::kSourceFolder;

fs::path plugin_folder(const TemporaryFolder& in, const char* name) {
  const fs::path folder = in / name;
  fs::create_directory(folder);
  fs::permissions(folder, fs::perms(0755));
  return folder;
}

}  // namespace

TEST_CASE("the library's plugin plays against another; what is no plugin is out" *
          doctest::skip(test::kSanitized) * test::takes_minutes()) {
  const TemporaryFolder folder;
  const fs::path student = plugin_folder(folder, "student"), model = plugin_folder(folder, "model");
  fs::copy_file(kSource / "tests/exploits/kernels/honest.cpp", student / "plugin.cpp");
  fs::copy_file(kSource / "tests/exploits/kernels/plain.hpp", student / "plain.hpp");
  for (const char* file : {"model.json", "weights.safetensors"}) std::ofstream(model / file) << "{}";
  RunOptions o;
  o.entries = {kSource / "bench/tinymlperf/kernels/library", student, model};
  o.benchmark = "krn", o.out = folder / "out", o.seed = 5;
  // An op that both have and one that only the library has.
  CHECK(run_kernel_match(o, test::small_tasks({"sum_rows", "gelu"}, 8, 32, 29)) == kPass);
  std::ifstream file(o.out / "run.json");
  const Json run = Json::parse(file);
  CHECK(verify_run(run) == "");
  CHECK(run.at("benchmark") == "krn");
  CHECK(run.at("class") == "smoke");
  CHECK(run.at("seed") == 5);
  CHECK(run.at("sandbox").contains("landlock"));
  REQUIRE(run.at("contenders").size() == 3);
  const Json &library = run.at("contenders")[0], &other = run.at("contenders")[1],
             &none = run.at("contenders")[2];
  CHECK(library.at("name") == "library");
  CHECK_MESSAGE(library.at("out") == "", library.at("out").dump());
  CHECK(library.at("ops_right") == 2);
  CHECK(library.at("score").at("estimate") == 1);
  CHECK(library.at("quality").at("estimate") == 1);
  CHECK_MESSAGE(other.at("out") == "", other.at("out").dump());
  CHECK(other.at("ops")[0].at("state") == "right");
  CHECK(other.at("ops")[0].at("times_the_baseline").at("estimate").get<double>() > 0);
  CHECK(other.at("ops")[1].at("state") == "absent");
  CHECK(other.at("ops")[1].at("times_the_baseline").is_null());
  CHECK(other.at("score") == other.at("ops")[0].at("times_the_baseline"));
  CHECK(none.at("out").get<std::string>().find("a kernel is code") == 0);
  CHECK(none.at("score").is_null());
  CHECK(none.at("ops")[0].at("state") == "unasked");
}

TEST_CASE("ops, classes and options that do not exist are refused with the reason") {
  const TemporaryFolder folder;
  RunOptions o;
  o.benchmark = "krn", o.out = folder / "out";
  o.entries = {folder / "nobody"};
  CHECK(run_match(o) == kSetUpProblem);
  o.entries = {folder / ""};
  o.scenario = "server";
  CHECK(run_match(o) == kSetUpProblem);
  o.scenario = "single_stream", o.division = "closed";
  CHECK(run_match(o) == kSetUpProblem);
  o.division = "open", o.run_class = "huge";
  CHECK(run_match(o) == kSetUpProblem);
  CHECK_FALSE(fs::exists(o.out));
}

TEST_CASE("the ops are listed with their operands") {
  std::FILE* file = std::tmpfile();
  CHECK(list_kernels(file) == kPass);
  std::string text(static_cast<size_t>(std::ftell(file)), ' ');
  std::rewind(file);
  CHECK(std::fread(text.data(), 1, text.size(), file) == text.size());
  std::fclose(file);
  for (const auto& task : judge::kernels::tasks())
    CHECK(text.find(task.name + ": " + task.text) != std::string::npos);
  CHECK(text.find("[512, 1024] [128, 4096]") != std::string::npos);
}
