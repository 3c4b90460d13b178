// `tinymlperf verify FILE` checks that every derived number of a race.json or run.json follows from its
// samples.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <tinymlperf/commands/exit_status.hpp>
#include <tinymlperf/race/race.hpp>

namespace tinymlperf {

// Exit status: 0 they agree, 1 they do not, 2 the file cannot be read.
inline int run_verify_file(const std::filesystem::path& path, std::FILE* out = stdout) {
  try {
    const Json document =
        detail::parse_json(detail::read_limited(path, int64_t{1} << 30), path.filename().string());
    const std::string difference = is_run(document) ? verify_run(document) : verify_race(document);
    fmt::print(out, "{}: {}\n", path.string(),
               difference.empty() ? "every result follows from the raw samples" : difference);
    return difference.empty() ? kPass : kFailed;
  } catch (const std::exception& e) {
    return detail::complain(e.what());
  }
}

}  // namespace tinymlperf
