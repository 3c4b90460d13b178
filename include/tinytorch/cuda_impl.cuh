// Definitions of all CUDA kernels and launchers. Exactly one .cu file of a program includes this file:
//
//   echo '#include <tinytorch/cuda_impl.cuh>' > kernels.cu
//   flags="-std=c++20 -O3 -DNDEBUG --expt-relaxed-constexpr -arch=native -DTINYTORCH_WITH_CUDA=1"
//   nvcc $flags -I include -c kernels.cu
//
// All other files are compiled by any C++20 compiler, with the same -DTINYTORCH_WITH_CUDA=1. With CMake, link
// tinytorch::cuda instead. Without -DNDEBUG, every launch waits for its kernel, to name the kernel that
// fails.
#pragma once

#include <tinytorch/backend/cuda/device/fault.cuh>
#include <tinytorch/backend/cuda/kernels/activation_grad.cuh>
#include <tinytorch/backend/cuda/kernels/attention.cuh>
#include <tinytorch/backend/cuda/kernels/attention_decode.cuh>
#include <tinytorch/backend/cuda/kernels/attention_grad.cuh>
#include <tinytorch/backend/cuda/kernels/batch_norm.cuh>
#include <tinytorch/backend/cuda/kernels/bias_activation.cuh>
#include <tinytorch/backend/cuda/kernels/block_linear.cuh>
#include <tinytorch/backend/cuda/kernels/code_linear.cuh>
#include <tinytorch/backend/cuda/kernels/column_sums.cuh>
#include <tinytorch/backend/cuda/kernels/conv.cuh>
#include <tinytorch/backend/cuda/kernels/difference_loss.cuh>
#include <tinytorch/backend/cuda/kernels/division.cuh>
#include <tinytorch/backend/cuda/kernels/dropout.cuh>
#include <tinytorch/backend/cuda/kernels/elementwise.cuh>
#include <tinytorch/backend/cuda/kernels/embedding.cuh>
#include <tinytorch/backend/cuda/kernels/gemm.cuh>
#include <tinytorch/backend/cuda/kernels/group_norm.cuh>
#include <tinytorch/backend/cuda/kernels/index.cuh>
#include <tinytorch/backend/cuda/kernels/interpolate.cuh>
#include <tinytorch/backend/cuda/kernels/kv_append.cuh>
#include <tinytorch/backend/cuda/kernels/ladder/coalesced.cuh>
#include <tinytorch/backend/cuda/kernels/ladder/pipelined.cuh>
#include <tinytorch/backend/cuda/kernels/ladder/registers.cuh>
#include <tinytorch/backend/cuda/kernels/ladder/shared.cuh>
#include <tinytorch/backend/cuda/kernels/linear_fp8.cuh>
#include <tinytorch/backend/cuda/kernels/linear_int8.cuh>
#include <tinytorch/backend/cuda/kernels/loss.cuh>
#include <tinytorch/backend/cuda/kernels/lstm_cell.cuh>
#include <tinytorch/backend/cuda/kernels/matmul.cuh>
#include <tinytorch/backend/cuda/kernels/norm.cuh>
#include <tinytorch/backend/cuda/kernels/norm_grad.cuh>
#include <tinytorch/backend/cuda/kernels/optimizer.cuh>
#include <tinytorch/backend/cuda/kernels/optimizer_rules.cuh>
#include <tinytorch/backend/cuda/kernels/peak_kernels.cuh>
#include <tinytorch/backend/cuda/kernels/pointwise.cuh>
#include <tinytorch/backend/cuda/kernels/pool.cuh>
#include <tinytorch/backend/cuda/kernels/quantize_rows.cuh>
#include <tinytorch/backend/cuda/kernels/random.cuh>
#include <tinytorch/backend/cuda/kernels/reduce.cuh>
#include <tinytorch/backend/cuda/kernels/residual_norm.cuh>
#include <tinytorch/backend/cuda/kernels/rotate_pairs.cuh>
#include <tinytorch/backend/cuda/kernels/sample_rows.cuh>
#include <tinytorch/backend/cuda/kernels/scan.cuh>
#include <tinytorch/backend/cuda/kernels/softmax.cuh>
#include <tinytorch/backend/cuda/kernels/softmax_grad.cuh>
#include <tinytorch/backend/cuda/kernels/sort.cuh>
#include <tinytorch/backend/cuda/kernels/sparse24.cuh>
#include <tinytorch/backend/cuda/kernels/spmm.cuh>
#include <tinytorch/backend/cuda/kernels/spmv.cuh>
#include <tinytorch/backend/cuda/kernels/spmv_gaps.cuh>
#include <tinytorch/backend/cuda/runtime/runtime.cuh>
