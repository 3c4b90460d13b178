// Recomputes what a run.json says from its samples, of models and of kernels.
#pragma once

#include <string>
#include <tinymlperf/judge/kernels/kernel_run.hpp>
#include <tinymlperf/judge/run_document.hpp>

namespace tinymlperf {

namespace detail {
inline bool has_schema(const Json& document, const char* schema) {
  return document.is_object() && document.value("schema", Json()) == schema;
}
}  // namespace detail

inline bool is_kernel_run(const Json& document) {
  return detail::has_schema(document, judge::kernels::kSchema);
}

inline bool is_run(const Json& document) {
  return is_kernel_run(document) || detail::has_schema(document, "tinymlperf-run-1") ||
         detail::has_schema(document, "tinymlperf-run-2");
}

// The first number that does not follow from the samples; empty: all do. Throws std::invalid_argument when it is not a run.
inline std::string verify_run(const Json& document) {
  const Json again = is_kernel_run(document) ? to_json(judge::kernels::read_kernel_run(document))
                                             : judge::to_json(judge::read_run_document(document));
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
