// Umbrella header of serving/: which requests compute which tokens in a step, and a simulation of it.
//
// It includes every header of the folder. A program that includes only the headers it needs compiles faster.
#pragma once

#include <tinytorch/serving/scheduler.hpp>
#include <tinytorch/serving/simulator.hpp>
