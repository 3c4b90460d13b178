// Valid plans (plan.json) are read, and each kind of invalid plan is refused.
#include <doctest/doctest.h>

#include <set>
#include <tinymlperf/device/plan.hpp>
#include <tinymlperf/ops/tasks.hpp>
#include <tree/source_folder.hpp>

using namespace tinymlperf;
using namespace tinymlperf::device;

namespace {

Json good() {
  return Json::parse(R"json({"schema": 1, "ops": {
    "softmax": {"launches": [{"kernel": "rows<256>", "grid": ["in0[0]", 2], "block": ["power_of_two(in0[1])"],
                              "shared": "4 * in0[1]", "arguments": ["in0", "out", "in0[1]", 7, {"float": 0.5}]}]},
    "sum_rows": {"source": "sums.cu", "workspace": "4 * size(out)", "deterministic": false,
                 "launches": [{"kernel": "first", "grid": [1], "block": [32], "arguments": ["in0", "workspace"]},
                              {"kernel": "second", "grid": [1], "block": [32], "arguments": []}]}}})json");
}

std::string reason_of(const Json& plan) {
  try {
    (void)parse_plan(plan.dump());
  } catch (const Refusal& e) {
    return e.what();
  }
  return "";
}

// The reason for which good() is refused after one value was replaced.
std::string reason_with(const char* place, const Json& value) {
  Json plan = good();
  plan[Json::json_pointer(place)] = value;
  return reason_of(plan);
}

