// The element types of ggml, the library below llama.cpp, as GGUF files number them.
//
// A type stores a row in blocks: `block` elements take `bytes` bytes, with their scales. A plain type, such
// as F32, has blocks of one element. The table has the sizes of all types that files contain, so that every
// file can be checked and listed, also if this library has no code that decodes a type.
//
// Source: ggml.h and ggml-common.h, ggml-org/ggml.
#pragma once

#include <optional>
#include <string_view>
#include <tinytorch/core/dtype.hpp>

namespace tinytorch::inline TT_BUILD {

struct GgmlType {
  uint32_t id;
  const char* name;
  uint32_t block;  // elements
  uint32_t bytes;  // of a block

  constexpr double bits_per_weight() const { return 8.0 * bytes / block; }
  friend constexpr bool operator==(const GgmlType& a, const GgmlType& b) { return a.id == b.id; }
};

// Numbers that are missing belonged to types that ggml has removed.
inline constexpr GgmlType kGgmlTypes[] = {
    {0, "F32", 1, 4},         {1, "F16", 1, 2},         {2, "Q4_0", 32, 18},      {3, "Q4_1", 32, 20},
    {6, "Q5_0", 32, 22},      {7, "Q5_1", 32, 24},      {8, "Q8_0", 32, 34},      {9, "Q8_1", 32, 36},
    {10, "Q2_K", 256, 84},    {11, "Q3_K", 256, 110},   {12, "Q4_K", 256, 144},   {13, "Q5_K", 256, 176},
    {14, "Q6_K", 256, 210},   {15, "Q8_K", 256, 292},   {16, "IQ2_XXS", 256, 66}, {17, "IQ2_XS", 256, 74},
    {18, "IQ3_XXS", 256, 98}, {19, "IQ1_S", 256, 50},   {20, "IQ4_NL", 32, 18},   {21, "IQ3_S", 256, 110},
    {22, "IQ2_S", 256, 82},   {23, "IQ4_XS", 256, 136}, {24, "I8", 1, 1},         {25, "I16", 1, 2},
    {26, "I32", 1, 4},        {27, "I64", 1, 8},        {28, "F64", 1, 8},        {29, "IQ1_M", 256, 56},
    {30, "BF16", 1, 2},       {34, "TQ1_0", 256, 54},   {35, "TQ2_0", 256, 66},   {39, "MXFP4", 32, 17},
    {40, "NVFP4", 64, 36},    {41, "Q1_0", 128, 18}};

// The type with that number or name, or null if there is none.
constexpr const GgmlType* find_ggml_type(uint32_t id) {
  for (const GgmlType& type : kGgmlTypes)
    if (type.id == id) return &type;
  return nullptr;
}
constexpr const GgmlType* find_ggml_type(std::string_view name) {
  for (const GgmlType& type : kGgmlTypes)
    if (name == type.name) return &type;
  return nullptr;
}

// The plain type with the values of `dtype`, or null for u8 and bool, which ggml does not have.
constexpr const GgmlType* ggml_type_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return find_ggml_type("F32");
    case DType::f64:
      return find_ggml_type("F64");
    case DType::bf16:
      return find_ggml_type("BF16");
    case DType::f16:
      return find_ggml_type("F16");
    case DType::i8:
      return find_ggml_type("I8");
    case DType::i32:
      return find_ggml_type("I32");
    case DType::i64:
      return find_ggml_type("I64");
    default:
      return nullptr;
  }
}
// The dtype with the values of a plain type; none for types of blocks, and for I16.
constexpr std::optional<DType> plain_dtype(const GgmlType& type) {
  for (int i = 0; i < kDTypeCount; ++i)
    if (const GgmlType* plain = ggml_type_of(static_cast<DType>(i)); plain && *plain == type)
      return static_cast<DType>(i);
  return std::nullopt;
}

}  // namespace tinytorch::inline TT_BUILD
