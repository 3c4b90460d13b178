// Text of users before it is stored or shown: valid UTF-8 without control characters.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace tinymlperf::board {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// The length of the UTF-8 sequence that starts here; 0 if there is none.
inline size_t utf8_length(std::string_view s) {
  const auto at = [&](size_t i) -> unsigned { return static_cast<unsigned char>(s[i]); };
  const unsigned first = at(0);
  const size_t length = first < 0x80                     ? 1
                        : first >= 0xC2 && first <= 0xDF ? 2
                        : first >= 0xE0 && first <= 0xEF ? 3
                        : first >= 0xF0 && first <= 0xF4 ? 4
                                                         : 0;
  if (length == 0 || s.size() < length) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((at(i) & 0xC0) != 0x80) return 0;
  if (length < 3) return length;
  const unsigned second = at(1);  // an overlong form, a surrogate, or beyond U+10FFFF
  if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
      (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F))
    return 0;
  return length;
}

// Valid UTF-8 without control characters (line breaks and tabs stay), at most `most` characters.
inline std::string clean(std::string_view s, size_t most = std::string::npos) {
  std::string out;
  size_t count = 0;
  for (size_t i = 0; i < s.size(); ++count) {
    if (count == most) return out + "\xE2\x80\xA6";
    const size_t length = utf8_length(s.substr(i));
    const auto first = static_cast<unsigned char>(s[i]);
    const bool control = (length == 1 && ((first < 0x20 && s[i] != '\n' && s[i] != '\t') || first == 0x7F)) ||
                         (length == 2 && first == 0xC2 && static_cast<unsigned char>(s[i + 1]) < 0xA0);
    const bool never = length == 3 && (s.substr(i, 3) == "\xEF\xBF\xBE" || s.substr(i, 3) == "\xEF\xBF\xBF");
    out += length == 0 || control || never ? kReplacement : s.substr(i, length);
    i += std::max<size_t>(length, 1);
  }
  return out;
}

}  // namespace tinymlperf::board
