// tinytorch: tensors, kernels and automatic differentiation in headers small enough to read.
//
//   core/          build switches, errors, dtypes, shapes, devices, memory, random numbers, threads
//   backend/       kernels on plain views of memory; cpu/ and cuda/ use the same file name for a family
//   tensor/        Tensor; functions.hpp lists every operation, ops/ defines them, vjp/ has the derivatives
//   autograd/      the backward pass, grad() and derivatives of derivatives, NoGrad, gradcheck
//   io/ data/      files (safetensors, npy, idx, ...); generated data sets
//   layers/        modules, optimizers, schedules, data loaders, training
//   vision/        ResNets and vision transformers
//   transformer/   tokenizers, attention, blocks, GPT-2 and Llama, sampling
//   benchmarking/ profiling/   statistics of measurements; time, work and memory of a program
// A header includes only headers of its own folder and of folders above it in this list. This header includes
// tensors and autograd; include the rest by name. io/print.hpp needs fmt.
#pragma once

#include <tinytorch/autograd/engine.hpp>
#include <tinytorch/autograd/grad.hpp>
#include <tinytorch/autograd/grad_mode.hpp>
#include <tinytorch/tensor/functions.hpp>
#include <tinytorch/tensor/operators.hpp>
#include <tinytorch/tensor/ops.hpp>
