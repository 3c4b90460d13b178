// Text that comes from a submission: made safe before a terminal, a table or a page shows it.
//
//   is_deceptive(c)         a character that is invisible, or that turns the direction of the text around it
//   clean(text, most)       valid UTF-8 without control characters and without deceptive ones; lines stay
//   one_line(text, most)    the same, on one line and cut, so that it fits into a cell of a table
//   name_complaint(name)    why a name could be taken for another one: parts of characters, or two scripts
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace tinymlperf {

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

// The character of a sequence of this length.
inline uint32_t code_point(std::string_view s, size_t length) {
  constexpr std::array<uint32_t, 5> kFirst{0, 0x7F, 0x1F, 0x0F, 0x07};
  uint32_t out = static_cast<unsigned char>(s[0]) & kFirst[length];
  for (size_t i = 1; i < length; ++i) out = out << 6 | (static_cast<unsigned char>(s[i]) & 0x3F);
  return out;
}

inline bool is_control(uint32_t c) { return c < 0x20 || (c >= 0x7F && c < 0xA0); }

// Joiners, marks and overrides of direction, separators of lines, tags, and characters that are none.
inline bool is_deceptive(uint32_t c) {
  return c == 0xAD || c == 0x61C || c == 0x115F || c == 0x1160 || c == 0x180E || c == 0x3164 || c == 0xFEFF ||
         c == 0xFFA0 || (c >= 0x200B && c <= 0x200F) || (c >= 0x2028 && c <= 0x202E) ||
         (c >= 0x2060 && c <= 0x206F) || (c >= 0xFFF0 && c <= 0xFFFB) || (c >= 0xE0000 && c <= 0xE0FFF) ||
         (c & 0xFFFE) == 0xFFFE;
}

// Valid UTF-8 without control characters (line breaks and tabs stay), at most `most` characters.
inline std::string clean(std::string_view s, size_t most = std::string::npos) {
  std::string out;
  size_t count = 0;
  for (size_t i = 0; i < s.size(); ++count) {
    if (count == most) return out + "\xE2\x80\xA6";
    const size_t length = utf8_length(s.substr(i));
    const uint32_t c = length ? code_point(s.substr(i), length) : 0;
    const bool bad = (is_control(c) && c != '\n' && c != '\t') || is_deceptive(c);
    out += length == 0 || bad ? kReplacement : s.substr(i, length);
    i += std::max<size_t>(length, 1);
  }
  return out;
}

// Line breaks become semicolons, and runs of blanks one blank.
inline std::string one_line(std::string_view s, size_t most = 400) {
  std::string flat;
  for (const char c : s) {
    const bool blank = c == ' ' || c == '\t' || c == '\r';
    if (c == '\n')
      flat += ';';
    else if (!blank)
      flat += c;
    else if (flat.empty() || flat.back() != ' ')
      flat += ' ';
  }
  return clean(flat, most);
}

namespace detail {

// The script of a letter; empty for what any name may hold: digits, signs, and scripts without look-alikes.
inline std::string_view script_of(uint32_t c) {
  struct Range {
    uint32_t first, last;
    std::string_view script;
  };
  static constexpr Range kRanges[] = {
      {'A', 'Z', "Latin"},          {'a', 'z', "Latin"},          {0xC0, 0x24F, "Latin"},
      {0x250, 0x2AF, "Latin"},      {0x370, 0x3FF, "Greek"},      {0x400, 0x52F, "Cyrillic"},
      {0x530, 0x58F, "Armenian"},   {0x590, 0x5FF, "Hebrew"},     {0x600, 0x77F, "Arabic"},
      {0x900, 0x97F, "Devanagari"}, {0x10A0, 0x10FF, "Georgian"}, {0x13A0, 0x13FF, "Cherokee"},
      {0x1C80, 0x1C8F, "Cyrillic"}, {0x1E00, 0x1EFF, "Latin"},    {0x1F00, 0x1FFF, "Greek"},
      {0x2C60, 0x2C7F, "Latin"},    {0x2C80, 0x2CFF, "Coptic"},   {0x2DE0, 0x2DFF, "Cyrillic"},
      {0x3040, 0x30FF, "Han"},      {0x3400, 0x9FFF, "Han"},      {0xA640, 0xA69F, "Cyrillic"},
      {0xA720, 0xA7FF, "Latin"},    {0xAB30, 0xAB6F, "Latin"},    {0xAC00, 0xD7AF, "Han"}};
  for (const Range& r : kRanges)
    if (c >= r.first && c <= r.last && c != 0xD7 && c != 0xF7) return r.script;
  return "";
}
// Marks that join the letter before them; a name in the normal form NFC has one character for both.
inline bool is_combining(uint32_t c) {
  return (c >= 0x300 && c <= 0x36F) || (c >= 0x1AB0 && c <= 0x1AFF) || (c >= 0x1DC0 && c <= 0x1DFF) ||
         (c >= 0x20D0 && c <= 0x20FF) || (c >= 0xFE00 && c <= 0xFE2F);
}
// Forms of letters that look like others: ligatures, full width, mathematical alphabets, circled letters.
inline bool is_compatible_form(uint32_t c) {
  return (c >= 0xFB00 && c <= 0xFB4F) || (c >= 0xFF01 && c <= 0xFFEF) || (c >= 0x1D400 && c <= 0x1D7FF) ||
         (c >= 0x2100 && c <= 0x214F) || (c >= 0x2160 && c <= 0x217F) || (c >= 0x2460 && c <= 0x24FF) ||
         (c >= 0x1F100 && c <= 0x1F1FF);
}

}  // namespace detail

// Describes why a name is refused; empty if it has one form and one script, so that it can hardly be taken
// for another one.
inline std::string name_complaint(std::string_view name) {
  std::string_view script;
  for (size_t i = 0; i < name.size();) {
    const size_t length = utf8_length(name.substr(i));
    if (length == 0) return "it is not UTF-8";
    const uint32_t c = code_point(name.substr(i), length);
    if (is_control(c)) return "it holds a control character";
    if (is_deceptive(c)) return "it holds an invisible character, or one that turns the text around";
    if (detail::is_combining(c)) return "it holds a mark apart from its letter: write both as one character";
    if (detail::is_compatible_form(c)) return "it holds a letter of a special form: write the plain one";
    const std::string_view here = detail::script_of(c);
    if (!script.empty() && !here.empty() && here != script)
      return "it mixes letters of two scripts, " + std::string(script) + " and " + std::string(here);
    if (!here.empty()) script = here;
    i += length;
  }
  return "";
}

}  // namespace tinymlperf
