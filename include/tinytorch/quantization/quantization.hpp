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
//   block_codes.hpp       the codes inside packed blocks: the best clip, and GPTQ into any format
//   linear.hpp            a linear layer of packed weights
//   model.hpp             quantize(model, config): all linear layers of a model, by a method of methods.hpp
//                         (calibration.hpp: its inputs; folding.hpp: which layers take scales over)
//   report.hpp            what became of each layer (report_page.hpp: as a page; sensitivity.hpp: measures)
//   search.hpp            a format for each layer under a budget of bytes
//   int8_linear.hpp       products of 8-bit codes; a linear layer that quantizes its inputs in each call
//   static_ptq.hpp        layers of 8-bit integers whose scales are all chosen before, by calibration
//   files.hpp             files of models with packed weights, with formats and a checksum
//   gguf.hpp              GGUF files of llama.cpp whose weights stay packed
//   int4_import.hpp       weights of 4 bits from files of GPTQ and AWQ
//   int4_model.hpp        whole models from such files
//   fake_quant.hpp        training with rounded weights: straight-through gradient, learned step size
//
// It includes every header of the folder but report_page.hpp, which needs the library fmt. A program that
// includes only the headers it needs compiles faster.
#pragma once

#include <tinytorch/quantization/affine.hpp>
#include <tinytorch/quantization/awq.hpp>
#include <tinytorch/quantization/block_codes.hpp>
#include <tinytorch/quantization/calibration.hpp>
#include <tinytorch/quantization/calibration_scope.hpp>
#include <tinytorch/quantization/cholesky.hpp>
#include <tinytorch/quantization/fake_quant.hpp>
#include <tinytorch/quantization/files.hpp>
#include <tinytorch/quantization/folding.hpp>
#include <tinytorch/quantization/gguf.hpp>
#include <tinytorch/quantization/gptq.hpp>
#include <tinytorch/quantization/granularity.hpp>
#include <tinytorch/quantization/hadamard.hpp>
#include <tinytorch/quantization/input_statistics.hpp>
#include <tinytorch/quantization/int4_import.hpp>
#include <tinytorch/quantization/int4_model.hpp>
#include <tinytorch/quantization/int8_linear.hpp>
#include <tinytorch/quantization/linear.hpp>
#include <tinytorch/quantization/methods.hpp>
#include <tinytorch/quantization/model.hpp>
#include <tinytorch/quantization/observers.hpp>
#include <tinytorch/quantization/report.hpp>
#include <tinytorch/quantization/search.hpp>
#include <tinytorch/quantization/sensitivity.hpp>
#include <tinytorch/quantization/separate_mlp.hpp>
#include <tinytorch/quantization/smooth.hpp>
#include <tinytorch/quantization/static_ptq.hpp>
#include <tinytorch/quantization/tensor.hpp>
