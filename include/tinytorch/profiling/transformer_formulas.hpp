// Closed forms for GPT-2-like transformers: parameters, FLOPs, activation memory. They serve to plan a model
// and to check profiles.
//
// A block is: norm, QKV (C to 3 C), causal attention of H heads, projection (C to C), norm, MLP (C to 4 C to
// C). Each linear layer has a bias; each norm has a weight and a bias. L blocks are between the embeddings of
// V tokens and T positions and a final norm. The head (V logits) shares the token embedding and has no bias.
// Sources: Kaplan et al., "Scaling laws for neural language models", 2020, section 2.1: training takes about
// 6 FLOPs per parameter and token. Korthikanti et al., "Reducing activation recomputation in large
// transformer models", 2022: a layer has T B C (34 + 5 H T / C) bytes of 16-bit activations; the T^2 term is
// the matrix of probabilities, which fused attention does not store.
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

// The number of trained parameters.
inline double parameter_count(const TransformerSize& s) {
  const double C = s.features;  // a block: 12 C^2 weights, 9 C biases, 4 C of the norms
  return s.vocabulary * C + s.context * C + s.layers * (12 * C * C + 13 * C) + 2 * C;
}

// FLOPs of all linear layers and of the head in one forward pass over B sequences of T tokens. A product of
// [M, K] and [K, N] has 2 M K N FLOPs; biases and embeddings are not counted.
inline double product_flops(const TransformerSize& s, double B, double T) {
  return 2 * B * T * (12 * s.layers * s.features * s.features + s.vocabulary * s.features);
}

// FLOPs of the two products of causal attention (queries with keys, probabilities with values) in one forward
// pass, over unmasked pairs only: the query at position t attends to t + 1 keys. The softmax is not counted.
inline double attention_flops(const TransformerSize& s, double B, double T) {
  return 2 * s.layers * B * T * (T + 1) * s.features;
}

// FLOPs of a training step, forward and backward. The backward pass of a linear layer has two products of the
// same size as the forward one. The backward pass of attention recomputes the probabilities: five products,
// against two in the forward pass.
inline double training_flops(const TransformerSize& s, double B, double T) {
  return 3 * product_flops(s, B, T) + 3.5 * attention_flops(s, B, T);
}

// The number of values per token that a block keeps for its backward pass. In the model's dtype: the two sums
// of the residual stream, the outputs of the two norms, queries, keys and values, the outputs of the heads,
// and the values of the MLP's hidden layer, 4 C before its activation and 4 C after it. In f32: one statistic
// per head and two per norm. The outputs of the two branches are part of the sums and are not kept.
struct ActivationsPerToken {
  double values = 0;  // in the model's dtype
  double floats = 0;  // in f32
};
inline ActivationsPerToken block_activations(const TransformerSize& s) {
  return {(2 + 2 + 3 + 1 + 8) * s.features, s.heads + 4};
}

// Bytes of 16-bit activations of one layer by Korthikanti's formula, including the matrix of probabilities.
inline double literature_layer_bytes(const TransformerSize& s, double B, double T) {
  return T * B * s.features * (34 + 5 * s.heads * T / s.features);
}

}  // namespace tinytorch::inline TT_BUILD::profiling
