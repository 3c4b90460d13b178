// The most memory that an entry of tier T0 keeps alive while it answers one sample: weights, input and
// activations.
//
// This library runs such an entry, so its allocator counts, in a session of its own: what is timed does not
// count. Of a plugin (T2) nobody can say it but the system, and that only where it has control groups
// (sandbox/cgroup.hpp).
#pragma once

#include <tinymlperf/benchmarks/benchmark.hpp>
#include <tinymlperf/judge/match/stage.hpp>

namespace tinymlperf::judge {

// Bytes. Throws channel::Broken when the entry cannot answer.
inline int64_t peak_bytes_of(const Stage& stage, const Benchmark& benchmark) {
  const auto session = stage.start(120, {"--memory"});
  session->prepare(benchmark.id(), 30);
  const std::vector<int64_t> first{0};
  int64_t bytes = 0;
  for (uint64_t id = 1; id <= 2; ++id) {  // what is made once, at the first question, is not counted
    session->ask(id, benchmark.inputs(first));
    bytes = channel::parse_tensors(session->next(30).frame.payload).at(1).values<int64_t>()[0];
  }
  session->finish(5);
  return bytes;
}

}  // namespace tinymlperf::judge
