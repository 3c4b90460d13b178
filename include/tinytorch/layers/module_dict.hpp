// ModuleDict: modules by name, each of which is a child of the dictionary.
//
//   struct Net : tt::Module {
//     tt::ModuleDict heads;
//     Net() { add("heads", heads), heads.add("digit", tt::Linear(64, 10)), heads.add("color", tt::Linear(64,
//     3)); }
//   };
//   net.heads["digit"](x)
//
// Children are named by their keys, "heads.digit.weight", and are listed in order of insertion. Modules of
// one dictionary may have different types: at<Linear>("digit") gives one with its type.
#pragma once

#include <memory>
#include <string>
#include <tinytorch/layers/module.hpp>
#include <type_traits>
#include <utility>
#include <vector>

namespace tinytorch::inline TT_BUILD {

// A name with the caller's line, for operator[].
struct NameArg {
  std::string name;
  Loc loc;
  NameArg(const char* text, TT_LOC) : name(text), loc(loc) {}
  NameArg(std::string text, TT_LOC) : name(std::move(text)), loc(loc) {}
};

class ModuleDict : public Module {
 public:
  // Takes a module by move, or as a shared_ptr, which shares it. A name must be new, not empty and without
  // dots (TT-NN-02). The returned reference is valid for the lifetime of the dictionary.
  template <class M>
  auto& add(std::string name, M&& module, TT_LOC) {
    if constexpr (requires { module->forward(Tensor{}); }) {
      return put(std::move(name), std::shared_ptr(std::forward<M>(module)), loc);
    } else {
      static_assert(!std::is_lvalue_reference_v<M>,
                    "ModuleDict takes modules by move: write Linear(2, 3) in place, std::move(layer), or a "
                    "shared_ptr");
      return put(std::move(name), std::make_shared<M>(std::forward<M>(module)), loc);
    }
  }

  bool contains(const std::string& name) const { return find(name) != nullptr; }
  int64_t size() const { return static_cast<int64_t>(modules_.size()); }
  std::vector<std::string> keys() const {
    std::vector<std::string> names;
    for (const auto& [name, module] : modules_) names.push_back(name);
    return names;
  }
  // A name that is not in the dictionary is TT-NN-06.
  Module& operator[](const NameArg& key) const { return found(key.name, key.loc); }
  // Another type than that of the module is TT-NN-06, too.
  template <class M>
  M& at(const std::string& name, TT_LOC) const {
    if (M* const module = dynamic_cast<M*>(&found(name, loc))) return *module;
    fail("TT-NN-06", "the module '" + name + "' of this ModuleDict has another type", loc);
  }
  auto begin() const { return modules_.begin(); }  // pairs of name and shared_ptr
  auto end() const { return modules_.end(); }

 private:
  template <class M>
  M& put(std::string name, std::shared_ptr<M> module, Loc loc) {
    Module::add(name, module, loc);
    modules_.emplace_back(std::move(name), module);
    return *module;
  }
  Module* find(const std::string& name) const {
    for (const auto& [key, module] : modules_) {
      if (key == name) return module.get();
    }
    return nullptr;
  }
  Module& found(const std::string& name, Loc loc) const {
    if (Module* const module = find(name)) return *module;
    std::string names;
    for (const auto& [key, module] : modules_) names += (names.empty() ? "" : ", ") + key;
    fail("TT-NN-06",
         "there is no module '" + name + "' in a ModuleDict of " + (names.empty() ? "none" : names), loc);
  }

  std::vector<std::pair<std::string, std::shared_ptr<Module>>> modules_;
};

}  // namespace tinytorch::inline TT_BUILD
