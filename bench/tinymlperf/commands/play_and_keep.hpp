// A match between models or trainings that is played, written as run.json, and shown.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <tinymlperf/commands/exit_status.hpp>
#include <tinymlperf/commands/keep_run.hpp>
#include <tinymlperf/commands/measured.hpp>
#include <tinymlperf/judge/match/play.hpp>
#include <tinymlperf/judge/results/match_table.hpp>
#include <tinymlperf/support/output_folder.hpp>

namespace tinymlperf::detail {

inline std::string text_of(const judge::RunDocument& d) {
  std::string out = judge::match_text(d);
  for (const judge::ContenderRecord& c : d.contenders) {
    if (!c.replaced.empty()) out += replaced_text(c.name, c.replaced) + "\n";
    if (c.compiled) out += one_line(c.name, 60) + ": its forward pass is compiled\n";
  }
  if (const std::string load = other_load_text(d.machine); !load.empty()) out += load + "\n";
  return out;
}

inline int play_and_keep(const RunOptions& o) {
  try {
    const RunOptions asked = with_students(o);
    const OutputFolder folder(o.out, {"run.json"});
    fmt::print("{}\n", budget_text(asked)), std::fflush(stdout);
    const judge::RunDocument d = measured("a match", [&] { return play(asked); });
    return keep_run(o.out / "run.json", to_json(d), [&] { return text_of(d); });
  } catch (const std::invalid_argument& e) {
    return complain(e.what());
  } catch (const sandbox::Unavailable& e) {
    return complain(e.what());
  }
}

}  // namespace tinymlperf::detail
