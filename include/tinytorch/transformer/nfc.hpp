// Normalization of text to NFC, in which a letter with accents is one character if Unicode has one for it.
//
//   decompose every character, sort marks by their combining class, compose pairs again
//
// Text without characters above U+02FF is NFC already and is returned as it is; so are invalid bytes.
// Source: Unicode Standard Annex #15; Hangul by the Unicode Standard, section 3.12.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <tinytorch/io/text.hpp>
#include <tinytorch/transformer/nfc_orders.hpp>
#include <tinytorch/transformer/nfc_tables.hpp>
#include <tinytorch/transformer/unicode.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD {

namespace unicode {

inline constexpr uint32_t kSyllables = 0xac00, kLeads = 0x1100, kVowels = 0x1161, kTails = 0x11a7;
inline constexpr uint32_t kLeadCount = 19, kVowelCount = 21, kTailCount = 28;
inline constexpr uint64_t kCodeMask = (uint64_t{1} << 21) - 1;

// The canonical combining class: 0 for a character that begins a group.
inline uint32_t order_of(uint32_t code) {
  if (code < 0x300 || code >= kInvalidByte) return 0;
  const uint32_t* above = std::upper_bound(std::begin(kOrders), std::end(kOrders), code << 8 | 0xff);
  return above[-1] & 0xff;
}

// Appends the full canonical decomposition of a character.
inline void decompose(uint32_t code, std::vector<uint32_t>& out) {
  if (code < 0xc0 || code >= kInvalidByte) return out.push_back(code);
  if (code >= kSyllables && code < kSyllables + kLeadCount * kVowelCount * kTailCount) {
    const uint32_t s = code - kSyllables, tail = s % kTailCount;
    out.push_back(kLeads + s / (kVowelCount * kTailCount));
    out.push_back(kVowels + s / kTailCount % kVowelCount);
    if (tail > 0) out.push_back(kTails + tail);
    return;
  }
  const auto code_of = [](uint64_t entry) { return static_cast<uint32_t>(entry >> 42 & kCodeMask); };
  const auto* pair = std::lower_bound(std::begin(kDecompositions), std::end(kDecompositions), code,
                                      [&](uint64_t entry, uint32_t c) { return code_of(entry) < c; });
  if (pair != std::end(kDecompositions) && code_of(*pair) == code) {
    decompose(static_cast<uint32_t>(*pair >> 21 & kCodeMask), out);
    return decompose(static_cast<uint32_t>(*pair & kCodeMask), out);
  }
  const auto* single = std::lower_bound(std::begin(kSingletons), std::end(kSingletons), uint64_t{code} << 21);
  if (single != std::end(kSingletons) && *single >> 21 == code)
    return decompose(static_cast<uint32_t>(*single & kCodeMask), out);
  out.push_back(code);
}

// The pairs that compose, sorted: {first << 42 | second << 21 | composite}.
inline const std::vector<uint64_t>& compositions() {
  static const std::vector<uint64_t> sorted = [] {
    std::vector<uint64_t> out;
    for (const uint64_t entry : kDecompositions) {
      if (entry >> 63) continue;
      out.push_back((entry >> 21 & kCodeMask) << 42 | (entry & kCodeMask) << 21 | (entry >> 42 & kCodeMask));
    }
    std::sort(out.begin(), out.end());
    return out;
  }();
  return sorted;
}

// The character that a pair composes to, or 0.
inline uint32_t compose(uint32_t first, uint32_t second) {
  if (first >= kLeads && first < kLeads + kLeadCount && second >= kVowels && second < kVowels + kVowelCount)
    return kSyllables + ((first - kLeads) * kVowelCount + (second - kVowels)) * kTailCount;
  if (first >= kSyllables && first < kSyllables + kLeadCount * kVowelCount * kTailCount &&
      (first - kSyllables) % kTailCount == 0 && second > kTails && second < kTails + kTailCount)
    return first + second - kTails;
  const uint64_t pair = uint64_t{first} << 42 | uint64_t{second} << 21;
  const auto found = std::lower_bound(compositions().begin(), compositions().end(), pair);
  return found != compositions().end() && *found >> 21 == pair >> 21
             ? static_cast<uint32_t>(*found & kCodeMask)
             : 0;
}

// Composes the decomposed and ordered characters in place.
inline void compose(std::vector<uint32_t>& codes) {
  size_t kept = 0, starter = codes.size();  // starter: the last one kept; codes.size(): none
  uint32_t before = 0;                      // the class of the character that was kept last
  for (const uint32_t code : codes) {
    const uint32_t order = order_of(code);
    const bool beside = starter < codes.size() && kept == starter + 1;
    const bool reaches = starter < codes.size() && (beside || (before < order && before != 0));
    if (const uint32_t joined = reaches ? compose(codes[starter], code) : 0) {
      codes[starter] = joined;
      continue;
    }
    if (order == 0) starter = kept;
    before = order;
    codes[kept++] = code;
  }
  codes.resize(kept);
}

}  // namespace unicode

// The text in NFC.
inline std::string to_nfc(std::string_view text) {
  const auto is_simple = [](char c) { return static_cast<unsigned char>(c) < 0xcc; };  // up to U+02FF
  if (std::all_of(text.begin(), text.end(), is_simple)) return std::string(text);
  std::vector<uint32_t> codes;
  for (size_t at = 0; at < text.size();) {
    const unicode::Unit unit = unicode::unit_at(text, at);
    unicode::decompose(unit.code, codes);
    at += unit.length;
  }
  for (size_t i = 0; i < codes.size();) {  // sorts each run of marks
    size_t end = i;
    while (end < codes.size() && unicode::order_of(codes[end]) != 0) ++end;
    std::stable_sort(codes.begin() + static_cast<std::ptrdiff_t>(i),
                     codes.begin() + static_cast<std::ptrdiff_t>(end),
                     [](uint32_t a, uint32_t b) { return unicode::order_of(a) < unicode::order_of(b); });
    i = end + 1;
  }
  unicode::compose(codes);
  std::string out;
  for (const uint32_t code : codes) {
    if (code >= unicode::kInvalidByte)
      out += static_cast<char>(code - unicode::kInvalidByte);
    else
      append_utf8(out, code);
  }
  return out;
}

}  // namespace tinytorch::inline TT_BUILD
