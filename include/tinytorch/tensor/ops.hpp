// Definitions of all tensor operations that tensor/functions.hpp declares.
#pragma once

#include <tinytorch/tensor/ops/attention.hpp>
#include <tinytorch/tensor/ops/batch_norm.hpp>
#include <tinytorch/tensor/ops/bias_activation.hpp>
#include <tinytorch/tensor/ops/cached_attention.hpp>
#include <tinytorch/tensor/ops/composed_losses.hpp>
#include <tinytorch/tensor/ops/conv.hpp>
#include <tinytorch/tensor/ops/conv_transpose.hpp>
#include <tinytorch/tensor/ops/creation.hpp>
#include <tinytorch/tensor/ops/dropout.hpp>
#include <tinytorch/tensor/ops/elementwise.hpp>
#include <tinytorch/tensor/ops/embedding.hpp>
#include <tinytorch/tensor/ops/fused_linear.hpp>
#include <tinytorch/tensor/ops/index.hpp>
#include <tinytorch/tensor/ops/interpolate.hpp>
#include <tinytorch/tensor/ops/loss.hpp>
#include <tinytorch/tensor/ops/matmul.hpp>
#include <tinytorch/tensor/ops/members.hpp>
#include <tinytorch/tensor/ops/norm.hpp>
#include <tinytorch/tensor/ops/pool.hpp>
#include <tinytorch/tensor/ops/reduce.hpp>
#include <tinytorch/tensor/ops/residual_norm.hpp>
#include <tinytorch/tensor/ops/shape.hpp>
#include <tinytorch/tensor/ops/softmax.hpp>
#include <tinytorch/tensor/ops/unbind.hpp>
#include <tinytorch/tensor/ops/windows.hpp>
