// The command `profile`: the files that it writes, and the options that it refuses.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <support/few.hpp>
#include <support/linear_entry.hpp>
#include <tinymlperf/commands/exit_status.hpp>
#include <tinymlperf/commands/profile.hpp>
#include <tinymlperf/support/temporary_folder.hpp>

using namespace tinymlperf;

namespace {

std::filesystem::path fresh_folder(const std::string& name) {
  const auto folder = std::filesystem::temp_directory_path() / ("tinymlperf_profile_" + name);
  std::filesystem::remove_all(folder);
  return folder;
}
std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("a training step and an inference of every kind of model" * test::takes_minutes()) {
  for (const std::string model : {"linear", "lenet", "gpt2-tiny"}) {
    for (const bool inference : {false, true}) {
      CAPTURE(model);
      ProfileOptions o;
      o.model = model, o.inference = inference, o.batch = 2, o.length = 8, o.steps = 2;
      const auto r = profile_model(o);
      CHECK(r.profile.cost().flops > 0);
      CHECK(r.profile.seconds >= r.profile.op_seconds());
      CHECK(r.memory.peak >= r.memory.before);
      bool backward = false, optimizer = false;
      for (const auto& op : r.profile.ops) {
        backward = backward || op.backward;
        optimizer = optimizer || op.name == "optimizer step";
      }
      CHECK(backward == !inference);
      CHECK(optimizer == !inference);
      CHECK(r.title.find(inference ? "Inference" : "training") != std::string::npos);
    }
  }
}

TEST_CASE("profile writes a page, a trace and the peaks") {
  ProfileOptions o;
  o.model = "linear", o.batch = 2, o.steps = 1, o.out = fresh_folder("files"), o.commit = "0123abc";
  CHECK(run_profile(o) == kPass);
  const std::string page = text_of(o.out / "profile.html");
  CHECK(page.find("Roofline") != std::string::npos);
  CHECK(page.find("commit 0123abc.") != std::string::npos);
  const auto trace = nlohmann::json::parse(text_of(o.out / "trace.json"));
  CHECK(trace.at("traceEvents").size() > 3);
  const auto peaks = nlohmann::json::parse(text_of(o.out / "peaks.json"));
  CHECK(peaks.at("dtype") == "f32");
  CHECK(peaks.at("machine") == describe_machine().cpu);
  CHECK(peaks.at("device").get<std::string>().find("threads") != std::string::npos);
  for (const char* name : {"flops_per_second", "bytes_per_second"}) CHECK(peaks.at(name).get<double>() > 1e6);
  CHECK(peaks.at("seconds_per_op").get<double>() > 0);
  CHECK(peaks.at("seconds_per_op").get<double>() < 1e-3);
  CHECK(peaks.at("driver").is_null());  // of a GPU, which was not used
  CHECK(peaks.at("commit") == "0123abc");
  CHECK(peaks.at("date").get<std::string>().back() == 'Z');
  std::filesystem::remove_all(o.out);
}

TEST_CASE("driver and commit stand in the report and beside the peaks where they are known") {
  Provenance p{describe_machine(), "580.65.06, CUDA 13.0", "0123abc-dirty"};
  const profiling::MachinePeaks c{
      .flops_per_second = 8e14, .bytes_per_second = 4e12, .seconds_per_op = 3e-6, .device = "a GPU"};
  const auto all = [&] {
    std::string text;
    for (const std::string& line : detail::conditions_of(p)) text += line + "\n";
    return text;
  };
  CHECK(all().find("Driver of the GPU: 580.65.06, CUDA 13.0.\n") != std::string::npos);
  CHECK(all().find(", commit 0123abc-dirty.\n") != std::string::npos);
  CHECK(detail::to_json(c, "bf16", p) == Json{{"device", "a GPU"},
                                              {"machine", p.machine.cpu},
                                              {"dtype", "bf16"},
                                              {"flops_per_second", 8e14},
                                              {"bytes_per_second", 4e12},
                                              {"seconds_per_op", 3e-6},
                                              {"driver", "580.65.06, CUDA 13.0"},
                                              {"commit", "0123abc-dirty"},
                                              {"date", p.machine.date}});
  p.driver = p.commit = "";
  CHECK(all().find("Driver") == std::string::npos);
  CHECK(all().find(", of no known commit.\n") != std::string::npos);
  CHECK(detail::to_json(c, "bf16", p).at("driver").is_null());
  CHECK(detail::to_json(c, "bf16", p).at("commit").is_null());
}

TEST_CASE("a profile that was written is compared with the next one" * test::takes_minutes()) {
  ProfileOptions o;
  o.model = "linear", o.batch = 4, o.steps = 3, o.out = fresh_folder("before"), o.commit = "0123abc";
  std::filesystem::create_directories(o.out);
  o.json = (o.out / "before.json").string();
  CHECK(run_profile(o) == kPass);
  const auto j = nlohmann::json::parse(text_of(o.json));
  CHECK(j.at("measured").at("commit") == "0123abc");
  CHECK(j.at("measured").at("machine") == describe_machine().cpu);
  CHECK(j.at("title").get<std::string>().find("linear") != std::string::npos);
  const auto before = read_profile(o.json);
  CHECK(before.seconds == j.at("seconds").get<double>());
  CHECK(before.op_seconds() <= before.seconds);
  CHECK(before.cost().flops > 0);

  o.against = o.json, o.json = "", o.steps = 2;
  const auto r = profile_model(o);
  REQUIRE(r.change);
  CHECK(r.change->before == before.seconds);
  CHECK(r.change->after == doctest::Approx(r.profile.seconds / 2));
  REQUIRE(r.change->part);
  CHECK(r.change->part->measured == doctest::Approx(before.seconds / r.change->after));
  o.part = {"linear", "matmul"};
  CHECK(profile_model(o).change->part_name == "linear + matmul");
  CHECK(run_profile(o) == kPass);
  CHECK(text_of(o.out / "profile.html").find("Change of linear + matmul: ") != std::string::npos);
  std::filesystem::remove_all(o.out);
}

TEST_CASE("a file that is no profile is refused with advice") {
  const auto folder = fresh_folder("no_profile");
  std::filesystem::create_directories(folder);
  const std::string file = (folder / "other.json").string();
  for (const char* text : {"", "[]", "{}", R"({"format":"tinymlperf profile 1"})",
                           R"({"format":"tinymlperf profile 1","seconds":0,"ops":[]})",
                           R"({"format":"tinymlperf profile 1","seconds":1,"ops":[{"op":3}]})"}) {
    tt::write_file(file, std::string_view(text));
    CAPTURE(text);
    std::string why;
    try {
      read_profile(file);
    } catch (const std::invalid_argument& e) {
      why = e.what();
    }
    CHECK(why.find("write one with `profile MODEL --json FILE`") != std::string::npos);
  }
  std::filesystem::remove_all(folder);
}

TEST_CASE("an ablation of the switches that there are") {
  ProfileOptions o;
  o.model = "linear", o.batch = 2, o.steps = 1, o.ablation = true;
  const int threads = tt::thread_count();
  const auto r = profile_model(o);
  REQUIRE(r.ablation);
  std::string names;
  for (const auto& row : r.ablation->rows) names += row.name + ", ";
  CHECK(names == (threads > 1 ? fmt::format("none, {} threads, bf16, all, ", threads) : "none, bf16, "));
  CHECK(tt::thread_count() == threads);
  for (const auto& row : r.ablation->rows) CHECK(row.samples.size() == 11);
  o.dtype = "bf16";
  tt::set_thread_count(1);
  CHECK_THROWS_WITH_AS(profile_model(o), doctest::Contains("has no switch left"), std::invalid_argument);
  tt::set_thread_count(threads);
}

TEST_CASE("an ablation that fails leaves the profile that was measured before it") {
  const TemporaryFolder folder;
  test::put_entry(folder / "entry", "gone", 1);
  ProfileOptions o;
  o.model = (folder / "entry").string(), o.batch = 2, o.steps = 1, o.out = folder.path(), o.ablation = true;
  o.json = (folder / "profile.json").string();
  Measured m = detail::measure_model(o);
  detail::write_profile(o, m.report, {describe_machine(), "", ""});
  std::filesystem::remove_all(o.model);  // the ablation reads it once more
  CHECK(detail::add_comparisons(o, m) == kFailed);
  CHECK(read_profile(o.json).seconds > 0);
  for (const char* name : {"profile.html", "trace.json", "peaks.json"})
    CHECK(std::filesystem::file_size(folder / name) > 0);
}

TEST_CASE("what there is not is said, and nothing is written") {
  ProfileOptions o;
  o.out = fresh_folder("refused");
  o.model = "resnet";
  CHECK(run_profile(o) == kSetUpProblem);
  o.model = "gpt2-huge";
  CHECK(run_profile(o) == kSetUpProblem);
  o.model = "linear", o.dtype = "f8";
  CHECK(run_profile(o) == kSetUpProblem);
  if (!tt::backend::cuda::is_built()) {
    o.dtype = "f32", o.device = "cuda";
    CHECK(run_profile(o) == kSetUpProblem);
  }
  CHECK_FALSE(std::filesystem::exists(o.out));
}
