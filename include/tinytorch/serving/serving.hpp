// Umbrella header of serving/: which requests compute which tokens in a step, a simulation of it, and
// the engine that computes them.
//
// It includes every header of the folder. A program that includes only the headers it needs compiles faster.
#pragma once

#include <tinytorch/serving/engine.hpp>
#include <tinytorch/serving/scheduler.hpp>
#include <tinytorch/serving/simulator.hpp>
