// Umbrella header of quantization/: numbers of fewer bits, and the methods that choose their scales.
//
//   affine.hpp            scale, zero point and codes of one range
//   observers.hpp         the range of activations: min-max, moving average, percentile, MSE, divergence
//   granularity.hpp       scales by tensor, row, group or token; stored bytes and signal-to-noise ratio
//   input_statistics.hpp  sums over the inputs of a layer, for the methods below
//   smooth.hpp            SmoothQuant: outliers of activations move to the weights
//   awq.hpp               AWQ: channels with large inputs get finer weights
//   gptq.hpp              GPTQ: later columns make up for the error of earlier ones (cholesky.hpp)
//   hadamard.hpp          a rotation that spreads outliers over all channels
//   tensor.hpp            QuantizedTensor: weights in packed blocks, and the products that read them
//   linear.hpp model.hpp  a linear layer of packed weights; all those of a model
//   int8_linear.hpp       products of 8-bit codes; a linear layer that quantizes its inputs in each call
//   static_ptq.hpp        layers of 8-bit integers whose scales are all chosen before, by calibration
//   fake_quant.hpp        training with rounded weights: straight-through gradient, learned step size
//
// It includes every header of the folder. A program that includes only the headers it needs compiles faster.
#pragma once

#include <tinytorch/quantization/affine.hpp>
#include <tinytorch/quantization/awq.hpp>
#include <tinytorch/quantization/cholesky.hpp>
#include <tinytorch/quantization/fake_quant.hpp>
#include <tinytorch/quantization/gptq.hpp>
#include <tinytorch/quantization/granularity.hpp>
#include <tinytorch/quantization/hadamard.hpp>
#include <tinytorch/quantization/input_statistics.hpp>
#include <tinytorch/quantization/int8_linear.hpp>
#include <tinytorch/quantization/linear.hpp>
#include <tinytorch/quantization/model.hpp>
#include <tinytorch/quantization/observers.hpp>
#include <tinytorch/quantization/separate_mlp.hpp>
#include <tinytorch/quantization/smooth.hpp>
#include <tinytorch/quantization/static_ptq.hpp>
#include <tinytorch/quantization/tensor.hpp>
