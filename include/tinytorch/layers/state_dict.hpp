// StateDict: tensors by path, the form in which modules and optimizers are saved and restored.
//
// A load changes everything or nothing: names, shapes and kinds of dtype are compared first, and one message
// lists all differences.
#pragma once

#include <map>
#include <string>
#include <tinytorch/autograd/grad_mode.hpp>
#include <tinytorch/tensor/ops.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD {

using StateDict = std::map<std::string, Tensor>;  // sorted by name, as in files

// Throws TT-NN-04 unless `given` has exactly the names and shapes of `own`, and floating-point tensors
// exactly where `own` has them.
TT_API void require_same_entries(const std::string& op, const std::string& owner, const StateDict& own,
                                 const StateDict& given, TT_LOC);

// Copies every entry of `given` into the tensor of that name in `own`, converting dtype and device.
TT_API void copy_entries(StateDict& own, const StateDict& given, TT_LOC);

}  // namespace tinytorch::inline TT_BUILD

#if TT_BODIES(LAYERS)
namespace tinytorch::inline TT_BUILD {

TT_API void list_names(std::string& message, const char* title, const std::vector<std::string>& names) {
  if (names.empty()) return;
  message += std::string("\n  ") + title + " (" + std::to_string(names.size()) + "): ";
  for (size_t i = 0; i < names.size(); ++i) message += (i ? ", " : "") + names[i];
}

TT_API void require_same_entries(const std::string& op, const std::string& owner, const StateDict& own,
                                 const StateDict& given, Loc loc) {
  std::vector<std::string> missing, unexpected, misshapen;
  for (const auto& [name, tensor] : own) {
    const auto found = given.find(name);
    if (found == given.end()) {
      missing.push_back(name);
      continue;
    }
    const Tensor& other = found->second;
    if (other.shape() == tensor.shape() && is_floating(other.dtype()) == is_floating(tensor.dtype()))
      continue;
    const auto what = [](const Tensor& t) { return std::string(name_of(t.dtype())) + " " + t.shape().str(); };
    misshapen.push_back(name + " is " + what(other) + ", expected " + what(tensor));
  }
  for (const auto& [name, tensor] : given) {
    if (!own.count(name)) unexpected.push_back(name);
  }
  if (missing.empty() && unexpected.empty() && misshapen.empty()) return;
  std::string message = op + ": the state does not fit " + owner;
  list_names(message, "missing", missing);
  list_names(message, "unexpected", unexpected);
  list_names(message, "wrong shape", misshapen);
  fail("TT-NN-04", message + "\n  hint: build " + owner + " with the sizes and options it was saved with",
       loc);
}

TT_API void copy_entries(StateDict& own, const StateDict& given, Loc loc) {
  NoGrad no_grad;
  for (auto& [name, tensor] : own) {
    Tensor source = given.at(name);
    if (source.device() != tensor.device()) source = source.to(tensor.device(), loc);
    if (source.dtype() != tensor.dtype()) source = source.to(tensor.dtype(), loc);
    tensor.copy_(source, loc);
  }
}

}  // namespace tinytorch::inline TT_BUILD
#endif
