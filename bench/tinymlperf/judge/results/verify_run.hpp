// Recomputes the numbers of a run.json from its samples, for models and for kernels.
#pragma once

#include <string>
#include <tinymlperf/judge/results/any_run.hpp>

namespace tinymlperf {

inline bool is_run(const Json& document) {
  if (judge::is_kernel_run(document)) return true;
  if (!document.is_object() || !document.contains("schema")) return false;
  const Json& schema = document.at("schema");
  return schema == "tinymlperf-run-2" || schema == "tinymlperf-run-3";
}

// The first number that does not follow from the samples; empty if all do. Throws std::invalid_argument if it
// is not a run.
inline std::string verify_run(const Json& document) {
  const Json again = judge::to_json(judge::read_any_run(document));
  const Json& contenders = document.at("contenders");
  for (size_t i = 0; i < contenders.size(); ++i)
    for (const auto& [key, value] : again.at("contenders")[i].items())
      if (!contenders[i].contains(key) || !detail::agree(contenders[i].at(key), value))
        return contenders[i].at("name").dump() + ": " + key + " is " +
               (contenders[i].contains(key) ? detail::show(contenders[i].at(key)) : "missing") +
               ", the samples say " + detail::show(value);
  return detail::agree(document, again) ? "" : "keys or values that a run does not have";
}

}  // namespace tinymlperf
