// The op of `krn` on a 2:4 sparse weight w [n, k], k = 4 g: of each four neighbours in a row two numbers are
// kept, and the others are 0. The op has w in the two forms in which the library stores it, and a kernel
// reads either.
//
//   values   f16 [n, 2 g]: the kept numbers of a row in order
//   places   u8 [n, 2 ceil(g / 4)]: bits 2 (i % 4) and 2 (i % 4) + 1 of byte i / 4 of a row say at
//            which place in its four, 0 to 3, kept number i is; the two places of a four ascend
//   strips   u8 [ceil(n / 16), 1152 ceil(g / 16)]: both in the order in which sparse tensor cores read them,
//            16 rows in a strip, 64 columns in a part of 1152 bytes; bytes_in_strips() says where
//
// Whatever is beyond n or g is zeros at the places 0 and 1.
#pragma once

#include <cstring>
#include <functional>
#include <tinymlperf/ops/oracles.hpp>
#include <tinymlperf/ops/task.hpp>

namespace tinymlperf::judge::kernels {

// The sides {m, g, n} of the op.
struct SparseSides {
  explicit SparseSides(const Shape& s) : m(s[0]), g(s[1]), n(s[2]) {}
  int64_t m, g, n;
  int64_t place_bytes() const { return (g + 3) / 4 * 2; }
  int64_t strips() const { return (n + 15) / 16; }
  int64_t parts() const { return (g + 15) / 16; }
  int64_t strip_bytes() const { return 1152 * parts(); }
};

// The bytes of a strip that have the two numbers of four j of row i, and the 16-bit word with the places of
// fours j - j % 4 to j - j % 4 + 3 of this row, counted from the first strip.
struct StripPlace {
  int64_t pair, word;
};
inline StripPlace bytes_in_strips(const SparseSides& s, int64_t i, int64_t j) {
  const int64_t part = i / 16 * s.strip_bytes() + 1152 * (j / 16), line = i % 8, half = i % 16 / 8;
  return {part + 512 * (j % 16 / 8) + 64 * line + 16 * (j % 4) + 8 * (j % 8 / 4) + 4 * half,
          part + 1024 + 16 * line + 4 * (j % 16 / 4) + 2 * half};
}

namespace oracle {

// The sums of term(product) over the products of x with each row of w: themselves or squared.
template <class Term>
void times_24(In in, int64_t row, Out out, Term term) {
  const std::vector<double> x = row_of_halves(in[0], row);
  const size_t kept = x.size() / 2, bytes = static_cast<size_t>(in[2].shape[1]);
  const uint16_t* value = in[1].values<uint16_t>().data();
  const uint8_t* places = in[2].values<uint8_t>().data();
  for (double& sum : out) {
    sum = 0;
    for (size_t i = 0; i < kept; ++i)
      sum += term(half_value(value[i]) * x[i / 2 * 4 + (places[i / 4] >> i % 4 * 2 & 3u)]);
    value += kept, places += bytes;
  }
}
inline void spmm_24(In in, int64_t row, Out out) { times_24(in, row, out, std::identity()); }
inline void spmm_24_squares(In in, int64_t row, Out out) { times_24(in, row, out, square); }

}  // namespace oracle

namespace detail {

constexpr uint8_t kFirstTwoOfFour = 0x44;  // a byte: two fours with the places 0 and 1

// Any two places of each four, or, if `last`, always 2 and 3.
inline void fill_places(const SparseSides& s, bool last, std::span<uint8_t> places,
                        tinytorch::Generator& random) {
  constexpr std::array<uint8_t, 6> kPairs{0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b1110};
  std::ranges::fill(places, kFirstTwoOfFour);
  for (int64_t i = 0; i < s.n; ++i)
    for (int64_t j = 0; j < s.g; ++j) {
      const uint8_t two = last ? kPairs.back() : kPairs[random.below(kPairs.size())];
      uint8_t& byte = places[static_cast<size_t>(i * s.place_bytes() + j / 2)];
      byte = static_cast<uint8_t>(j % 2 ? (byte & 0x0f) | two << 4 : (byte & 0xf0) | two);
    }
}

inline void fill_strips(const SparseSides& s, std::span<const uint16_t> values,
                        std::span<const uint8_t> places, std::span<uint8_t> strips) {
  std::ranges::fill(strips, uint8_t{0});
  tinytorch::parallel_for(16 * s.strips(), 64, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      for (int64_t j = 0; j < 16 * s.parts(); ++j) {
        const StripPlace at = bytes_in_strips(s, i, j);
        if (i < s.n && j < s.g)
          std::memcpy(&strips[static_cast<size_t>(at.pair)], &values[static_cast<size_t>(2 * (i * s.g + j))],
                      4);
        if (j % 4 != 0) continue;
        std::array<uint8_t, 2> word{kFirstTwoOfFour, kFirstTwoOfFour};
        if (i < s.n && j / 2 < s.place_bytes())
          std::memcpy(word.data(), &places[static_cast<size_t>(i * s.place_bytes() + j / 2)], 2);
        std::memcpy(&strips[static_cast<size_t>(at.word)], word.data(), 2);
      }
  });
}

inline KernelTask spmm_24_task() {
  KernelTask t{
      "spmm_24",
      "x f16 [m, 4 g] times the transpose of a 2:4 sparse w [n, 4 g]: f32 [m, n]. Of each four neighbours "
      "in a row of w two numbers are kept; the others are 0. w comes in two forms, and a kernel reads "
      "either. Values f16 [n, 2 g]: the kept numbers of a row in order. Places u8 [n, 2 ceil(g / 4)]: "
      "kept number i of a row is at the place, 0 to 3, in its four that bits 2 (i % 4) and 2 (i % 4) + 1 "
      "of byte i / 4 say; the two places of a four ascend. Strips u8 [ceil(n / 16), 1152 ceil(g / 16)]: "
      "both in the order of sparse tensor cores. Strip i / 16 has the two numbers of four j of row i at "
      "byte 1152 (j / 16) + 512 (j % 16 / 8) + 64 (i % 8) + 16 (j % 4) + 8 (j % 8 / 4) + 4 (i % 16 / 8), "
      "and the two bytes of the places of fours j to j + 3, j % 4 = 0, at byte 1152 (j / 16) + 1024 + 16 "
      "(i % 8) + 4 (j % 16 / 4) + 2 (i % 16 / 8). Beyond n and g are zeros at places 0 and 1. Sums are in "
      "f32: an error of 2^-13 of the row's largest is right, or, where sums cancel, of twice the largest "
      "root "
      "of a sum of squared products. x and w are finite",
      {{1, 512, 2048}, {8, 256, 1024}, {32, 192, 768}, {128, 128, 512}, {512, 64, 256}},
      {{1, 1024, 4096}, {16, 1024, 4096}, {64, 2048, 4096}, {512, 1024, 4096}, {2048, 512, 2048}},
      {1, 1, 1},
      {130, 45, 130},
      Exact::for_zero_one,
      0,
      {D::zero_one, D::extreme, D::zeros, D::subnormal, D::huge, D::one_hot, D::duplicates},
      [](const Shape& sides) -> Operands {
        const SparseSides s(sides);
        return {{{s.m, 4 * s.g}, Role::data, 0, channel::DType::f16},
                {{s.n, 2 * s.g}, Role::data, 0, channel::DType::f16},
                {{s.n, s.place_bytes()}, Role::arranged, 0, channel::DType::u8},
                {{s.strips(), s.strip_bytes()}, Role::arranged, 0, channel::DType::u8}};
      },
      [](const Shape& s) -> Shape {
        return {s[0], s[2]};
      },
      oracle::spmm_24,
      [](const Shape& s) { return 2 * product(s); }};
  // A tensor core's sums of f32 err by less; sums and results of f16, and numbers of bf16, err by more.
  t.slack = 0x1p-13, t.squares = oracle::spmm_24_squares;
  t.idle_byte = kFirstTwoOfFour;  // zeros would be two numbers at one place, which sparse tensor cores refuse
  t.arrange = [](const Shape& sides, D d, tinytorch::Generator& random, channel::Tensors& in) {
    const SparseSides s(sides);
    fill_places(s, d == D::extreme, in[2].mutable_values<uint8_t>(), random);
    fill_strips(s, in[1].values<uint16_t>(), in[2].values<uint8_t>(), in[3].mutable_values<uint8_t>());
  };
  // A kernel reads one of the two forms; the smaller one is counted.
  t.traffic = [](const Shape& sides) -> Traffic {
    const SparseSides s(sides);
    return {static_cast<double>(8 * s.m * s.g + s.n * (4 * s.g + s.place_bytes())),
            static_cast<double>(4 * s.m * s.n)};
  };
  return t;
}

inline void add_sparse_ops(std::vector<KernelTask>& out) { out.push_back(spmm_24_task()); }

}  // namespace detail
}  // namespace tinymlperf::judge::kernels
