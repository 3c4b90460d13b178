// Closed forms for GPT-2-like transformers: parameters, FLOPs, activation memory. They serve to plan a model
// and to check profiles.
//
// The frame of a course header: it has the given parts, and includes the functions of task 5.8. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <cstdint>

namespace tinytorch::inline TT_BUILD::profiling {

struct TransformerSize {
  double vocabulary = 0;  // V
  double context = 0;     // number of learned positions
  double features = 0;    // C
  double layers = 0;      // L
  double heads = 1;       // H
};

inline double parameter_count(const TransformerSize& s);                      // task 5.8
inline double product_flops(const TransformerSize& s, double B, double T);    // task 5.8
inline double attention_flops(const TransformerSize& s, double B, double T);  // task 5.8
inline double training_flops(const TransformerSize& s, double B, double T);   // task 5.8

// The number of values per token that a block keeps for its backward pass. In the model's dtype: the two sums
// of the residual stream, the outputs of the two norms, queries, keys and values, the outputs of the heads,
// and the values of the MLP's hidden layer, 4 C before its activation and 4 C after it. In f32: one statistic
// per head and two per norm. The outputs of the two branches are part of the sums and are not kept.
struct ActivationsPerToken {
  double values = 0;  // in the model's dtype
  double floats = 0;  // in f32
};
inline ActivationsPerToken block_activations(const TransformerSize& s);  // task 5.8

// Bytes of 16-bit activations of one layer by Korthikanti's formula, including the matrix of probabilities.
inline double literature_layer_bytes(const TransformerSize& s, double B, double T) {
  return T * B * s.features * (34 + 5 * s.heads * T / s.features);
}

}  // namespace tinytorch::inline TT_BUILD::profiling

#include <tasks/profiling/transformer_formulas.hpp>
