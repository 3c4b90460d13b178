// plan.json: how the CUDA sources of a submission of tier T1, which has no host code, are launched.
//
//   {"schema": 1, "ops": {"softmax": {
//     "source": "softmax.cu",                     default: kernels.cu
//     "launches": [{"kernel": "softmax_rows",     or "softmax_rows<256>"
//       "grid": ["in0[0]"], "block": [256],       blocks and threads along x, y and z: arithmetic.hpp
//       "shared": "4 * in0[1]",                   bytes of dynamic shared memory, default: 0
//       "arguments": ["in0", "out", "in0[1]"]}],  a pointer (in0, in1, ..., out, workspace), arithmetic
//                                                 for an int or a long long, or {"float": 0.5}
//     "workspace": "4 * size(out)",               bytes of scratch memory, default: 0
//     "deterministic": true}}}                    default: two runs give the same bits
// Inputs and output have the types that `tinymlperf kernels` names, f32 if it names none, and are row-major.
// The launches of an op run one after the other.
#pragma once

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <tinymlperf/device/arithmetic.hpp>

namespace tinymlperf::device {

constexpr const char* kPlanFile = "plan.json";
constexpr const char* kSymbolsFile =
    "kernels.json";                              // beside the plan, written when its sources are compiled
constexpr const char* kLibraryName = "library";  // stands for the library's kernels, instead of a folder

struct Argument {
  enum class Kind { pointer, integer, real };
  Kind kind;
  std::string text;  // the pointer's name, or the arithmetic of an integer
  float value = 0;   // of Kind::real
};

struct Launch {
  std::string kernel;
  std::vector<std::string> grid, block;  // arithmetic for 1 to 3 dimensions each
  std::string shared;
  std::vector<Argument> arguments;
};

struct OpPlan {
  std::string source, workspace;
  std::vector<Launch> launches;
  bool deterministic = true;
};

using LaunchPlan = std::map<std::string, OpPlan>;  // by the name of the op

// The numbers of a launch, evaluated for the shapes of a query.
struct Dimensions {
  std::array<int64_t, 3> grid{1, 1, 1}, block{1, 1, 1};
  int64_t shared = 0;
};

namespace limits {
constexpr int64_t kPlanBytes = 1 << 20, kWorkspaceBytes = int64_t{1} << 30;
constexpr int64_t kThreads = 1024, kSharedBytes = 232448, kGrid = 2147483647, kGridAcross = 65535;
constexpr size_t kOps = 100, kLaunches = 32, kArguments = 32, kName = 200;
}  // namespace limits

namespace detail {

using tinymlperf::detail::Fields;
using tinymlperf::detail::show;

// True for the name of a .cu file without folders that is not hidden.
inline bool is_source_name(std::string_view name) {
  const auto good = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
  };
  return name.ends_with(".cu") && name.size() > 3 && name[0] != '.' && std::ranges::all_of(name, good);
}

class PlanReader {
 public:
  explicit PlanReader(const Json& plan) : plan_(plan) {}

  LaunchPlan operator()() const {
    const Fields top(plan_, "", {"schema", "ops"}, kPlanFile);
    (void)top.integer("schema", 1, 1);
    const Json& ops = plan_.contains("ops") ? plan_.at("ops") : Json();
    if (!ops.is_object() || ops.empty() || ops.size() > limits::kOps)
      top.refuse("ops", "an object with 1 to 100 ops", show(ops));
    LaunchPlan out;
    for (const auto& [name, op] : ops.items()) out.emplace(name, op_of(op, "ops." + name));
    return out;
  }

