// BlockFormat: how a row of numbers is stored in few bits. A row of K numbers is K / block blocks of `bytes`
// bytes, and a block holds everything that decodes it: its scale, perhaps an offset, and the codes.
//
// A format is one value of this type, made from a struct of its own by block_format<F>()
// (backend/cpu/blocks/block_rows.hpp). The library's formats are listed in backend/cpu/block_linear.hpp,
// and a program may add its own (examples/own_format.cpp). Formats of one byte a number, whose scales are
// beside the codes, are listed in backend/cpu/code_linear.hpp.
#pragma once

#include <cstdint>
#include <tinytorch/core/config.hpp>

namespace tinytorch::inline TT_BUILD {

namespace backend::cpu {
struct BlockOperands;
}

// The activations of a product with packed weights. `int8` rounds them to 8 bits if the format has a kernel
// for that: in groups of 32 for blocks, by rows for codes with scales beside them. `floats` takes them as
// they are.
enum class Activations : uint8_t { int8, floats };

// The place of the scales: in the blocks, or beside the codes as f32, with one scale for each row or one for
// the tensor.
enum class Scales : uint8_t { in_blocks, of_rows, of_tensor };
// The codes of formats whose scales are beside them: integers, or the fp8 numbers of backend/kv_format.hpp
// and backend/float8_e5m2.hpp.
enum class CodeType : uint8_t { none, int8, fp8_e4m3, fp8_e5m2 };

namespace backend {
// Terms up to which a sum of products of two 8-bit integers fits 32 bits; longer rows keep float activations.
inline constexpr int64_t kExactInt8Terms = 131071;
}  // namespace backend

struct BlockFormat {
  const char* name;   // "Q8_0", as in GGUF files
  int32_t gguf_type;  // the number of the type in GGUF files; -1 if they do not have it
  int64_t block;      // numbers of a block
  int64_t bytes;      // bytes of a block

  // `blocks` blocks of numbers to bytes, and back. The numbers are finite.
  void (*pack)(const float* x, int64_t blocks, uint8_t* out);
  void (*unpack)(const uint8_t* in, int64_t blocks, float* x);
  // Products of all rows with rows of activations (backend/cpu/block_linear.hpp): with float activations, and
  // with those of 8 bits. The second is null if the format has no kernel of its own for them.
  void (*product)(const backend::cpu::BlockOperands& operands);
  void (*product_int8)(const backend::cpu::BlockOperands& operands);

  // With scales beside the codes, a number is scale (code - zero_point); `block` and `bytes` are 1, and the
  // functions above convert codes as if the scale were 1.
  Scales scales = Scales::in_blocks;
  CodeType codes = CodeType::none;
  bool zero_points = false;  // i32, as many as scales
  // The byte of a block at which it has an f16 number that is no scale, such as the sum of Q8_1; -1 if it has
  // none. Like a scale it must be finite, but the numbers that unpack() returns do not show it.
  int64_t unused_half = -1;

  constexpr int64_t row_bytes(int64_t K) const { return K / block * bytes; }  // K is a multiple of block
  constexpr double bits_per_weight() const {
    return 8.0 * static_cast<double>(bytes) / static_cast<double>(block);
  }
};

}  // namespace tinytorch::inline TT_BUILD
