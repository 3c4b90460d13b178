// The similarity of two bundles: each is a set of hashes, and the share of common hashes is counted.
//
//   code     every eight consecutive tokens of the sources and of the model's layers, without comments,
//            names and blanks
//   weights  every tensor: its type, shape and values; a tensor with a single repeated value does not count
//
// A set that is too large keeps its smallest hashes. A share is a count and no verdict: whoever solves the
// same task may write the same lines. The content of the board's baselines is left out, since everybody
// starts there.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <string>
#include <string_view>
#include <tinymlperf/bundle/bundle.hpp>
#include <tinymlperf/bundle/digest.hpp>
#include <tinymlperf/entries/load.hpp>
#include <tinytorch/io/safetensors.hpp>
#include <utility>
#include <vector>

namespace tinymlperf::board {

using Hashes = std::vector<uint64_t>;  // ascending, each once

constexpr size_t kShingleTokens = 8;
constexpr size_t kMostHashes = 16384;  // the smallest of a larger set, which are a fair sample

namespace detail {

constexpr uint64_t kFnvStart = 0xcbf29ce484222325, kFnvPrime = 0x100000001b3;
inline uint64_t fold(uint64_t h, std::string_view s) {
  for (const char c : s) h = (h ^ static_cast<unsigned char>(c)) * kFnvPrime;
  return h;
}
// Mixes the high bits, which FNV leaves poor: the smallest hashes must be a fair sample.
inline uint64_t mixed(uint64_t h) {
  h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9;
  h = (h ^ (h >> 27)) * 0x94d049bb133111eb;
  return h ^ (h >> 31);
}

inline Hashes as_set(Hashes hashes) {
  std::sort(hashes.begin(), hashes.end());
  hashes.erase(std::unique(hashes.begin(), hashes.end()), hashes.end());
  hashes.resize(std::min(hashes.size(), kMostHashes));
  return hashes;
}

// Tokens: words, numbers, and each other character by itself.
inline std::vector<uint64_t> tokens(std::string_view s) {
  const auto word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
  };
  std::vector<uint64_t> out;
  for (size_t i = 0; i < s.size();) {
    if (s.substr(i, 2) == "//" || s.substr(i, 2) == "/*") {
      const std::string_view end = s[i + 1] == '/' ? "\n" : "*/";
      i = std::min(s.find(end, i + 2), s.size() - end.size()) + end.size();
      continue;
    }
    size_t end = i + 1;
    while (word(s[i]) && end < s.size() && word(s[end])) ++end;
    if (!std::isspace(static_cast<unsigned char>(s[i]))) out.push_back(fold(kFnvStart, s.substr(i, end - i)));
    i = end;
  }
  return out;
}

inline void add_shingles(std::string_view text, Hashes& out) {
  const std::vector<uint64_t> all = tokens(text);
  for (size_t i = 0; i + kShingleTokens <= all.size(); ++i) {
    uint64_t h = kFnvStart;
    for (size_t k = 0; k < kShingleTokens; ++k) h = mixed(h ^ all[i + k]);
    out.push_back(h);
  }
}

inline bool is_code(const std::string& path) {
  for (const char* end : {".cpp", ".hpp", ".h", ".cu", ".cuh"})
    if (path.ends_with(end)) return true;
  return false;
}

// The layers of the model without the author's names.
inline std::string layers_of(const std::string& model) {
  try {
    const Json j = tinymlperf::detail::parse_json(model);
    if (j.is_object() && j.contains("layers")) return j["layers"].dump(-1, ' ', true);
  } catch (const Refusal&) {  // a plugin's model is not read
  }
  return "";
}

}  // namespace detail

inline Hashes code_hashes(const bundle::Bundle& b) {
  Hashes out;
  for (const bundle::ArchiveFile& file : b.files)
    if (file.path == kModelFile)
      detail::add_shingles(detail::layers_of(file.content), out);
    else if (detail::is_code(file.path))
      detail::add_shingles(file.content, out);
  return detail::as_set(std::move(out));
}

// Returns the hashes of a bundle's weights; there are none if the file cannot be read.
inline Hashes weight_hashes(const bundle::Bundle& b) {
  Hashes out;
  const std::string* weights = b.find(kWeightsFile);
  if (!weights) return out;
  try {
    for (const auto& [name, tensor] : tinytorch::parse_safetensors(tinytorch::as_bytes(*weights))) {
      if (tensor.numel() == 0) continue;
      const std::vector<std::byte> file = tinytorch::to_safetensors({{"", tensor}});  // says type and shape
      const std::string_view all(reinterpret_cast<const char*>(file.data()), file.size()),
          values = all.substr(all.size() - tensor.bytes());
      const size_t one = values.size() / static_cast<size_t>(tensor.numel());
      if (values.substr(one) == values.substr(0, values.size() - one)) continue;
      out.push_back(std::stoull(bundle::sha256(all).substr(0, 16), nullptr, 16));
    }
  } catch (const tinytorch::Error&) {
    return {};
  }
  return detail::as_set(std::move(out));
}

struct Common {
  int64_t shared = 0, total = 0;  // total: of ours
};

// The share of our hashes outside `base` that are theirs, too. A truncated set counts for its range alone.
inline Common in_common(const Hashes& ours, const Hashes& theirs, const Hashes& base) {
  uint64_t limit = ~uint64_t{0};
  for (const Hashes* set : {&ours, &theirs, &base})
    if (set->size() == kMostHashes) limit = std::min(limit, set->back());
  Common out;
  for (const uint64_t h : ours) {
    if (h > limit) break;
    if (std::binary_search(base.begin(), base.end(), h)) continue;
    ++out.total;
    out.shared += std::binary_search(theirs.begin(), theirs.end(), h);
  }
  return out;
}

}  // namespace tinymlperf::board