 private:
  static OpPlan op_of(const Json& json, const std::string& where) {
    const Fields f(json, where, {"source", "launches", "workspace", "deterministic"}, kPlanFile);
    OpPlan out{f.text("source", limits::kName, "kernels.cu"),
               arithmetic(f, json, "workspace", "0"),
               {},
               f.boolean("deterministic", true)};
    if (!is_source_name(out.source)) f.refuse("source", "the name of a .cu file beside the plan", out.source);
    const Json& launches = f.array("launches", 1, limits::kLaunches);
    for (size_t i = 0; i < launches.size(); ++i)
      out.launches.push_back(launch_of(launches[i], where + ".launches[" + std::to_string(i) + "]"));
    return out;
  }
  static Launch launch_of(const Json& json, const std::string& where) {
    const Fields f(json, where, {"kernel", "grid", "block", "shared", "arguments"}, kPlanFile);
    Launch out{f.text("kernel", limits::kName, nullptr),
               sides(f, "grid"),
               sides(f, "block"),
               arithmetic(f, json, "shared", "0"),
               {}};
    const Json& arguments = f.array("arguments", 0, limits::kArguments);
    for (size_t i = 0; i < arguments.size(); ++i)
      out.arguments.push_back(argument_of(f, arguments[i], "arguments[" + std::to_string(i) + "]"));
    return out;
  }
  static Argument argument_of(const Fields& f, const Json& json, const std::string& key) {
    if (json.is_object()) {
      if (json.size() != 1 || !json.contains("float") || !json.at("float").is_number())
        f.refuse(key, "a text, an integer or {\"float\": number}", show(json));
      const double value = json.at("float").get<double>();
      if (std::abs(value) > std::numeric_limits<float>::max())
        f.refuse(key, "a number that a float can hold", show(json));
      return {Argument::Kind::real, "", static_cast<float>(value)};
    }
    if (json.is_string()) {
      const auto& text = json.get_ref<const std::string&>();
      if (text == "out" || text == "workspace" || input_number(text)) return {Argument::Kind::pointer, text};
    }
    return {Argument::Kind::integer, arithmetic(f, json, key)};
  }
  static std::vector<std::string> sides(const Fields& f, const char* key) {
    std::vector<std::string> out;
    const Json& all = f.array(key, 1, 3);
    for (size_t i = 0; i < all.size(); ++i)
      out.push_back(arithmetic(f, all[i], key + ("[" + std::to_string(i) + "]")));
    return out;
  }
  static std::string arithmetic(const Fields& f, const Json& json, const char* key, const char* fallback) {
    return f.has(key) ? arithmetic(f, json.at(key), key) : fallback;
  }
  static std::string arithmetic(const Fields& f, const Json& json, const std::string& key) {
    if (!json.is_number_integer() && !json.is_string())
      f.refuse(key, "an integer, or arithmetic as a text", show(json));
    const std::string text = json.is_string() ? json.get<std::string>() : json.dump();
    try {
      require_arithmetic(text);
    } catch (const std::invalid_argument& e) {
      f.refuse(key, "arithmetic on shapes", e.what());
    }
    return text;
  }

  const Json& plan_;
};

inline int64_t within(const char* what, int64_t value, int64_t low, int64_t high) {
  if (value < low || value > high)
    throw std::invalid_argument(std::string(what) + ": " + std::to_string(value) + " is not between " +
                                std::to_string(low) + " and " + std::to_string(high));
  return value;
}

}  // namespace detail

// Parses the text of a plan.json. Throws Refusal with file, place, what was expected and what was found.
inline LaunchPlan parse_plan(std::string_view text) {
  const Json json = tinymlperf::detail::parse_json(text, kPlanFile);
  return detail::PlanReader(json)();
}

inline LaunchPlan load_plan(const std::filesystem::path& folder) {
  return parse_plan(tinymlperf::detail::read_limited(folder / kPlanFile, limits::kPlanBytes));
}

// Evaluates the numbers of a launch for these shapes. Throws std::invalid_argument beyond the GPU's limits.
inline Dimensions dimensions_of(const Launch& launch, const Shapes& shapes) {
  Dimensions out;
  for (size_t i = 0; i < launch.grid.size(); ++i)
    out.grid[i] = detail::within("grid", evaluate(launch.grid[i], shapes), 1,
                                 i == 0 ? limits::kGrid : limits::kGridAcross);
  int64_t threads = 1;
  for (size_t i = 0; i < launch.block.size(); ++i) {
    out.block[i] = detail::within("block", evaluate(launch.block[i], shapes), 1, limits::kThreads);
    threads *= out.block[i];
  }
  detail::within("threads of a block", threads, 1, limits::kThreads);
  out.shared = detail::within("shared", evaluate(launch.shared, shapes), 0, limits::kSharedBytes);
  return out;
}
// Bytes of scratch memory of an op for these shapes. Throws std::invalid_argument beyond the limit of 1 GiB.
inline int64_t workspace_of(const OpPlan& op, const Shapes& shapes) {
  return detail::within("workspace", evaluate(op.workspace, shapes), 0, limits::kWorkspaceBytes);
}

}  // namespace tinymlperf::device
