// The profile command: what it writes, and what it refuses.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <tinymlperf/commands/exit_status.hpp>
#include <tinymlperf/commands/profile.hpp>

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

TEST_CASE("a training step and an inference of every kind of model") {
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

TEST_CASE("the files: a page and a trace") {
  ProfileOptions o;
  o.model = "linear", o.batch = 2, o.steps = 1, o.out = fresh_folder("files");
  CHECK(run_profile(o) == kPass);
  CHECK(text_of(o.out / "profile.html").find("Roofline") != std::string::npos);
  const auto trace = nlohmann::json::parse(text_of(o.out / "trace.json"));
  CHECK(trace.at("traceEvents").size() > 3);
  std::filesystem::remove_all(o.out);
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
