// Launch plans and their arithmetic as untrusted input: any bytes give a plan whose numbers are within the
// limits of a GPU, or an error.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <tinymlperf/device/plan.hpp>

namespace {

using namespace tinymlperf;
using namespace tinymlperf::device;

void require(bool holds) {
  if (!holds) std::abort();
}

const Shapes kShapes[] = {{{{3, 5}, {7}}, {3, 5}},
                          {{{0, 5}, {1}}, {}},
                          {{{int64_t{1} << 40, int64_t{1} << 40}}, {2}},
                          {{}, {1, 1, 1, 1}}};

std::optional<int64_t> value_of(const std::string& text, const Shapes& shapes) {
  try {
    return evaluate(text, shapes);
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
}
bool has_form(const std::string& text) {
  try {
    require_arithmetic(text);
    return true;
  } catch (const std::invalid_argument&) {
    return false;
  }
}

// Identities of arithmetic: for each expression e, (e) = e, -(-(e)) = e, (e) - 1 is one less, and (e) / (e) =
// 1 if e > 0.
void check_arithmetic(const std::string& text) {
  (void)has_form(text);
  if (text.size() > 190) return;
  for (const Shapes& shapes : kShapes) {
    const auto value = value_of(text, shapes);
    require(value_of("(" + text + ")", shapes) == value);
    if (!value || *value == INT64_MIN) continue;
    require(value_of("-(-(" + text + "))", shapes) == value);
    require(value_of("(" + text + ") - 1", shapes) == *value - 1);
    if (*value > 0) require(value_of("(" + text + ") / (" + text + ")", shapes).value_or(1) == 1);
  }
}

void check_launch(const Launch& launch, const Shapes& shapes) {
  for (const Argument& a : launch.arguments)
    require(a.kind == Argument::Kind::integer ? has_form(a.text) : std::isfinite(a.value));
  try {
    const Dimensions d = dimensions_of(launch, shapes);
    require(d.block[0] * d.block[1] * d.block[2] <= limits::kThreads);
    for (size_t i = 0; i < 3; ++i) require(d.grid[i] >= 1 && d.block[i] >= 1 && d.grid[i] <= limits::kGrid);
    require(d.shared >= 0 && d.shared <= limits::kSharedBytes);
  } catch (const std::invalid_argument&) {
  }
}

void check_plan(const LaunchPlan& plan) {
  require(!plan.empty() && plan.size() <= limits::kOps);
  for (const auto& [name, op] : plan) {
    require(op.source.find('/') == std::string::npos && op.source.ends_with(".cu"));
    require(!op.launches.empty() && has_form(op.workspace));
    for (const Launch& launch : op.launches) {
      for (const auto* sides : {&launch.grid, &launch.block})
        for (const std::string& side : *sides) require(has_form(side));
      require(has_form(launch.shared));
      for (const Shapes& shapes : kShapes) check_launch(launch, shapes);
    }
    for (const Shapes& shapes : kShapes) try {
        require(workspace_of(op, shapes) >= 0);
      } catch (const std::invalid_argument&) {
      }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  check_arithmetic(text);
  try {
    check_plan(parse_plan(text));
  } catch (const Refusal&) {
  }
  return 0;
}
