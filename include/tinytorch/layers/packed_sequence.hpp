// PackedSequence: sequences of different lengths without padding, as torch.nn.utils.rnn has them.
//
//   auto packed = tt::pack_padded_sequence(x, lengths, {.batch_first = true, .enforce_sorted = false});
//   auto [y, state] = lstm(packed);                                   // y is packed, too
//   auto [padded, same_lengths] = tt::pad_packed_sequence(y, {.batch_first = true});
//
// The data are those of step 0 of all sequences, from the longest to the shortest, then those of step 1 of
// the sequences that have one, and so on. All functions have derivatives. Recurrent layers also take padded
// sequences with their lengths (recurrent.hpp), which needs no packing.
#pragma once

#include <tinytorch/tensor/ops.hpp>
#include <tinytorch/tensor/rules.hpp>
#include <utility>
#include <vector>

namespace tinytorch::inline TT_BUILD {

struct PackedSequence {
  Tensor data;                // [sum of the lengths, ...]
  Tensor batch_sizes;         // i64 [longest length], on the CPU: the number of sequences with each step
  Tensor sorted_indices{};    // i64 [B], on the CPU: the sequence that is at each place of the order
  Tensor unsorted_indices{};  // i64 [B], on the CPU: the place of each sequence in the order
};
struct PackOptions {
  bool batch_first = false;    // x is [B, T, ...], otherwise [T, B, ...]
  bool enforce_sorted = true;  // lengths must not increase (TT-RANGE-02); if false, they are sorted
};
struct PadOptions {
  bool batch_first = false;
  double padding_value = 0;
  int64_t total_length = 0;  // steps of the result, at least the longest length (TT-RANGE-02); 0: that length
};

// x [T, B, ...] with lengths i64 [B], each from 1 to T (TT-RANGE-02).
TT_API PackedSequence pack_padded_sequence(const Tensor& x, const Tensor& lengths,
                                           const PackOptions& options = {}, TT_LOC);
inline PackedSequence pack_padded_sequence(const Tensor& x, const std::vector<int64_t>& lengths,
                                           const PackOptions& options = {}, TT_LOC) {
  return pack_padded_sequence(x, from_data(lengths), options, loc);
}
// The padded sequences [T, B, ...] in their first order, and their lengths i64 [B] on the CPU.
TT_API std::pair<Tensor, Tensor> pad_packed_sequence(const PackedSequence& packed,
                                                     const PadOptions& options = {}, TT_LOC);
// Sequences [T_b, ...] of one dtype and device, whose shapes differ in the first size only (TT-SHAPE-02), as
// one tensor [T, B, ...].
TT_API Tensor pad_sequence(const Tensors& sequences, const PadOptions& options = {}, TT_LOC);
// The sequences of a padded tensor: the inverse of pad_sequence.
TT_API Tensors unpad_sequence(const Tensor& x, const Tensor& lengths, bool batch_first = false, TT_LOC);
TT_API PackedSequence pack_sequence(const Tensors& sequences, bool enforce_sorted = true, TT_LOC);

}  // namespace tinytorch::inline TT_BUILD

#if TT_BODIES(LAYERS)
#include <algorithm>
#include <numeric>
#include <string>

namespace tinytorch::inline TT_BUILD {

// The lengths of B sequences with at most T steps.
inline std::vector<int64_t> sequence_lengths(const char* op, const Tensor& lengths, int64_t T, int64_t B,
                                             Loc loc) {
  require_defined(op, loc, lengths);
  if (lengths.dtype() != DType::i64 || lengths.shape() != Shape{B}) {
    fail("TT-SHAPE-02",
         std::string(op) + ": lengths must be i64 [" + std::to_string(B) + "], got " + lengths.describe(),
         loc);
  }
  const std::vector<int64_t> all = lengths.to(cpu, loc).to_vector<int64_t>();
  for (const int64_t length : all) {
    if (length >= 1 && length <= T) continue;
    fail("TT-RANGE-02",
         std::string(op) + ": lengths must be from 1 to " + std::to_string(T) + ", got " +
             std::to_string(length),
         loc);
  }
  return all;
}
// The rank of x, which needs at least two dimensions, and its first two sizes as steps and sequences.
inline std::pair<int64_t, int64_t> steps_and_sequences(const char* op, const Tensor& x, bool batch_first,
                                                       Loc loc) {
  require_defined(op, loc, x);
  if (x.rank() < 2) {
    fail("TT-SHAPE-04", std::string(op) + ": needs padded sequences [T, B, ...], got " + x.describe(), loc);
  }
  return batch_first ? std::pair(x.size(1), x.size(0)) : std::pair(x.size(0), x.size(1));
}

TT_API PackedSequence pack_padded_sequence(const Tensor& x, const Tensor& lengths, const PackOptions& options,
                                           Loc loc) {
  constexpr const char* kName = "pack_padded_sequence";
  const auto [T, B] = steps_and_sequences(kName, x, options.batch_first, loc);
  const std::vector<int64_t> given = sequence_lengths(kName, lengths, T, B, loc);
  if (B == 0) fail("TT-SHAPE-10", std::string(kName) + ": needs at least one sequence", loc);
  if (options.enforce_sorted && !std::is_sorted(given.rbegin(), given.rend())) {
    fail("TT-RANGE-02",
         std::string(kName) + ": lengths increase\n  hint: pass enforce_sorted = false, which sorts them",
         loc);
  }
  std::vector<int64_t> order(given.size()), place(given.size()), sizes, rows;
  std::iota(order.begin(), order.end(), int64_t{0});
  const auto length_of = [&](int64_t b) { return given[static_cast<size_t>(b)]; };
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return length_of(a) > length_of(b); });
  for (size_t i = 0; i < order.size(); ++i) place[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  for (int64_t t = 0; t < length_of(order[0]); ++t) {
    const size_t before = rows.size();
    for (const int64_t b : order) {
      if (length_of(b) > t) rows.push_back(options.batch_first ? b * T + t : t * B + b);
    }
    sizes.push_back(static_cast<int64_t>(rows.size() - before));
  }
  const Tensor data = index_select(flatten(x, 0, 1, loc), 0, from_data(rows).to(x.device(), loc), loc);
  if (options.enforce_sorted) return {data, from_data(sizes)};
  return {data, from_data(sizes), from_data(order), from_data(place)};
}