// The error of the numbers of good() after one value was replaced.
std::string limit_of(const char* place, const Json& value) {
  Json plan = good();
  plan[Json::json_pointer(place)] = value;
  try {
    const OpPlan op = parse_plan(plan.dump()).at("softmax");
    const Shapes shapes{{{3, 40}}, {3, 40}};
    (void)dimensions_of(op.launches[0], shapes);
    (void)workspace_of(op, shapes);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "";
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a valid plan is read, and its numbers are evaluated for the shapes") {
  const LaunchPlan plan = parse_plan(good().dump());
  REQUIRE(plan.size() == 2);
  const OpPlan &softmax = plan.at("softmax"), &sums = plan.at("sum_rows");
  CHECK(softmax.source == "kernels.cu");
  CHECK(softmax.deterministic);
  CHECK(sums.source == "sums.cu");
  CHECK_FALSE(sums.deterministic);
  CHECK(sums.launches.size() == 2);
  const Shapes shapes{{{3, 40}}, {3, 40}};
  const Dimensions d = dimensions_of(softmax.launches[0], shapes);
  CHECK(d.grid == std::array<int64_t, 3>{3, 2, 1});
  CHECK(d.block == std::array<int64_t, 3>{64, 1, 1});
  CHECK(d.shared == 160);
  CHECK(workspace_of(softmax, shapes) == 0);
  CHECK(workspace_of(sums, shapes) == 480);
  using Kind = Argument::Kind;
  const auto& arguments = softmax.launches[0].arguments;
  const std::vector<Kind> kinds{Kind::pointer, Kind::pointer, Kind::integer, Kind::integer, Kind::real};
  for (size_t i = 0; i < kinds.size(); ++i) CHECK(arguments.at(i).kind == kinds[i]);
  CHECK(arguments[4].value == 0.5f);
}

TEST_CASE("invalid plans are refused with the place of the error") {
  CHECK_THROWS_AS((void)parse_plan("{"), Refusal);
  CHECK_THROWS_AS((void)parse_plan("[]"), Refusal);
  CHECK_THROWS_AS((void)parse_plan(std::string(1000000, '[') + std::string(1000000, ']')), Refusal);
  CHECK(has(reason_of({{"schema", 1}}), "plan.json: ops: expected an object with 1 to 100 ops"));
  CHECK(has(reason_with("/schema", 2), "plan.json: schema: expected an integer from 1 to 1"));
  CHECK(has(reason_with("/host", "main.cpp"), "only the keys schema, ops"));
  CHECK(has(reason_with("/ops/softmax/source", "../etc/kernels.cu"),
            "ops.softmax.source: expected the name of a .cu"));
  CHECK(has(reason_with("/ops/softmax/source", "kernels.cpp"), "ops.softmax.source"));
  CHECK(has(reason_with("/ops/softmax/source", ".cu"), "ops.softmax.source"));
  CHECK(has(reason_with("/ops/softmax/launches", Json::array()), "an array of 1 to 32 elements"));
  CHECK(has(reason_with("/ops/softmax/launches/0/grid", Json::array({1, 1, 1, 1})),
            "an array of 1 to 3 elements"));
  CHECK(has(reason_with("/ops/softmax/launches/0/block/0", "in0[0] +"),
            "ops.softmax.launches[0].block[0]: expected arithmetic on shapes"));
  CHECK(has(reason_with("/ops/softmax/launches/0/block/0", 0.5), "an integer"));
  CHECK(has(reason_with("/ops/softmax/launches/0/arguments/0", "input"), "arguments[0]"));
  CHECK(has(reason_with("/ops/softmax/launches/0/arguments/4", Json{{"double", 1}}), "{\"float\": number}"));
  CHECK(has(reason_with("/ops/softmax/launches/0/grid/1", UINT64_MAX), "grid[1]: expected arithmetic"));
  CHECK(has(reason_with("/ops/softmax/launches/0/grid/1", INT64_MIN), "not an integer of 64 bits"));
  CHECK(has(reason_with("/ops/softmax/launches/0/arguments/4", Json{{"float", 1e39}}), "a float can hold"));
  CHECK(has(reason_with("/ops/softmax/launches/0/stream", 1), "only the keys kernel, grid"));
  CHECK(has(reason_with("/ops/softmax/workspace", true), "an integer"));
}

TEST_CASE("launches beyond the limits of GPUs are refused") {
  CHECK(limit_of("/ops/softmax/launches/0/block/0", "in0[1]") == "");
  CHECK(has(limit_of("/ops/softmax/launches/0/block/0", 0), "block: 0 is not between 1 and 1024"));
  CHECK(has(limit_of("/ops/softmax/launches/0/block", Json::array({64, 32})), "threads of a block: 2048"));
  CHECK(has(limit_of("/ops/softmax/launches/0/grid/0", "in0[0] - 3"), "grid: 0"));
  CHECK(has(limit_of("/ops/softmax/launches/0/grid/1", 65536), "grid: 65536"));
  CHECK(has(limit_of("/ops/softmax/launches/0/shared", 300000), "shared: 300000"));
  CHECK(has(limit_of("/ops/softmax/workspace", "size(in0) * 100000000"), "workspace: 12000000000"));
  CHECK(has(limit_of("/ops/softmax/workspace", -1), "workspace: -1"));
}

TEST_CASE(
    "the plan of the plain kernels is valid for every op of krn and all its shapes, and launches all of "
    "them") {
  const std::filesystem::path plain =
      std::filesystem::path(tinytorch_tree::kSourceFolder) / "bench/tinymlperf/kernels/plain";
  const LaunchPlan plan = load_plan(plain);
  std::set<std::string> launched, defined;
  for (const auto& task : judge::kernels::tasks()) {
    CAPTURE(task.name);
    REQUIRE(plan.contains(task.name));
    const OpPlan& op = plan.at(task.name);
    auto sizes = task.device_shapes;
    sizes.insert(sizes.end(), task.shapes.begin(), task.shapes.end());
    for (const Shape& size : sizes) {
      Shapes shapes{{}, task.output(size)};
      for (const auto& operand : task.operands(size)) shapes.in.push_back(operand.shape);
      CHECK_NOTHROW((void)workspace_of(op, shapes));
      for (const Launch& launch : op.launches) {
        CHECK_NOTHROW((void)dimensions_of(launch, shapes));
        launched.insert(launch.kernel.substr(0, launch.kernel.find('<')));
      }
    }
  }
  CHECK(plan.size() == judge::kernels::tasks().size());
  for (const auto& file : std::filesystem::directory_iterator(plain)) {
    if (file.path().extension() == ".json") continue;
    const std::string text = tinymlperf::detail::read_limited(file.path(), 1 << 20);
    for (size_t at = 0; (at = text.find("__global__ void ", at)) != std::string::npos;) {
      at += 16;
      defined.insert(text.substr(at, text.find('(', at) - at));
    }
  }
  CHECK(launched == defined);
}
