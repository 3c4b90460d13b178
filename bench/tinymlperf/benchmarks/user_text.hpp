// A user's text for lm, in place of the generated text: its first two fifths are for training, its last three
// fifths are the hidden set. An author who has the file could train on all of it, so such a match is only
// valid for entries that did not.
#pragma once

#include <cmath>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tinymlperf/benchmarks/task.hpp>

namespace tinymlperf {

struct UserText {
  std::string name;  // file name
  std::string to_learn, held_out;
  int64_t bytes() const { return static_cast<int64_t>(to_learn.size() + held_out.size()); }
};

// Any bytes are a text. Throws std::invalid_argument if there is no such file, or it is too large or shorter
// than a few windows.
inline UserText read_user_text(const std::filesystem::path& path) {
  constexpr int64_t kMostBytes = int64_t{1} << 28, kFewestBytes = 40 * (kContextBytes + 1);
  std::string all;
  try {
    all = detail::read_limited(path, kMostBytes);
  } catch (const Refusal& r) {
    throw std::invalid_argument(std::string("--text ") + r.what());
  }
  if (static_cast<int64_t>(all.size()) < kFewestBytes)
    throw std::invalid_argument("--text " + path.string() + ": expected a text of at least " +
                                std::to_string(kFewestBytes) + " bytes, found " + std::to_string(all.size()));
  const size_t first = all.size() * 2 / 5;
  return {path.filename().string(), all.substr(0, first), all.substr(first)};
}

// Bits per byte of a model that uses only the frequency of each byte.
inline double bits_by_frequency(std::string_view text) {
  double count[256] = {}, bits = 0;
  for (const char c : text) ++count[static_cast<unsigned char>(c)];
  const auto n = static_cast<double>(text.size());
  for (const double k : count)
    if (k > 0) bits -= k / n * std::log2(k / n);
  return bits;
}

}  // namespace tinymlperf
