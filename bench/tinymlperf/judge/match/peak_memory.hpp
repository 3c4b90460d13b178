// The most memory that an entry of tier T0 keeps alive while it answers one sample: weights, input and
// activations.
//
// This library runs such an entry, so its allocator counts, in a session that is not timed. For a plugin (T2)
// only the system can tell, and only if it has control groups (sandbox/cgroup.hpp).
#pragma once

#include <tinymlperf/benchmarks/benchmark.hpp>
#include <tinymlperf/judge/match/stage.hpp>

namespace tinymlperf::judge {

// Measures the peak memory of an entry in bytes. Throws channel::Broken if the entry cannot answer.
inline int64_t peak_bytes_of(const Stage& stage, const Benchmark& benchmark) {
  const auto session = stage.start(120, {"--memory"});
  session->prepare(benchmark.id(), 30);
  const std::vector<int64_t> first{0};
  int64_t bytes = 0;
  for (uint64_t id = 1; id <= 2; ++id) {  // allocations that the first question alone makes are not counted
    session->ask(id, benchmark.inputs(first));
    bytes = channel::parse_tensors(session->next(30).frame.payload).at(1).values<int64_t>()[0];
  }
  session->finish(5);
  return bytes;
}

}  // namespace tinymlperf::judge
