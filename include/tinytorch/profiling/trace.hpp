// Chrome traces: a profile as a timeline, which chrome://tracing and ui.perfetto.dev open.
//
// Scopes and ops are nested bars on the line "program". Ops that ran on a GPU also have a bar on the line
// "gpu" with their times on the device, and so do scopes (device_spans.hpp). Format: "Trace Event Format"
// (Google), complete events ("ph": "X"), microseconds.
#pragma once

#include <cstdio>
#include <string>
#include <tinytorch/io/file.hpp>
#include <tinytorch/io/json.hpp>
#include <tinytorch/profiling/device_spans.hpp>

namespace tinytorch::inline TT_BUILD::profiling {

namespace detail {

inline std::string json_number(double x) {
  char text[40];
  std::snprintf(text, sizeof text, "%.3f", x);
  return text;
}

// A complete event. `line` is the row of the timeline. `arguments` are the members of a JSON object, which
// the viewer shows on a click.
inline std::string trace_event(const std::string& name, const char* category, const char* line, double start,
                               double seconds, const std::string& arguments) {
  return R"({"name":)" + to_json_string(name) + R"(,"cat":")" + category + R"(","ph":"X","pid":1,"tid":")" +
         line + R"(","ts":)" + json_number(start * 1e6) + R"(,"dur":)" + json_number(seconds * 1e6) +
         R"(,"args":{)" + arguments + "}}";
}

inline std::string pass_argument(bool backward) {
  return backward ? R"("pass":"backward")" : R"("pass":"forward")";
}

}  // namespace detail

// Returns {"displayTimeUnit":"ms","traceEvents":[ ... ]} with an event for
//
//   each scope but the root    name: its path; category "scope", line "program", no arguments
//   each op                    its name; category "op", line "program", the host's times; arguments "flops",
//                              "bytes", "inputs" (the shapes, "[2, 3] []"), "module" (the path of its scope)
//                              and "pass" ("forward" or "backward")
//   each op on a GPU           also: category "kernel", line "gpu", the device's times, the same arguments
//   each span of a scope       its path; category "scope", line "gpu", the span's times, argument "pass"
//
// in the order of the profile, with the two events of an op together, and device_spans(profile) last. Names
// are escaped by to_json_string; times are microseconds.
inline std::string chrome_trace(const Profile& profile) {
  std::string out = R"({"displayTimeUnit":"ms","traceEvents":[)";
  const char* separator = "\n";
  const auto add = [&](const std::string& event) {
    out += separator + event;
    separator = ",\n";
  };
  for (size_t i = 1; i < profile.scopes.size(); ++i) {
    const ScopeRecord& scope = profile.scopes[i];
    add(detail::trace_event(scope.path, "scope", "program", scope.start, scope.seconds, ""));
  }
  for (const OpRecord& op : profile.ops) {
    std::string shapes;
    for (const Shape& shape : op.inputs) shapes += (shapes.empty() ? "" : " ") + shape.str();
    const std::string arguments = R"("flops":)" + detail::json_number(op.cost.flops) + R"(,"bytes":)" +
                                  detail::json_number(op.cost.bytes) + R"(,"inputs":)" +
                                  to_json_string(shapes) + R"(,"module":)" +
                                  to_json_string(profile.scopes[static_cast<size_t>(op.scope)].path) + "," +
                                  detail::pass_argument(op.backward);
    add(detail::trace_event(op.name, "op", "program", op.start, op.seconds, arguments));
    if (op.device.is_cuda())
      add(detail::trace_event(op.name, "kernel", "gpu", op.device_start, op.device_seconds, arguments));
  }
  for (const DeviceSpan& span : device_spans(profile))
    add(detail::trace_event(profile.scopes[static_cast<size_t>(span.scope)].path, "scope", "gpu", span.start,
                            span.seconds, detail::pass_argument(span.backward)));
  return out + "\n]}\n";
}

// The file is written under a temporary name and then renamed.
inline void save_chrome_trace(const Profile& profile, const std::string& path, TT_LOC) {
  write_file(path, chrome_trace(profile), loc);
}

}  // namespace tinytorch::inline TT_BUILD::profiling
