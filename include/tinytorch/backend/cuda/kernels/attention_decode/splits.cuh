// The splits of a sequence for attention on tensor cores (attention_decode/paged_tensor.cuh). They depend on
// nothing but the number of its tokens.
//
// The first tokens are in short splits, so that the blocks of a few short sequences occupy many
// multiprocessors; the others are in splits of `tokens`. Four short splits or a long one are a unit, and
// eight units a section. The sums of a section's splits are added in order, then those of the sections.
//
// A block has a span: 2^shift short splits or a long one, or, from kUnitShift on, 2^(shift - kUnitShift)
// units. This changes no bit: a block with whole sections adds their splits itself, and otherwise writes the
// sums of each split, which are added later.
#pragma once

#include <tinytorch/core/shape.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kShortSplits = 8, kShortSplit = 128;
// The largest spans have 32 units: a block with a larger one would be at work on the longest of unequal
// sequences when all others have ended.
inline constexpr unsigned kUnitShift = 2, kMostSpanShift = kUnitShift + 5;
template <class Int>
constexpr Int begin_of_split(Int split, Int tokens) {
  return split < kShortSplits ? split * kShortSplit
                              : kShortSplits * kShortSplit + (split - kShortSplits) * tokens;
}
// A sequence without tokens has one split, which gives zeros.
template <class Int>
constexpr Int splits_of(Int held, Int tokens) {
  if (held <= kShortSplits * kShortSplit)
    return held == 0 ? 1 : ceil_div(held, static_cast<Int>(kShortSplit));
  return kShortSplits + ceil_div(held - kShortSplits * kShortSplit, tokens);
}
template <class Int>
constexpr Int units_of(Int splits) {
  constexpr Int kOfShort = kShortSplits >> kUnitShift;
  return splits <= kShortSplits ? (splits + (1 << kUnitShift) - 1) >> kUnitShift
                                : kOfShort + splits - kShortSplits;
}
template <class Int>
constexpr Int spans_of(Int splits, unsigned shift) {
  if (shift >= kUnitShift) {
    shift -= kUnitShift;
    return (units_of(splits) + (Int{1} << shift) - 1) >> shift;
  }
  if (splits <= kShortSplits) return (splits + (1 << shift) - 1) >> shift;
  return (kShortSplits >> shift) + splits - kShortSplits;
}
constexpr int first_of_span(int span, unsigned shift) {
  if (shift > kUnitShift) span <<= shift - kUnitShift, shift = kUnitShift;
  const int short_spans = kShortSplits >> shift;
  return span < short_spans ? span << shift : kShortSplits + span - short_spans;
}

inline constexpr int kSectionShift = 3;
template <class Int>
constexpr Int sections_of(Int splits) {
  return ceil_div(units_of(splits), Int{1} << kSectionShift);
}
// The first split of a section.
constexpr int first_of_section(int section) {
  return section == 0 ? 0 : first_of_span(section, kUnitShift + kSectionShift);
}
constexpr int section_of(int split) {
  constexpr int kSecond = first_of_section(1);
  return split < kSecond ? 0 : 1 + ((split - kSecond) >> kSectionShift);
}
constexpr bool begins_section(int split) { return split == first_of_section(section_of(split)); }

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
