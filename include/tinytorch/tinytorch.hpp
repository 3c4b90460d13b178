// tinytorch: tensors, kernels and automatic differentiation in headers small enough to read.
//
//   core/          build switches, errors, dtypes, shapes, devices, memory, random numbers, threads
//   backend/       kernels over plain views of memory, one op family per file, under one stem in cpu/ and
//   cuda/ tensor/        Tensor; functions.hpp lists every operation; ops/ defines them, vjp/ holds their
//   derivatives autograd/      the backward pass, NoGrad, gradcheck io/ data/      files (safetensors, npy,
//   idx ...); generated data sets layers/        modules, optimizers, schedules, data loaders, training
//   transformer/   tokenizers, attention, blocks, GPT-2 and Llama, sampling
//   benchmarking/  statistics of measurements
//   profiling/     where a program's time, work and memory go
// Order: core < backend < tensor < autograd < io < data < layers < ... < profiling. A header includes only
// lower ones.
//
// This header brings tensors and autograd. Take layers, files and the rest by name; tensor/print.hpp needs
// fmt.
#pragma once

#include <tinytorch/autograd/engine.hpp>
#include <tinytorch/autograd/grad_mode.hpp>
#include <tinytorch/tensor/functions.hpp>
#include <tinytorch/tensor/operators.hpp>
#include <tinytorch/tensor/ops.hpp>
