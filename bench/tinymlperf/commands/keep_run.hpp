// Writes a match that was played, then prints it. If it cannot be written, it is printed all the same.
#pragma once

#include <fmt/format.h>

#include <exception>
#include <filesystem>
#include <string>
#include <tinymlperf/commands/exit_status.hpp>
#include <tinymlperf/judge/results/hash_chain.hpp>
#include <tinymlperf/support/json_fields.hpp>
#include <tinymlperf/support/reason.hpp>
#include <tinytorch/io/file.hpp>

namespace tinymlperf::detail {

// `text`() is called after the file was written, so that an error in it loses nothing.
template <class Text>
int keep_run(const std::filesystem::path& file, const Json& document, Text&& text) {
  try {
    tinytorch::write_file(file.string(), document.dump(1) + "\n");
  } catch (const std::exception& e) {
    fmt::print("{}\n", text());
    complain(fmt::format(
        "the match was played, and {} could not be written: {}. The table above is all that is left of "
        "it; make room or choose another --out, and play it again",
        file.string(), reason_of(e.what())));
    return kFailed;
  }
  fmt::print("{}\nwrote {}\n", text(), file.string());
  if (document.contains(judge::kChain))
    fmt::print("seal {} (note it: `verify {} --seal ...` finds every later edit)\n", judge::seal_of(document),
               file.string());
  return kPass;
}

}  // namespace tinymlperf::detail
