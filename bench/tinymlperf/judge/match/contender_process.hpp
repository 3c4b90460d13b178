// The process of a contender in a match of turns. It is held while others have their turns, and replaced by a
// fresh one between blocks.
//
// The placement of a program's pages is drawn when it starts, and makes it faster or slower by about one per
// cent for as long as it lives (Mytkowicz et al. 2009, "Producing wrong data without doing anything obviously
// wrong"). The interval of a ratio from one process cannot show this; with several processes it is part of
// the noise that forms the interval.
//
// A contender here is a struct with `record`, `session`, and `start`, which makes a fresh session. Without
// `start` the first process is the only one. `budget` is the time in seconds for which its processes may
// still run.
#pragma once

#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <tinymlperf/channel/session.hpp>
#include <utility>

namespace tinymlperf::judge {

using StartProcess = std::function<std::unique_ptr<channel::Session>()>;

// True if `block` is the first of a process, not counting the match's first one.
inline bool is_fresh_process_due(size_t block, size_t blocks, size_t processes) {
  return block > 0 && block * processes / blocks != (block - 1) * processes / blocks;
}

// Ends the process of a contender, if it has one. A process that has run while it was held puts it out.
template <class Contender>
void end_process(Contender& c) {
  if (!c.session) return;
  const std::unique_ptr<channel::Session> session = std::move(c.session);
  try {
    session->resume();
  } catch (const channel::Broken& awake) {
    if (c.record.out.empty()) c.record.out = awake.what();
  }
  c.budget -= session->running_seconds();
  const sandbox::Outcome& outcome = session->finish(5);
  if (!c.record.out.empty() && !outcome.good()) c.record.out += "; " + outcome.reason;
  if (!outcome.peak_is_bound) c.record.peak_bytes = std::max(c.record.peak_bytes, outcome.peak_bytes);
}

// Runs f for a contender that is still in. Throws nothing: a contender that fails is out, and ended at once,
// so that it does not disturb those that are still in.
template <class Contender, class F>
void attempt(Contender& c, F&& f) {
  if (!c.record.out.empty()) return;
  try {
    f();
  } catch (const std::exception& e) {
    c.record.out = e.what();
    end_process(c);
  }
}

// Ends one process and prepares the next.
template <class Contender, class Prepare>
void replace_process(Contender& c, Prepare&& prepare) {
  if (!c.start) return;
  end_process(c);
  c.session = c.start();
  c.session->allow(c.budget);
  prepare(c);
}

}  // namespace tinymlperf::judge
