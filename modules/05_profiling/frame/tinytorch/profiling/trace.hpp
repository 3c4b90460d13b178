// Chrome traces: a profile as a timeline, which chrome://tracing and ui.perfetto.dev open.
//
// The frame of a course header: it has the given parts, and includes the functions of task 5.11. It is cut
// from the library's header by modules/frames.py.
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

inline std::string trace_event(const std::string& name, const char* category, const char* line, double start,
                               double seconds, const std::string& arguments);  // task 5.11

inline std::string pass_argument(bool backward) {
  return backward ? R"("pass":"backward")" : R"("pass":"forward")";
}

}  // namespace detail

inline std::string chrome_trace(const Profile& profile);  // task 5.11

// The file is written under a temporary name and then renamed.
inline void save_chrome_trace(const Profile& profile, const std::string& path, TT_LOC) {
  write_file(path, chrome_trace(profile), loc);
}

}  // namespace tinytorch::inline TT_BUILD::profiling

#include <tasks/profiling/trace.hpp>
