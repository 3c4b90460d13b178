// Umbrella header of pruning/: matrices with few numbers, and the methods that choose them.
//
//   sparsity.hpp   a share of the smallest scores, by exact counts
//   magnitude.hpp  masks by magnitude, of a layer or of all together; random masks as a control
//   masks.hpp      masks that an optimizer keeps, so that zeros stay zero
//   schedule.hpp   how much goes when: at once, along a cubic curve, or in rounds with rewind
//
//   nm.hpp         N of each M columns
//   activation_aware.hpp  Wanda: magnitudes times the norms of inputs
//   sparsegpt.hpp  SparseGPT: columns to the right make up for what is removed
//   gradient_scores.hpp  movement and Taylor scores, of weights and of channels
//   nm_training.hpp  training with N of each M columns, straight through the mask
//
//   bitmap.hpp     one bit for each element, and the numbers other than 0
//   csr.hpp        numbers with their columns
//   gaps.hpp       numbers with their distances, in four bits
//   bsr.hpp        dense blocks with their columns (bsr_int8.hpp: of 8-bit codes)
//   two_four.hpp   two of each four numbers (2:4), as tensor cores read them
//   int4_strips.hpp  the same with numbers of 4 bits
//   strips.hpp     2:4 in the order of tensor cores, and linear layers with it
//   sparse_weight.hpp  one of these by its name, and the product that reads it
//   sparse_linear.hpp  a linear layer with such a weight
//   files.hpp      files of models with sparse weights, with formats and a checksum
//   groups.hpp     which channels and heads go together, found by running the model
//   shrink.hpp     structured pruning: they go, and tensors and the optimizer's state become smaller
//   svd.hpp        singular values
//   low_rank.hpp   a weight as a product of two small ones, with the least error of the outputs
//   lora.hpp       adapters: a small sum on frozen weights is trained, and merged into them
//   lora_files.hpp  adapters in the files of PEFT
//   distill.hpp    losses for a small model that learns from a large one
//   report.hpp     zeros and stored bytes of each layer
//   compress.hpp   prune, distill and pack within a budget of bytes, with a report and its ablation
//   crossover.hpp  from which sparsity on a format is faster here, and the choice of a format by it
//
// The rule of the folder: a method counts when stored bytes and measured time fall. A mask alone changes
// neither, and reports say so.
#pragma once

#include <tinytorch/pruning/activation_aware.hpp>
#include <tinytorch/pruning/bitmap.hpp>
#include <tinytorch/pruning/bsr.hpp>
#include <tinytorch/pruning/bsr_int8.hpp>
#include <tinytorch/pruning/compress.hpp>
#include <tinytorch/pruning/crossover.hpp>
#include <tinytorch/pruning/csr.hpp>
#include <tinytorch/pruning/distill.hpp>
#include <tinytorch/pruning/files.hpp>
#include <tinytorch/pruning/gaps.hpp>
#include <tinytorch/pruning/gradient_scores.hpp>
#include <tinytorch/pruning/groups.hpp>
#include <tinytorch/pruning/int4_strips.hpp>
#include <tinytorch/pruning/lora.hpp>
#include <tinytorch/pruning/lora_files.hpp>
#include <tinytorch/pruning/low_rank.hpp>
#include <tinytorch/pruning/magnitude.hpp>
#include <tinytorch/pruning/masks.hpp>
#include <tinytorch/pruning/nm.hpp>
#include <tinytorch/pruning/nm_training.hpp>
#include <tinytorch/pruning/report.hpp>
#include <tinytorch/pruning/schedule.hpp>
#include <tinytorch/pruning/shrink.hpp>
#include <tinytorch/pruning/sparse_linear.hpp>
#include <tinytorch/pruning/sparse_parts.hpp>
#include <tinytorch/pruning/sparse_weight.hpp>
#include <tinytorch/pruning/sparsegpt.hpp>
#include <tinytorch/pruning/sparsity.hpp>
#include <tinytorch/pruning/strips.hpp>
#include <tinytorch/pruning/svd.hpp>
#include <tinytorch/pruning/two_four.hpp>
