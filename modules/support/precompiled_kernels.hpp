// Headers that every kernel includes, parsed once for the emulator.
#pragma once

#include <algorithm>
#include <cstring>
#include <tinytorch/backend/cuda/device/collective.cuh>
#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/device/kernel.cuh>
#include <utility>
#include <vector>
