// A test that plays matches is also the worker that the judge starts: `tinymlperf worker FOLDER [--memory]`. The judge
// copies the program that it is itself.
#pragma once

#include <cstdlib>
#include <string>
#include <tinymlperf/judge/training_worker.hpp>

namespace test {

[[gnu::constructor]] inline void start_as_worker(int argc, char** argv) {
  if (argc >= 3 && std::string(argv[1]) == "worker")
    std::_Exit(tinymlperf::judge::serve_worker(argv[2], argc == 4));
}

}  // namespace test
