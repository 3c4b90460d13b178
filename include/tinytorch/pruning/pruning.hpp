// Umbrella header of pruning/: matrices with few numbers, and the methods that choose them.
//
//   bitmap.hpp     one bit for each element, and the numbers other than 0
//   csr.hpp        numbers with their columns
//   bsr.hpp        dense blocks with their columns
//   two_four.hpp   two of each four numbers (2:4), as tensor cores read them
//   int4_strips.hpp  the same with numbers of 4 bits
//   strips.hpp     2:4 in the order of tensor cores, and linear layers with it
//
// The rule of the folder: a method counts when stored bytes and measured time fall. A mask alone changes
// neither, and reports say so.
#pragma once

#include <tinytorch/pruning/bitmap.hpp>
#include <tinytorch/pruning/bsr.hpp>
#include <tinytorch/pruning/csr.hpp>
#include <tinytorch/pruning/int4_strips.hpp>
#include <tinytorch/pruning/strips.hpp>
#include <tinytorch/pruning/two_four.hpp>
