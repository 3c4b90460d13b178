// A profile as a file, for comparison with a later one: the times of a step op by op, and the machine that
// measured them.
#pragma once

#include <string>
#include <tinymlperf/support/json_fields.hpp>
#include <tinytorch/io/file.hpp>
#include <tinytorch/profiling/profile.hpp>

namespace tinymlperf {

namespace profiling = tinytorch::profiling;

inline constexpr const char* kProfileFormat = "tinymlperf profile 1";

// The profile of one step. `provenance` is an object with machine, device, date and commit, for readers.
inline Json to_json(const profiling::Profile& step, const std::string& title, const Json& provenance) {
  Json ops = Json::array();
  for (const profiling::ProfileRow& row : profiling::by_op(step))
    ops.push_back({{"op", row.name},
                   {"pass", row.backward ? "backward" : "forward"},
                   {"seconds", row.seconds},
                   {"flops", row.cost.flops},
                   {"bytes", row.cost.bytes}});
  return {{"format", kProfileFormat},
          {"title", title},
          {"measured", provenance},
          {"seconds", step.seconds},
          {"ops", std::move(ops)}};
}

// A profile with one record for each row of the file. Throws std::invalid_argument with a message that says
// what to do.
inline profiling::Profile read_profile(const std::string& path) {
  const auto refuse = [&](const std::string& why) {
    throw std::invalid_argument(path + ": " + why + "; write one with `profile MODEL --json FILE`");
  };
  profiling::Profile p;
  try {
    const auto bytes = tinytorch::read_file(path, uint64_t{64} << 20);
    const auto* const text = reinterpret_cast<const char*>(bytes.data());
    const Json j = Json::parse(text, text + bytes.size());
    if (j.value("format", "") != kProfileFormat) refuse("this is no profile");
    p.seconds = j.at("seconds").get<double>();
    p.scopes = {{"", -1, 0, p.seconds}};
    for (const Json& row : j.at("ops")) {
      profiling::OpRecord op;
      op.name = row.at("op").get<std::string>();
      op.backward = row.at("pass") == "backward";
      op.seconds = op.device_seconds = row.at("seconds").get<double>();
      op.cost = {row.at("flops").get<double>(), row.at("bytes").get<double>()};
      p.ops.push_back(std::move(op));
    }
  } catch (const Json::exception& e) {
    refuse(e.what());
  } catch (const tinytorch::Error& e) {
    refuse(e.what());
  }
  if (!(p.seconds > 0)) refuse("a step of it took no time");
  return p;
}

}  // namespace tinymlperf
