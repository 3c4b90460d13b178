// Rows of floats as 8-bit codes with one scale per row (contract: backend/cpu/quantize_rows.hpp). Limit:
// memory bandwidth.
//
// The frame of a course header: it has the given parts, and includes the functions of task 7.12.
#pragma once

#include <tinytorch/backend/cuda/device/collective.cuh>
#include <tinytorch/backend/cuda/device/elements.cuh>
#include <tinytorch/backend/cuda/device/float8.cuh>
#include <tinytorch/backend/cuda/launch.hpp>
#include <tinytorch/backend/row_codes.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kCodeThreads = 128;
inline constexpr int kHeldColumns = 8192;  // elements of a row that a block keeps in shared memory

// The operand [rows, K], of any dtype and strides.
struct FloatRows : Stored<float> {
  int64_t row, column, K;
  explicit FloatRows(const View& x)
      : Stored<float>{x.data, x.dtype}, row(x.strides[0]), column(x.strides[1]), K(x.shape[1]) {}
  __device__ __forceinline__ float at(int64_t r, int64_t k) const { return this->read(r * row + k * column); }
};

// The result: codes [rows, K] and a scale for each row.
struct CodeRows {
  uint8_t* codes;
  float* scale;
  bool fp8;
  int64_t K;

  // The scale of a row with this largest magnitude (backend/row_codes.hpp). NaN and infinity give the scale
  // NaN, and codes 0; zeros give the scale 0.
  __device__ __forceinline__ RowScale scale_of(float largest) const {
    return fp8 ? RowScale::of<Float8>(largest) : RowScale::of<int8_t>(largest);
  }
  // Writes the code of x at column k of row r.
  __device__ __forceinline__ void write(int64_t r, int64_t k, float x, const RowScale& by) const {
    const float number = by.number(x);
    codes[r * K + k] = fp8 ? static_cast<uint8_t>(encode_pair<Float8>(number, 0))
                           : static_cast<uint8_t>(static_cast<int8_t>(__float2int_rn(number)));
  }
};

}  // namespace tinytorch::inline TT_BUILD::backend::cuda

#include <tasks/backend/cuda/kernels/quantize_rows.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

void quantize_rows(const View& codes, const View& scale, const View& x) {
  if (codes.dtype != DType::i8 && codes.dtype != DType::u8) {
    fail("TT-DTYPE-02", std::string("quantize_rows: codes of ") + name_of(codes.dtype) +
                            "\n  rule: codes are i8, or u8 for fp8");
  }
  if (x.dtype != DType::f32 && x.dtype != DType::bf16 && x.dtype != DType::f16) {
    fail("TT-DTYPE-02",
         std::string("quantize_rows: x is ") + name_of(x.dtype) + "\n  rule: f32, bf16 or f16");
  }
  const CodeRows to{codes.as<uint8_t>(), scale.as<float>(), codes.dtype == DType::u8, x.shape[1]};
  launch(quantize_row_kernel, {dim3(static_cast<unsigned>(x.shape[0])), dim3(kCodeThreads)}, to,
         FloatRows(x));
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
