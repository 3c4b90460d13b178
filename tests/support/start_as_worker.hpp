// A test that runs matches is also the worker that the judge starts: `tinymlperf worker FOLDER [--memory]`,
// because the judge starts a copy of its own program. In a build with student headers, `worker --headers`
// prints which headers.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <tinymlperf/judge/workers/pack_worker.hpp>
#include <tinymlperf/judge/workers/training_worker.hpp>

namespace test {

[[gnu::constructor]] inline void start_as_worker(int argc, char** argv) {
  if (argc < 3 || std::string(argv[1]) != "worker") return;
  if (std::string(argv[2]) == "--headers") {
    std::puts("tinytorch/tensor/strides.hpp");
    std::fflush(stdout);
    std::_Exit(0);
  }
  // Workers with other options belong to other_works(), for example `worker FOLDER --device`.
  const bool memory = argc == 4 && std::string(argv[3]) == "--memory";
  if (argc == 5 && std::string(argv[3]) == "--replay")
    std::_Exit(tinymlperf::judge::serve_pack_worker(argv[2], argv[4]));
  if (argc == 4 && std::string(argv[3]) == "--repack")
    std::_Exit(tinymlperf::judge::serve_pack_worker(argv[2], ""));
  if (argc == 3 || memory) std::_Exit(tinymlperf::judge::serve_worker(argv[2], memory));
}

}  // namespace test
