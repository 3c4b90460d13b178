// The vector intrinsics of the processor. Other headers include this one instead of the compiler's.
#pragma once

#if defined(__AVX__) || defined(__AMX_TILE__) || defined(__AMXTILE__)
// The AVX-512 intrinsics of g++ 12 pass a value without initializing it where any value does, so each use
// would give a warning in the file that includes it (GCC bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#pragma GCC diagnostic pop
#elif defined(__SSE2__)
#include <emmintrin.h>  // compiles in a tenth of the time of immintrin.h
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif
