// Copies of whole boxes of a matrix to shared memory by the tensor memory accelerator (cp.async.bulk.tensor,
// compute capability 9.0): one thread starts a copy, and no other thread computes addresses.
//
//   const TensorMap map = make_tensor_map(x, M, K, row_bytes, 256, 64, true);    on the host, once per launch
//   copy_box(shared, map, k, m, full, at);     by one thread: rows m to m + 255, columns k to k + 63
//
// Devices with warpgroups have these copies (has_warpgroups()). What lies outside of the matrix becomes
// zeros. With `swizzled`, a row of a box is 128 bytes, and its 16-byte piece p is at place p ^ (row % 8), as
// warpgroup.cuh reads it; else rows follow each other without gaps.
//
// Source: NVIDIA, "PTX ISA", cp.async.bulk.tensor; "CUDA driver API", cuTensorMapEncodeTiled.
#pragma once

#if !TINYTORCH_CUDA_SIM
#include <cuda.h>
#endif
#include <tinytorch/backend/cuda/device/stage_barrier.cuh>
#include <tinytorch/backend/cuda/device/warpgroup.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// A matrix and the size of the boxes that are copied from it: a parameter of a kernel, const
// __grid_constant__.
#if TINYTORCH_CUDA_SIM
struct TensorMap {
  const unsigned char* data;
  int64_t rows, row_bytes, bytes;  // bytes: of a row, up to the last column
  int box_rows, box_bytes, element_bytes;
  bool swizzled;
};
#else
struct TensorMap {
  CUtensorMap native;
};

using EncodeTensorMap = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                                     const cuuint64_t*, const cuuint32_t*, const cuuint32_t*,
                                     CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                                     CUtensorMapFloatOOBfill);
// cuTensorMapEncodeTiled, which is asked from the driver, so that programs do not link with it.
inline EncodeTensorMap encode_tensor_map() {
  static const EncodeTensorMap found = [] {
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult result{};
#if CUDART_VERSION >= 12050
    check(
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &result),
        "asking the driver for cuTensorMapEncodeTiled");
#else
    check(cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &entry, cudaEnableDefault, &result),
          "asking the driver for cuTensorMapEncodeTiled");
#endif
    if (!entry) fail("TT-CUDA-04", "the driver has no cuTensorMapEncodeTiled\n  hint: update the driver");
    return reinterpret_cast<EncodeTensorMap>(entry);
  }();
  return found;
}
#endif

// data: rows x columns elements of 1 or 2 bytes; it and row_bytes are multiples of 16 bytes. A box has at
// most 256 rows and columns, and its rows are multiples of 16 bytes, of 128 bytes if swizzled.
template <class T>
TensorMap make_tensor_map(const T* data, int64_t rows, int64_t columns, int64_t row_bytes, int box_rows,
                          int box_columns, bool swizzled) {
  static_assert(sizeof(T) == 1 || sizeof(T) == 2);
  constexpr int kBytes = static_cast<int>(sizeof(T));
#if TINYTORCH_CUDA_SIM
  // These are the conditions of cuTensorMapEncodeTiled.
  if (rows <= 0 || columns <= 0 || reinterpret_cast<uintptr_t>(data) % 16 != 0 || row_bytes % 16 != 0 ||
      row_bytes < columns * kBytes || box_rows > 256 || box_columns > 256 || box_columns * kBytes % 16 != 0 ||
      (swizzled && box_columns * kBytes != 128))
    fail("TT-CUDA-03", "a tensor map of " + std::to_string(rows) + " x " + std::to_string(columns) +
                           " elements has addresses, strides or boxes that the device does not take");
  return {reinterpret_cast<const unsigned char*>(data),
          rows,
          row_bytes,
          columns * kBytes,
          box_rows,
          box_columns * kBytes,
          kBytes,
          swizzled};
#else
  TensorMap map;
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)},
                   strides[] = {static_cast<cuuint64_t>(row_bytes)};
  const cuuint32_t box[] = {static_cast<cuuint32_t>(box_columns), static_cast<cuuint32_t>(box_rows)},
                   steps[] = {1, 1};
  const CUresult made = encode_tensor_map()(
      &map.native, kBytes == 1 ? CU_TENSOR_MAP_DATA_TYPE_UINT8 : CU_TENSOR_MAP_DATA_TYPE_UINT16, 2,
      const_cast<void*>(static_cast<const void*>(data)), sizes, strides, box, steps,
      CU_TENSOR_MAP_INTERLEAVE_NONE, swizzled ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (made != CUDA_SUCCESS) {
    fail("TT-CUDA-03", "encoding a tensor map of " + std::to_string(rows) + " x " + std::to_string(columns) +
                           " failed with error " + std::to_string(static_cast<int>(made)) +
                           "\n  hint: this is a fault of the library; please report it");
  }
  return map;
#endif
}

