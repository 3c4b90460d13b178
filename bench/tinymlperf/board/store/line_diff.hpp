// The difference of two texts as a unified diff. Lines of a longest common subsequence stay; others are
// removed (-) or added (+), with three lines of context.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tinymlperf::board {

namespace detail {

inline std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return lines;
}

using Lines = std::vector<std::string_view>;

struct Edit {
  char kind;  // ' ', '-', '+'
  std::string_view line;
};

// Compares the middle parts, whose first and last lines differ. table[i][j] is the length of the longest
// common subsequence from a[i] and b[j] on.
inline void edit_middle(const Lines& a, const Lines& b, std::vector<Edit>& out) {
  constexpr size_t kMostCells = size_t{1} << 24;  // above it: all removed, all added
  size_t i = 0, j = 0;
  if ((a.size() + 1) * (b.size() + 1) <= kMostCells) {
    const size_t width = b.size() + 1;
    std::vector<uint32_t> table((a.size() + 1) * width);
    for (size_t r = a.size(); r-- > 0;)
      for (size_t c = b.size(); c-- > 0;)
        table[r * width + c] = a[r] == b[c] ? table[(r + 1) * width + c + 1] + 1
                                            : std::max(table[(r + 1) * width + c], table[r * width + c + 1]);
    while (i < a.size() && j < b.size()) {
      if (a[i] == b[j]) {
        out.push_back({' ', a[i++]}), ++j;
      } else if (table[(i + 1) * width + j] >= table[i * width + j + 1]) {
        out.push_back({'-', a[i++]});
      } else {
        out.push_back({'+', b[j++]});
      }
    }
  }
  while (i < a.size()) out.push_back({'-', a[i++]});
  while (j < b.size()) out.push_back({'+', b[j++]});
}

inline std::vector<Edit> edits(Lines a, Lines b) {
  std::vector<Edit> out, tail;
  size_t same = 0;
  while (same < a.size() && same < b.size() && a[same] == b[same]) out.push_back({' ', a[same++]});
  a.erase(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(same));
  b.erase(b.begin(), b.begin() + static_cast<std::ptrdiff_t>(same));
  while (!a.empty() && !b.empty() && a.back() == b.back()) {
    tail.push_back({' ', a.back()});
    a.pop_back(), b.pop_back();
  }
  edit_middle(a, b, out);
  out.insert(out.end(), tail.rbegin(), tail.rend());
  return out;
}

// One hunk: the edits [first, last), with the numbers of the lines before it in both texts.
inline std::string hunk(const std::vector<Edit>& all, size_t first, size_t last) {
  size_t before[2] = {0, 0}, within[2] = {0, 0};
  for (size_t i = 0; i < last; ++i)
    for (const int side : {0, 1})
      if (all[i].kind != (side == 0 ? '+' : '-')) ++(i < first ? before : within)[side];
  const auto range = [&](int side) {
    return std::to_string(before[side] + (within[side] > 0 ? 1 : 0)) + "," + std::to_string(within[side]);
  };
  std::string out = "@@ -" + range(0) + " +" + range(1) + " @@\n";
  for (size_t i = first; i < last; ++i) {
    out += all[i].kind;
    out += all[i].line;
    if (!all[i].line.ends_with('\n')) out += "\n\\ No newline at end of file\n";
  }
  return out;
}

}  // namespace detail

// Returns the differences in unified format; the text is empty if both are equal.
inline std::string unified_diff(const std::string& old_name, std::string_view old_text,
                                const std::string& new_name, std::string_view new_text) {
  constexpr size_t kAround = 3;
  if (old_text == new_text) return "";
  const std::vector<detail::Edit> all = detail::edits(detail::lines_of(old_text), detail::lines_of(new_text));
  std::string out = "--- " + old_name + "\n+++ " + new_name + "\n";
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].kind == ' ') continue;
    size_t last = i;  // the last change that is near enough to the previous one
    for (size_t k = i; k < all.size() && k <= last + 2 * kAround; ++k)
      if (all[k].kind != ' ') last = k;
    out += detail::hunk(all, i - std::min(i, kAround), std::min(last + kAround + 1, all.size()));
    i = last;
  }
  return out;
}

using Texts = std::map<std::string, std::string>;  // by path

// The difference of two folders; equal files are not named.
inline std::string folder_diff(const std::string& old_name, const Texts& old_texts,
                               const std::string& new_name, const Texts& new_texts) {
  std::map<std::string, std::pair<std::string, std::string>> both;
  for (const auto& [path, text] : old_texts) both[path].first = text;
  for (const auto& [path, text] : new_texts) both[path].second = text;
  std::string out;
  for (const auto& [path, texts] : both)
    out += unified_diff(old_name + "/" + path, texts.first, new_name + "/" + path, texts.second);
  return out;
}

}  // namespace tinymlperf::board
