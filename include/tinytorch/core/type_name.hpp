// Types by the names that a reader knows them by.
#pragma once

#include <cxxabi.h>

#include <cstdlib>
#include <string>
#include <tinytorch/core/config.hpp>

namespace tinytorch::inline TT_BUILD {

// "Linear" of "N9tinytorch8cpu_only6LinearE", which is what typeid says: without namespaces, arguments of a
// template stay. A text that is no type's name stays as it is.
inline std::string type_name(const char* mangled) {
  int status = 0;
  char* const text = abi::__cxa_demangle(mangled, nullptr, nullptr, &status);
  std::string out = status == 0 && text ? text : mangled;
  std::free(text);
  const size_t arguments = out.find('<'), colon = out.rfind(':', arguments);
  if (colon != std::string::npos) out.erase(0, colon + 1);
  return out;
}

}  // namespace tinytorch::inline TT_BUILD
