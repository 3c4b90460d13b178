// sum_to: the derivative of broadcasting.
//
// The frame of a course header: it has the given parts, and includes the functions of task 2.2. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR) || defined(TINYTORCH_TASK)

#include <tasks/tensor/vjp/sum_to.hpp>
#endif