TT_API std::pair<Tensor, Tensor> pad_packed_sequence(const PackedSequence& packed, const PadOptions& options,
                                                     Loc loc) {
  constexpr const char* kName = "pad_packed_sequence";
  require_defined(kName, loc, packed.data, packed.batch_sizes);
  const std::vector<int64_t> sizes = packed.batch_sizes.to(cpu, loc).to_vector<int64_t>();
  const auto longest = static_cast<int64_t>(sizes.size());
  const int64_t T = options.total_length > 0 ? options.total_length : longest;
  if (T < longest) {
    fail("TT-RANGE-02",
         std::string(kName) + ": total_length must be at least " + std::to_string(longest) + ", got " +
             std::to_string(T),
         loc);
  }
  const int64_t B = sizes.empty() ? 0 : sizes[0], padding = packed.data.size(0);
  std::vector<int64_t> place(static_cast<size_t>(B));
  std::iota(place.begin(), place.end(), int64_t{0});
  if (packed.unsorted_indices.defined()) place = packed.unsorted_indices.to_vector<int64_t>();
  // The row of the data of each element of the result; the row behind the last one has the padding.
  std::vector<int64_t> rows(static_cast<size_t>(T * B), padding), lengths(place.size());
  int64_t first = 0;
  for (int64_t t = 0; t < longest; ++t) {
    const int64_t count = sizes[static_cast<size_t>(t)];
    for (int64_t b = 0; b < B; ++b) {
      const int64_t at = place[static_cast<size_t>(b)];
      if (at >= count) continue;
      rows[static_cast<size_t>(options.batch_first ? b * T + t : t * B + b)] = first + at;
      ++lengths[static_cast<size_t>(b)];
    }
    first += count;
  }
  Shape shape = packed.data.shape();
  shape[0] = 1;
  const Tensor pad = full(shape, options.padding_value, packed.data.dtype(), packed.data.device(), loc);
  const Tensor all =
      index_select(cat({packed.data, pad}, 0, loc), 0, from_data(rows).to(packed.data.device(), loc), loc);
  Shape result = options.batch_first ? Shape{B, T} : Shape{T, B};
  for (int d = 1; d < shape.size(); ++d) result.push_back(shape[d]);
  return {reshape(all, result, loc), from_data(lengths)};
}

TT_API Tensor pad_sequence(const Tensors& sequences, const PadOptions& options, Loc loc) {
  if (sequences.empty()) fail("TT-SHAPE-10", "pad_sequence: needs at least one sequence", loc);
  int64_t T = options.total_length;
  for (const Tensor& s : sequences) {
    require_defined("pad_sequence", loc, s);
    if (s.rank() < 1) fail("TT-SHAPE-04", "pad_sequence: needs sequences [T, ...], got " + s.describe(), loc);
    T = std::max(T, s.size(0));
  }
  Tensors padded;
  for (const Tensor& s : sequences) {
    Shape rest = s.shape();
    rest[0] = T - s.size(0);
    padded.push_back(cat({s, full(rest, options.padding_value, s.dtype(), s.device(), loc)}, 0, loc));
  }
  return stack(padded, options.batch_first ? 0 : 1, loc);
}

TT_API Tensors unpad_sequence(const Tensor& x, const Tensor& lengths, bool batch_first, Loc loc) {
  const auto [T, B] = steps_and_sequences("unpad_sequence", x, batch_first, loc);
  const std::vector<int64_t> given = sequence_lengths("unpad_sequence", lengths, T, B, loc);
  Tensors sequences;
  for (int64_t b = 0; b < B; ++b) {
    const Tensor one = select(x, batch_first ? 0 : 1, b, loc);
    sequences.push_back(slice(one, 0, 0, given[static_cast<size_t>(b)], 1, loc));
  }
  return sequences;
}

TT_API PackedSequence pack_sequence(const Tensors& sequences, bool enforce_sorted, Loc loc) {
  std::vector<int64_t> lengths;
  for (const Tensor& s : sequences) lengths.push_back(s.rank() > 0 ? s.size(0) : 0);
  return pack_padded_sequence(pad_sequence(sequences, {}, loc), lengths, {.enforce_sorted = enforce_sorted},
                              loc);
}

}  // namespace tinytorch::inline TT_BUILD
#endif
