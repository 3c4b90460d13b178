// The baseline of the benchmark `krn`: the library's kernels.
#include "library_kernels.hpp"

int main() { return tinymlperf::serve_kernels(tinymlperf::library::kernels()); }
