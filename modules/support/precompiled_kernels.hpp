// What every kernel includes, parsed once for the emulator.
#pragma once

#include <algorithm>
#include <cstring>
#include <tinytorch/backend/cuda/collective.cuh>
#include <tinytorch/backend/cuda/dense.cuh>
#include <tinytorch/backend/cuda/kernel.cuh>
#include <utility>
#include <vector>
