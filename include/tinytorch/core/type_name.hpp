// Readable names of C++ types, for messages.
#pragma once

#include <cxxabi.h>

#include <cstdlib>
#include <string>
#include <tinytorch/core/config.hpp>

namespace tinytorch::inline TT_BUILD {

// Demangles the result of typeid(T).name() and removes the namespaces: "N9tinytorch8cpu_only6LinearE" becomes
// "Linear". Template arguments are kept. A text that is not a mangled name is returned unchanged.
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
