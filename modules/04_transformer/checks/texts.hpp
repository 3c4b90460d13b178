// Random texts to tokenize, new in every run, and their form in a message.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <support/check.hpp>

namespace course {

// A text of `count` random units, which may be characters of several bytes, or words.
inline std::string text_of(const std::vector<std::string>& units, int count) {
  std::string text;
  for (int i = 0; i < count; ++i)
    text += units[static_cast<size_t>(uniform(0, static_cast<double>(units.size())))];
  return text;
}
inline std::string any_bytes(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += static_cast<char>(static_cast<int>(uniform(0, 256)));
  return text;
}
inline const std::vector<std::string> kLetters = {"a", "b", "c", "d", "e", " ", "\n", "X"};
inline const std::vector<std::string> kManyScripts = {
    "a",        "z", " ",  "\xc3\xa4", "\xce\xbb", "\xe2\x82\xac", "\xe4\xb8\xad", "\xf0\x9f\x98\x80",
    "\xcc\x81", "7", "\n", "'s"};
inline const std::vector<std::string> kWords = {"low", "lower", "lowest", " new", " newer", " wide", "wider",
                                                " ",   "er",    "'s",     "1",    "22",     ".",     "\n"};

// Text in quotes; bytes that are not printable are written like \x4f.
inline std::string quoted(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text.substr(0, 60)) {
    const auto b = static_cast<unsigned char>(c);
    if (b == '\n') {
      out += "\\n";
    } else if (b < 0x20 || b >= 0x7f) {
      out += std::string("\\x") + kHex[b >> 4] + kHex[b & 15];
    } else {
      out += c;
    }
  }
  return out + (text.size() > 60 ? "\"..." : "\"");
}

template <class Tokenizer>
void expect_round_trip(const char* name, const Tokenizer& tokenizer, const std::string& text) {
  const std::string back = tokenizer.decode(tokenizer.encode(text));
  if (back != text) {
    size_t at = 0;
    while (at < back.size() && at < text.size() && back[at] == text[at]) ++at;
    expect_equal(
        std::string(name) + ": decode(encode(" + quoted(text) + ")), from byte " + std::to_string(at) + " on",
        quoted(std::string_view(back).substr(at)), quoted(std::string_view(text).substr(at)));
  }
  expect_equal(std::string(name) + ": bytes of decode(encode(...))", back.size(), text.size());
}

}  // namespace course
