// The CUDA toolkit's own occupancy calculator, where that is installed: TINYTORCH_HAS_OCCUPANCY_CALCULATOR
// is 1. The tests of a folder are compiled as one file that begins with all their #include lines, so a
// condition must stand in a header.
#pragma once

#if __has_include(<cuda_occupancy.h>)
#define TINYTORCH_HAS_OCCUPANCY_CALCULATOR 1
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#include <cuda_occupancy.h>
#pragma GCC diagnostic pop
#else
#define TINYTORCH_HAS_OCCUPANCY_CALCULATOR 0
#endif
