// A 2:4 sparse matrix as its definition has it: which two of each four numbers stay, and where its strips
// (backend/strips24.hpp) have them.
#pragma once

#include <algorithm>
#include <array>
#include <support/counted.hpp>
#include <tinytorch/backend/strips24.hpp>
#include <utility>

namespace course {

struct Compressed {
  int64_t N, K;
  DType dtype;
  Numbers dense;                // what stays, and zeros
  Numbers values;               // [N, K / 2]
  std::vector<unsigned> words;  // [N, ceil(K / 16)]: the places of four groups, 0 and 1 of groups behind K

  // The two places of each group that stay: the largest magnitudes, NaN above all, of equal ones the first.
  Compressed(const Numbers& from, DType t, int64_t rows, int64_t columns)
      : N(rows),
        K(columns),
        dtype(t),
        dense(from),
        words(static_cast<size_t>(rows * words_of_row()), 0x4444) {
    for (int64_t n = 0; n < N; ++n) {
      for (int64_t g = 0; g < K / 4; ++g) {
        const size_t at = static_cast<size_t>(n * K + g * 4);
        std::array<size_t, 4> order{0, 1, 2, 3};
        std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
          return magnitude(from[at + a]) > magnitude(from[at + b]);
        });
        std::sort(order.begin(), order.begin() + 2);
        for (const size_t place : {order[2], order[3]}) dense[at + place] = 0;
        for (const size_t place : {order[0], order[1]}) values.push_back(from[at + place]);
        unsigned& word = words[static_cast<size_t>(n * words_of_row() + g / 4)];
        const auto shift = static_cast<unsigned>(g % 4 * 4);
        word &= ~(15u << shift);
        word |= static_cast<unsigned>(order[0] | order[1] << 2) << shift;
      }
    }
  }
  int64_t words_of_row() const { return (K + 15) / 16; }

  Numbers place_bytes() const {
    Numbers out;
    for (const unsigned word : words) {
      out.push_back(word & 255u);
      out.push_back(word >> 8);
    }
    return out;
  }
  Values values_on_device() const { return Values::of(dtype, {N, K / 2}, values).on_device(); }
  Values places_on_device() const {
    return Values::of(u8, {N, words_of_row() * 2}, place_bytes()).on_device();
  }

  // The bytes of the strips, for a matrix of 16-bit numbers.
  Numbers strips() const {
    using backend::Strips24;
    const int64_t parts = Strips24::parts(K), bytes = parts * Strips24::kPartBytes;
    Numbers out(static_cast<size_t>(Strips24::count(N) * bytes));
    Values held = Values::of(dtype, {N, K / 2}, values);
    const auto* const bits = held.view().as<const uint16_t>();
    for (int64_t n = 0; n < Strips24::count(N) * 16; ++n) {
      const int64_t line = n % 8, half = n % 16 / 8;
      for (int64_t group = 0; group < parts * 16; ++group) {
        const int64_t in_part = group % 16, part = (n / 16) * bytes + group / 16 * Strips24::kPartBytes;
        const bool exists = n < N && group < K / 4;
        const int64_t t = in_part % 4, pair = in_part / 4 % 2 * 2 + half;
        for (int64_t i = 0; i < 2; ++i) {
          const unsigned number = exists ? bits[n * (K / 2) + group * 2 + i] : 0u;
          const int64_t at = part + in_part / 8 * 512 + (line * 4 + t) * 16 + pair * 4 + i * 2;
          out[static_cast<size_t>(at)] = number & 255u;
          out[static_cast<size_t>(at + 1)] = number >> 8;
        }
        const bool named = n < N && group / 4 < words_of_row();
        const unsigned word = named ? words[static_cast<size_t>(n * words_of_row() + group / 4)] : 0x4444u;
        const int64_t at = part + Strips24::kPlacesAt + (line * 4 + in_part / 4) * 4 + half * 2;
        out[static_cast<size_t>(at)] = word & 255u;
        out[static_cast<size_t>(at + 1)] = word >> 8;
      }
    }
    return out;
  }

 private:
  static std::pair<bool, double> magnitude(double x) {
    return {std::isnan(x), std::isnan(x) ? 0 : std::abs(x)};
  }
};

}  // namespace course
