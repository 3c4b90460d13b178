// Umbrella header of serving/: which requests compute which tokens in a step, a simulation of it, the engine
// that computes them, and a server of OpenAI's API without its sockets.
//
// It includes every header of the folder. A program that includes only the headers it needs compiles faster.
#pragma once

#include <tinytorch/serving/chat_template.hpp>
#include <tinytorch/serving/engine.hpp>
#include <tinytorch/serving/metrics.hpp>
#include <tinytorch/serving/openai.hpp>
#include <tinytorch/serving/openai_error.hpp>
#include <tinytorch/serving/openai_request.hpp>
#include <tinytorch/serving/openai_response.hpp>
#include <tinytorch/serving/scheduler.hpp>
#include <tinytorch/serving/service.hpp>
#include <tinytorch/serving/simulator.hpp>
