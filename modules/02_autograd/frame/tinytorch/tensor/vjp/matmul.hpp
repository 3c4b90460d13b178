// Derivatives of the matrix product.
//
// The frame of a course header: it has the given parts, and includes the functions of task 2.3.
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR) || defined(TINYTORCH_TASK)

#include <tasks/tensor/vjp/matmul.hpp>

#include <tinytorch/tensor/ops/matmul.hpp>
#include <tinytorch/tensor/ops/reduce.hpp>
#include <tinytorch/tensor/ops/shape.hpp>
#endif
