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

namespace detail {

// The seal of a run, or of the last match of a race.
inline std::string seal_of_file(const Json& document) {
  if (is_run(document)) return judge::seal_of(document);
  const Json& matches = document.at("matches");
  return matches.empty() ? "" : judge::seal_of(matches.back());
}

// The first thing that is wrong with a file; empty: nothing.
inline std::string file_complaint(const std::string& text, const Json& document, const std::string& seal) {
  std::string wrong = is_run(document) ? run_complaint(document) : verify_race(document);
  if (wrong.empty() && !is_run(document))
    for (const Json& match : document.at("matches"))
      if (wrong.empty()) wrong = unfounded(match);
  // Otherwise a second key of the same name, or a number in another form, would go unseen.
  if (wrong.empty() && text != document.dump(1) + "\n")
    wrong = "its bytes are not those that the judge writes for these values";
  if (wrong.empty() && !seal.empty() && seal_of_file(document) != seal)
    wrong = "its seal is " + seal_of_file(document) + ", expected " + seal;
  return wrong;
}

}  // namespace detail

// Exit status: 0 they agree, 1 they do not, 2 the file cannot be read. `seal`: as it was noted when the match
// was played; empty: none is demanded.
inline int run_verify_file(const std::filesystem::path& path, std::FILE* out = stdout,
                           const std::string& seal = "") {
  try {
    const std::string text = detail::read_limited(path, int64_t{1} << 30);
    const Json document = detail::parse_json(text, path.filename().string());
    const std::string difference = detail::file_complaint(text, document, seal);
    fmt::print(out, "{}: {}\n", path.string(),
               difference.empty()
                   ? "every result follows from the raw samples; seal " + detail::seal_of_file(document)
                   : difference);
    return difference.empty() ? kPass : kFailed;
  } catch (const std::exception& e) {
    return detail::complain(e.what());
  }
}

}  // namespace tinymlperf
