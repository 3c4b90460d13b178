// Closed forms for decoder-only transformers of the GPT-2 kind: parameters, FLOPs, memory of activations. To
// plan with before there is a model, and to check a profile by.
//
// A block: norm, queries, keys and values (C to 3 C), causal attention of H heads, projection (C to C), norm,
// a network of one hidden layer (C to 4 C to C); each linear layer with a bias, each norm with weight and
// bias. L of them stand between the embeddings of V tokens and of T positions and a last norm; the head,
// which makes V logits, shares the tokens' embedding and has no bias. Training takes about 6 FLOPs per
// parameter and token (Kaplan et al., "Scaling laws for neural language models", 2020, section 2.1).
// Korthikanti et al., "Reducing activation recomputation in large transformer models", 2022, count the memory
// of a layer's activations as T B C (34 + 5 H T / C) bytes in 16 bits; the term in T^2 is the matrix of
// probabilities, which an attention that is one op does not keep.
#pragma once

#include <cstdint>

namespace tinytorch::inline TT_BUILD::profiling {

struct TransformerSize {
  double vocabulary = 0;  // V
  double context = 0;     // positions that have a row of their own
  double features = 0;    // C
  double layers = 0;      // L
  double heads = 1;       // H
};

// Numbers that are learned, all of them.
inline double parameter_count(const TransformerSize& s) {
  const double C = s.features;  // a block: 12 C^2 weights, 9 C biases, 4 C of the norms
  return s.vocabulary * C + s.context * C + s.layers * (12 * C * C + 13 * C) + 2 * C;
}

// FLOPs of the linear layers, the head's among them, in one forward pass over B sequences of T tokens. A
// product of [M, K] and [K, N] has 2 M K N; biases and embeddings count for nothing here.
inline double product_flops(const TransformerSize& s, double B, double T) {
  return 2 * B * T * (12 * s.layers * s.features * s.features + s.vocabulary * s.features);
}

// FLOPs of causal attention's two products in one forward pass, queries with keys and probabilities with
// values, over the pairs that see each other alone: the query at position t sees t + 1 keys. Softmax does not
// count.
inline double attention_flops(const TransformerSize& s, double B, double T) {
  return 2 * s.layers * B * T * (T + 1) * s.features;
}

// FLOPs of a training step, forward and backward. The backward pass of a linear layer is two products like
// the forward one; attention's forms its probabilities again, five products where the forward pass has two.
inline double training_flops(const TransformerSize& s, double B, double T) {
  return 3 * product_flops(s, B, T) + 3.5 * attention_flops(s, B, T);
}

// Numbers that a block keeps for its backward pass, for each token: the two sums of the residual stream, what
// the two normalizations made of them, queries, keys and values, the heads' results, and of the network its 4
// C numbers z before the activation and h = f(z) after it, in the model's dtype; then one statistic of each
// head and two of each normalization, always in f32. The two branches' ends are in the sums already, and not
// kept.
struct ActivationsPerToken {
  double values = 0;  // in the model's dtype
  double floats = 0;  // in f32
};
inline ActivationsPerToken block_activations(const TransformerSize& s) {
  return {(2 + 2 + 3 + 1 + 8) * s.features, s.heads + 4};
}

// Bytes of Korthikanti's formula for one layer of 16-bit activations, with the matrix of probabilities.
inline double literature_layer_bytes(const TransformerSize& s, double B, double T) {
  return T * B * s.features * (34 + 5 * s.heads * T / s.features);
}

}  // namespace tinytorch::inline TT_BUILD::profiling
