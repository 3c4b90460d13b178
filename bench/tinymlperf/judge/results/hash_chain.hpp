// A chain of SHA-256 digests over a document, by which an edit of any value is found, and where it is.
//
// Link 0 is the digest of everything but the contenders. Each further link is the digest of the link before
// it and of one contender, with all of its samples. The last link is the document's seal.
//
// Whoever edits a file can compute a chain anew. So the seal protects a result only if somebody else noted it
// when it was measured: `run` prints it, and `verify --seal` demands it.
#pragma once

#include <string>
#include <string_view>
#include <tinymlperf/support/json_fields.hpp>
#include <tinytorch/io/sha256.hpp>
#include <vector>

namespace tinymlperf::judge {

inline constexpr const char* kChain = "chain";

namespace detail {

// Every number is written in the shortest form that reads back as the same bits, and keys are sorted.
inline std::string link_of(std::string_view before, const Json& part) {
  tinytorch::Sha256 sum;
  sum.add(before);
  const std::string text = part.dump(-1, ' ', true, Json::error_handler_t::replace);
  sum.add(std::string_view(text));
  return sum.hex();
}

}  // namespace detail

inline std::vector<std::string> chain_of(const Json& document) {
  Json head = Json::object();
  for (const auto& [key, value] : document.items())
    if (key != kChain && key != "contenders") head[key] = value;
  std::vector<std::string> out{detail::link_of("", head)};
  for (const Json& c : document.at("contenders")) out.push_back(detail::link_of(out.back(), c));
  return out;
}

// Describes where the document was edited after its chain was made; empty if it was not.
inline std::string chain_complaint(const Json& document) {
  if (!document.contains(kChain) || !document.at(kChain).is_array())
    return "it has no chain of digests: an older judge wrote it, or the chain was removed";
  const std::vector<std::string> now = chain_of(document);
  const Json& kept = document.at(kChain);
  if (kept.size() != now.size()) return "its chain has not one link for each contender";
  if (kept[0] != now[0]) return "the chain breaks at its head: what is beside the contenders was edited";
  for (size_t i = 1; i < now.size(); ++i)
    if (kept[i] != now[i])
      return "the chain breaks at " + document.at("contenders")[i - 1].value("name", Json()).dump() +
             ": a sample, an audit or another value of it was edited";
  return "";
}

inline std::string seal_of(const Json& document) { return chain_of(document).back(); }

}  // namespace tinymlperf::judge
