// Text files, read as a whole or by lines, and checked to be UTF-8 (RFC 3629), so that later code may rely on
// it.
//
// A byte order mark at the start is removed; UTF-16 is rejected with an error that names it. Lines end in
// "\n" or
// "\r\n"; a last line without a line end counts as a line.
#pragma once

#include <tinytorch/io/file.hpp>
#include <tinytorch/io/file_kind.hpp>

namespace tinytorch::inline TT_BUILD {

inline constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

// Position of the first byte that is not part of well-formed UTF-8, or text.size(). Overlong encodings,
// surrogate halves and code points above 10FFFF are not well-formed.
inline size_t find_invalid_utf8(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  size_t i = 0;
  while (i < text.size()) {
    const unsigned lead = byte(i);
    if (lead < 0x80) {
      ++i;
      continue;
    }
    const size_t length = lead >= 0xc2 && lead <= 0xdf   ? 2
                          : lead >= 0xe0 && lead <= 0xef ? 3
                          : lead >= 0xf0 && lead <= 0xf4 ? 4
                                                         : 0;
    if (length == 0 || text.size() - i < length) return i;
    // The range of the second byte depends on the first byte; that of later bytes does not.
    const unsigned low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    const unsigned high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (byte(i + 1) < low || byte(i + 1) > high) return i;
    for (size_t k = 2; k < length; ++k) {
      if ((byte(i + k) & 0xc0) != 0x80) return i;
    }
    i += length;
  }
  return i;
}

// Appends the code point (at most 10FFFF) as UTF-8.
inline void append_utf8(std::string& out, uint32_t code) {
  const auto tail = [&](int shift) { return static_cast<char>(0x80 | ((code >> shift) & 0x3f)); };
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += {static_cast<char>(0xc0 | (code >> 6)), tail(0)};
  } else if (code < 0x10000) {
    out += {static_cast<char>(0xe0 | (code >> 12)), tail(6), tail(0)};
  } else {
    out += {static_cast<char>(0xf0 | (code >> 18)), tail(12), tail(6), tail(0)};
  }
}

// The bytes as text. If they are not UTF-8, throws TT-IO-03 with line and byte position, or with the kind of
// file if that is recognized (file_kind.hpp). A web page is accepted as text.
inline std::string parse_text(Bytes bytes, const std::string& name = "text", TT_LOC) {
  std::string_view text = as_text(bytes);
  const io::Source source{name, "text", loc};
  const io::FileKind* const kind = io::kind_of(bytes);
  if (kind && kind != &io::kWebPage) io::refuse_kind(*kind, source);
  const size_t bad = find_invalid_utf8(text);
  if (bad != text.size()) {
    const auto line = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(bad), '\n') + 1;
    source.reject("UTF-8",
                  io::in_quotes(text.substr(bad, 4)) + " at byte " + std::to_string(bad) + ", line " +
                      std::to_string(line),
                  "TT-IO-03", "convert it first, for example with iconv -t UTF-8");
  }
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  return std::string(text);
}

// The lines without their line ends.
inline std::vector<std::string> split_lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.emplace_back(line);
  }
  return lines;
}

inline std::string load_text(const std::string& path, TT_LOC) {
  return parse_text(read_file(path, uint64_t{1} << 40, loc), path, loc);
}
inline std::vector<std::string> load_lines(const std::string& path, TT_LOC) {
  return split_lines(load_text(path, loc));
}

}  // namespace tinytorch::inline TT_BUILD
