// The occupancy calculator of the CUDA toolkit, if it is installed; TINYTORCH_HAS_OCCUPANCY_CALCULATOR is
// then 1. It has its own header, because the tests of a folder are compiled as one file that begins with all
// #include lines.
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