#if TINYTORCH_CUDA_SIM
// The emulator copies at once.
inline void copy_box(unsigned shared, const TensorMap& map, int column, int row, const StageBarriers& full,
                     RingPlace at) {
  constexpr int kPiece = 16;
  const int64_t from = int64_t{column} * map.element_bytes;
  for (int r = 0; r < map.box_rows; ++r) {
    for (int b = 0; b < map.box_bytes; b += kPiece) {
      uint4 piece{};
      const int64_t left = row + r < map.rows ? map.bytes - from - b : 0;
      const unsigned char* const source = map.data + (row + r) * map.row_bytes + from + b;
      if (left >= kPiece) {
        piece = *reinterpret_cast<const uint4*>(source);
      } else {
        for (int64_t i = 0; i < left; ++i) reinterpret_cast<unsigned char*>(&piece)[i] = source[i];
      }
      const unsigned to = shared + static_cast<unsigned>(r * map.box_bytes + b);
      *reinterpret_cast<uint4*>(shared_pointer(map.swizzled ? sim::swizzled(to) : to)) = piece;
    }
  }
  sim::take_bytes(full.state(at.place), static_cast<unsigned>(map.box_rows * map.box_bytes));
}
template <int kBlocks>
void copy_box_to_cluster(unsigned shared, const TensorMap& map, int column, int row,
                         const StageBarriers& full, RingPlace at) {
  static_assert(kBlocks == 1, "in the emulator a cluster is one block");
  copy_box(shared, map, column, row, full, at);
}
#else
// Starts the copy of a box to `shared`, a multiple of 128 bytes, or of 1024 if it is swizzled. full.expect()
// was called for its bytes.
__device__ __forceinline__ void copy_box([[maybe_unused]] unsigned shared,
                                         [[maybe_unused]] const TensorMap& map, [[maybe_unused]] int column,
                                         [[maybe_unused]] int row, [[maybe_unused]] const StageBarriers& full,
                                         [[maybe_unused]] RingPlace at) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], "
      "[%4];" ::"r"(shared),
      "l"(&map.native), "r"(column), "r"(row), "r"(full.address(at.place))
      : "memory");
#endif
}
// Starts one copy that arrives at the same place in all kBlocks blocks of the cluster, each of which has
// announced the bytes.
template <int kBlocks>
__device__ __forceinline__ void copy_box_to_cluster([[maybe_unused]] unsigned shared,
                                                    [[maybe_unused]] const TensorMap& map,
                                                    [[maybe_unused]] int column, [[maybe_unused]] int row,
                                                    const StageBarriers& full, RingPlace at) {
  if constexpr (kBlocks == 1) return copy_box(shared, map, column, row, full, at);
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(shared),
      "l"(&map.native), "r"(column), "r"(row), "r"(full.address(at.place)),
      "h"(static_cast<unsigned short>((1u << kBlocks) - 1u))
      : "memory");
#endif
}
#endif

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
