// The worker alone, which answers for a model: what the judge compiles on a submission's headers (stage.hpp).
//
//   PROGRAM worker FOLDER
#include <tinymlperf/judge/workers/training_worker.hpp>

int main(int argc, char** argv) { return argc == 3 ? tinymlperf::judge::serve_worker(argv[2]) : 2; }
