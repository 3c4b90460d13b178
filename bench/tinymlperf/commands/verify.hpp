// `tinymlperf verify FILE`: is every derived number of a race.json or run.json what its samples say?
#pragma once

#include <filesystem>
#include <tinymlperf/commands/race.hpp>
#include <tinymlperf/judge/verify_run.hpp>

namespace tinymlperf {

// 0 they agree, 1 they do not, 2 unreadable.
inline int run_verify_file(const std::filesystem::path& path, std::FILE* out = stdout) {
  try {
    const Json document = Json::parse(detail::read_limited(path, int64_t{1} << 30));
    if (!is_run(document)) return run_verify(path);
    const std::string difference = verify_run(document);
    fmt::print(out, "{}: {}\n", path.string(),
               difference.empty() ? "every result follows from the raw samples" : difference);
    return difference.empty() ? kPass : kFailed;
  } catch (const std::exception& e) {
    return detail::complain(e.what());
  }
}

}  // namespace tinymlperf
