// The cases of bench_cuda with 8-bit codes: rows that are quantized, and products of codes.
#pragma once

#include <algorithm>
#include <array>
#include <cuda_case.hpp>

namespace bench {

class CodesCases {
 public:
  explicit CodesCases(int64_t shrink) : shrink_(shrink) {
    quantize();
    for (const int64_t side : {4096, 8192}) {
      product("int8_mm", {side, side, side}, "", 0, {"eager"});
      for (const auto& [path, name] : kPaths)
        product("int8_mm_paths", {side, side, side}, std::string(", ") + name, path, {});
      linear({side, side, side}, "int8_linear", "", 0, {"eager", "compile"});
      linear({side, side, side}, "int8_linear_paths", ", cuBLASLt", kBlas, {});
    }
    linear({8192, 768, 3072}, "int8_linear_shapes", "", 0, {"eager", "compile"});
    linear({8192, 4096, 16384}, "int8_linear_shapes", "", 0, {"eager", "compile"});
    few_rows();
    for (const int64_t side : {4096, 8192}) {
      for (const bool of_rows : {false, true}) fp8({side, side, side}, of_rows);
    }
  }
  std::vector<CudaCase> cases;

 private:
  using Sides = std::array<int64_t, 3>;  // M, K, N: x [M, K], weight [N, K]
  static constexpr int64_t kBlas = 4;    // backend::cuda::Int8Path
  static constexpr std::pair<int64_t, const char*> kPaths[] = {
      {1, "tiles"}, {3, "warpgroups"}, {kBlas, "cuBLASLt"}};

  int64_t smaller(int64_t n) const { return std::max<int64_t>(std::min<int64_t>(n, 8), n / shrink_); }
  static std::string text(const Sides& s) {
    return std::to_string(s[0]) + "x" + std::to_string(s[1]) + "x" + std::to_string(s[2]);
  }

  void quantize() {
    struct Rows {
      int64_t rows, cols;
      tt::DType dtype;
      bool fp8;
    };
    constexpr Rows kRows[] = {
        {16384, 4096, tt::bf16, false},   {16384, 4096, tt::bf16, true},    {65536, 1024, tt::bf16, false},
        {4096, 16384, tt::bf16, false},   {2048, 50'304, tt::bf16, false},  {4096, 16384, tt::bf16, true},
        {16384, 4096, tt::f32, false},    {16384, 4096, tt::f16, true},     {12'345, 5003, tt::bf16, false},
        {1'000'000, 33, tt::bf16, false}, {31, 1'000'003, tt::bf16, false}, {8192, 768, tt::bf16, false}};
    for (const Rows& r : kRows) {
      const bool plain = r.dtype == tt::bf16 && r.cols % 64 == 0;
      CudaCase c{.name = "quantize_rows " + std::to_string(r.rows) + "x" + std::to_string(r.cols) + " " +
                         name_of(r.dtype) + " to " + (r.fp8 ? "fp8" : "i8"),
                 .group = plain ? "quantize_rows" : "quantize_rows_shapes",
                 .op = "quantize_rows",
                 .dtype = r.dtype};
      c.shape = {smaller(r.rows), r.cols}, c.options = {{"fp8", r.fp8}}, c.peers = {"compile"};
      const auto n = static_cast<double>(c.shape[0] * r.cols),
                 size = static_cast<double>(tt::size_of(r.dtype));
      c.tensor_bytes = size * n, c.bytes = (size + 1) * n + 4 * static_cast<double>(c.shape[0]);
      cases.push_back(std::move(c));
    }
  }

  CudaCase sized(const std::string& name, const std::string& group, const std::string& op, const Sides& sides,
                 double x_bytes, double result_bytes) const {
    CudaCase c{.name = name, .group = group, .op = op, .dtype = tt::bf16};
    c.shape = {smaller(sides[0]), smaller(sides[1]), smaller(sides[2])};
    const auto M = static_cast<double>(c.shape[0]), K = static_cast<double>(c.shape[1]),
               N = static_cast<double>(c.shape[2]);
    c.bytes = x_bytes * M * K + N * K + result_bytes * M * N, c.flops = 2 * M * N * K;
    c.tensor_bytes = std::max({x_bytes * M * K, N * K, result_bytes * M * N});
    return c;
  }
  void product(const std::string& group, const Sides& sides, const std::string& what, int64_t path,
               std::vector<std::string> peers) {
    CudaCase c = sized("int8 product " + text(sides) + what, group, "codes_product", sides, 1, 4);
    c.options = {{"fp8", 0}, {"of_rows", 1}, {"path", path}}, c.peers = std::move(peers);
    cases.push_back(std::move(c));
  }
  void linear(const Sides& sides, const std::string& group, const std::string& what, int64_t path,
              std::vector<std::string> peers) {
    CudaCase c = sized("int8 linear " + text(sides) + what, group, "int8_linear", sides, 2, 2);
    c.options = {{"path", path}}, c.peers = std::move(peers);
    cases.push_back(std::move(c));
  }
  // Few rows: torch._int_mm refuses less than 17.
  void few_rows() {
    for (const int64_t M : {1, 4, 16}) product("int8_rows", {M, 8192, 8192}, "", 0, {"bf16"});
    for (const int64_t M : {32, 128, 1024}) product("int8_rows", {M, 8192, 8192}, "", 0, {"eager", "bf16"});
  }
  void fp8(const Sides& sides, bool of_rows) {
    CudaCase c = sized("fp8 product " + text(sides) + (of_rows ? ", scales of rows" : ", scales of tensors"),
                       of_rows ? "fp8_rows" : "fp8_tensor", "codes_product", sides, 1, 2);
    c.options = {{"fp8", 1}, {"of_rows", of_rows}, {"path", 0}}, c.peers = {"eager"};
    cases.push_back(std::move(c));
  }
  int64_t shrink_;
};

inline std::vector<CudaCase> codes_cases(int64_t shrink) { return CodesCases(shrink).cases; }

}  // namespace bench
