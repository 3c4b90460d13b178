// A trace is JSON with the contents of the profile; another JSON parser reads it back.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <tinytorch/profiling/trace.hpp>

namespace tt = tinytorch;
using namespace tinytorch::profiling;
using nlohmann::json;

namespace {

Profile small() {
  Profile p;
  p.scopes = {{"", -1, 0, 3}, {"model", 0, 0.5, 2}, {"mlp \"up\"\n", 1, 0.75, 1}};
  OpRecord op;
  op.name = "linear";
  op.scope = 2;
  op.start = op.device_start = 1;
  op.seconds = op.device_seconds = 0.25;
  op.cost = {100, 50};
  op.inputs = {{2, 3}, {}};
  p.ops.push_back(op);
  op.name = "mul";
  op.backward = true;
  op.device = tt::cuda;
  op.device_start = 1.5;
  op.device_seconds = 0.125;
  p.ops.push_back(op);
  p.seconds = 3;
  return p;
}

}  // namespace

TEST_CASE("scopes, ops and kernels are complete events in microseconds") {
  const json trace = json::parse(chrome_trace(small()));
  const json& events = trace.at("traceEvents");
  REQUIRE(events.size() == 7);
  for (const json& e : events) {
    CHECK(e.at("ph") == "X");
    CHECK(e.at("dur").get<double>() >= 0);
  }
  CHECK(events[0].at("name") == "model");
  CHECK(events[1].at("name") == "mlp \"up\"\n");
  CHECK(events[1].at("ts") == 750000);
  CHECK(events[2].at("name") == "linear");
  CHECK(events[2].at("dur") == 250000);
  CHECK(events[2].at("args").at("flops") == 100);
  CHECK(events[2].at("args").at("inputs") == "[2, 3] []");
  CHECK(events[2].at("args").at("pass") == "forward");
  CHECK(events[4].at("cat") == "kernel");
  CHECK(events[4].at("tid") == "gpu");
  CHECK(events[4].at("ts") == 1500000);
  CHECK(events[4].at("args").at("pass") == "backward");
  // The scopes of the op that ran on the GPU, with the device's times.
  for (const size_t i : {size_t{5}, size_t{6}}) {
    CHECK(events[i].at("name") == events[i - 5].at("name"));
    CHECK(events[i].at("cat") == "scope");
    CHECK(events[i].at("tid") == "gpu");
    CHECK(events[i].at("ts") == 1500000);
    CHECK(events[i].at("dur") == 125000);
    CHECK(events[i].at("args") == json{{"pass", "backward"}});
  }
  // Bars nest: an op is inside its scope.
  CHECK(events[2].at("ts") >= events[1].at("ts"));
  CHECK(events[2].at("ts").get<double>() + events[2].at("dur").get<double>() <=
        events[1].at("ts").get<double>() + events[1].at("dur").get<double>());
}

TEST_CASE("an empty profile is an empty trace, and a file holds the same text") {
  Profile empty;
  empty.scopes = {{"", -1, 0, 0}};
  CHECK(json::parse(chrome_trace(empty)).at("traceEvents").empty());
  const auto path = std::filesystem::temp_directory_path() / "tinytorch_trace_test.json";
  save_chrome_trace(small(), path.string());
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  CHECK(text == chrome_trace(small()));
  std::filesystem::remove(path);
}
