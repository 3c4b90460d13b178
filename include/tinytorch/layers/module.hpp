// Module: a named tree of parameters and buffers. Every layer and every model is one.
//
//   struct Net : tt::Module {
//     tt::Linear hidden{784, 128}, out{128, 10};
//     Net() { add("hidden", hidden), add("out", out); }
//     tt::Tensor forward(const tt::Tensor& x) override { return out(relu(hidden(x))); }  // [B, 784] -> [B,
//     10]
//   };
//
// A parameter is trained; a buffer (a running mean) is only stored. Names are paths: "hidden.weight". The
// tree holds Tensor handles, so change a parameter by copy_, load_state_dict or to(), not by assigning a new
// Tensor.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <tinytorch/layers/state_dict.hpp>
#include <tinytorch/tensor/observer.hpp>
#include <typeinfo>
#include <utility>
#include <vector>

namespace tinytorch::inline TT_BUILD {

struct NamedTensor {
  std::string name;
  Tensor tensor;
};
using NamedTensors = std::vector<NamedTensor>;  // in order of registration

class Module {
 public:
  Module() = default;
  virtual ~Module() { move_places(nullptr); }
  Module(const Module&) = delete;  // two modules would train the same tensors unnoticed
  Module& operator=(const Module&) = delete;
  // A module may be moved, and so may one that others hold as a child: they follow it. A vector of layers may
  // grow.
  Module(Module&& other) { take(other); }
  Module& operator=(Module&& other) {
    if (this != &other) take(other);
    return *this;
  }

  virtual Tensor forward(const Tensor&);
  // forward(x). An error inside says the path of the layer where it happened, "blocks.3.attn.proj (Linear)",
  // and the caller's line.
  Tensor operator()(const Tensor& x, TT_LOC) {
    const Scope scope = forward_scope(loc);
    return forward(x);
  }

  // --- building the tree, in a constructor ---
  Tensor add_parameter(std::string name, Tensor value, TT_LOC);
  Tensor add_buffer(std::string name, Tensor value, TT_LOC);
  // A child that is a member of this module, or of something that lives as long; once it is gone, whoever
  // asks for it gets TT-NN-03.
  template <class M>
  M& add(std::string name, M& child, TT_LOC) {
    check_name(name, loc);
    children_.push_back({name, ChildLink(name, child)});
    return child;
  }
  // A child that this module owns, alone or together with others.
  template <class M>
  std::shared_ptr<M> add(std::string name, std::shared_ptr<M> child, TT_LOC) {
    check_name(name, loc);
    children_.push_back({name, ChildLink(name, child)});
    return child;
  }

  // --- the tree, flattened: own tensors first, then the children's in order of registration ---
  // A parameter that is registered twice (tied weights) appears once here, under its first name.
  NamedTensors named_parameters() const;
  NamedTensors named_buffers() const;
  Tensors parameters() const;
  int64_t parameter_count() const;
  // Calls f(path, module) for this module (path "") and everything below it.
  template <class F>
  void for_each_module(F&& f, const std::string& path = "") {
    f(path, *this);
    for (Child& c : children_) c.module->for_each_module(f, join(path, c.name));
  }

  // --- modes ---
  void train(bool on = true);
  void eval() { train(false); }
  bool training() const { return training_; }

  void zero_grad();

  // --- state ---
  // Parameters and buffers by path. The tensors are the module's own: clone() what must not change.
  StateDict state_dict() const;
  // Copies `state` into this module. Names and shapes must agree exactly; one message lists all that do not,
  // and then nothing has been changed. Floating values are converted to the module's dtype.
  void load_state_dict(const StateDict& state, TT_LOC);
  // Converts floating parameters and buffers (or moves all of them) in place; gradients are dropped. Make
  // optimizers after this, not before.
  void to(DType dtype, TT_LOC);
  void to(Device device, TT_LOC);
  // Where the first parameter lives; the default device when there is none.
  Device device() const;

 protected:
  // Opened first in a forward() with other arguments, which operator() does not see: profilers and errors
  // then know whose ops follow.
  Scope forward_scope(TT_LOC) const {
    return Scope(typeid(*this).name(), this, {nullptr, loc, this, path_in_outermost});
  }

 private:
  // Where a module lies in memory; nowhere, once it is gone.
  struct Place {
    Module* module;
  };
  // What leads to a child, wherever that has been moved.
  class ChildLink {
   public:
    ChildLink(const std::string& name, Module& member) : name_(name), place_(member.place()) {}
    ChildLink(const std::string& name, std::shared_ptr<Module> owned)
        : name_(name), owned_(std::move(owned)), place_(owned_->place()) {}
    Module* operator->() const {
      if (!place_->module) {
        fail("TT-NN-03", "the child '" + name_ +
                             "' of this module is gone, because what held it is\n  hint: keep layers as "
                             "members, in a ModuleList, or "
                             "with std::make_shared");
      }
      return place_->module;
    }

   private:
    std::string name_;
    std::shared_ptr<Module> owned_;
    std::shared_ptr<Place> place_;
  };
  struct Child {
    std::string name;
    ChildLink module;
  };

  std::shared_ptr<Place> place() {
    if (places_.empty()) places_.push_back(std::make_shared<Place>(Place{this}));
    return places_.front();
  }
  void move_places(Module* to) {
    for (const auto& p : places_) p->module = to;
  }

  // Where the called module lies in the outermost called one that holds it, and its type.
  static std::string path_in_outermost(const OngoingCall& call);
  static std::string join(const std::string& path, const std::string& name) {
    return path.empty() ? name : path + "." + name;
  }
  void check_name(const std::string& name, Loc loc) const;
  void take(Module& other);
  const Tensor* first_parameter() const;  // null when there is none
  void collect(NamedTensors Module::*group, const std::string& path, NamedTensors& out) const;
  template <class Convert>
  void convert_all(Convert&& convert);

  NamedTensors parameters_, buffers_;
  std::vector<Child> children_;
  std::vector<std::shared_ptr<Place>> places_;  // one, or several where one child was assigned to another
  bool training_ = true;
};

}  // namespace tinytorch::inline TT_BUILD

#if TT_BODIES(LAYERS)
namespace tinytorch::inline TT_BUILD {

TT_API Tensor Module::forward(const Tensor&) {
  fail("TT-NN-01",
       "this module has no forward(Tensor)\n  hint: override it, or call the module's own function");
}

TT_API Tensor Module::add_parameter(std::string name, Tensor value, Loc loc) {
  check_name(name, loc);
  value.named(name).requires_grad_(true, loc);
  parameters_.push_back({std::move(name), value});
  return value;
}

TT_API Tensor Module::add_buffer(std::string name, Tensor value, Loc loc) {
  check_name(name, loc);
  value.named(name);
  buffers_.push_back({std::move(name), value});
  return value;
}

TT_API NamedTensors Module::named_parameters() const {
  NamedTensors all, distinct;
  collect(&Module::parameters_, "", all);
  for (NamedTensor& p : all) {
    const auto same = [&](const NamedTensor& q) { return q.tensor.impl() == p.tensor.impl(); };
    if (std::none_of(distinct.begin(), distinct.end(), same)) distinct.push_back(std::move(p));
  }
  return distinct;
}

TT_API NamedTensors Module::named_buffers() const {
  NamedTensors all;
  collect(&Module::buffers_, "", all);
  return all;
}

TT_API Tensors Module::parameters() const {
  Tensors all;
  for (NamedTensor& p : named_parameters()) all.push_back(std::move(p.tensor));
  return all;
}

TT_API int64_t Module::parameter_count() const {
  int64_t count = 0;
  for (const NamedTensor& p : named_parameters()) count += p.tensor.numel();
  return count;
}

TT_API void Module::train(bool on) {
  for_each_module([on](const std::string&, Module& m) { m.training_ = on; });
}

TT_API void Module::zero_grad() {
  for (NamedTensor& p : named_parameters()) p.tensor.zero_grad();
}

TT_API StateDict Module::state_dict() const {
  NamedTensors all;
  collect(&Module::parameters_, "", all);
  collect(&Module::buffers_, "", all);
  StateDict state;
  for (const NamedTensor& t : all) state.emplace(t.name, t.tensor.detach());
  return state;
}

TT_API Device Module::device() const {
  const Tensor* const first = first_parameter();
  return first ? first->device() : default_device();
}
// Not parameters()[0]: a model that generates is asked for every token.
TT_API const Tensor* Module::first_parameter() const {
  if (!parameters_.empty()) return &parameters_.front().tensor;
  for (const Child& c : children_) {
    if (const Tensor* const found = c.module->first_parameter()) return found;
  }
  return nullptr;
}

TT_API void Module::collect(NamedTensors Module::*group, const std::string& path, NamedTensors& out) const {
  for (const NamedTensor& t : this->*group) out.push_back({join(path, t.name), t.tensor});
  for (const Child& c : children_) c.module->collect(group, join(path, c.name), out);
}

TT_API void Module::check_name(const std::string& name, Loc loc) const {
  bool taken = name.empty() || name.find('.') != std::string::npos;
  for (const NamedTensor& t : parameters_) taken = taken || t.name == name;
  for (const NamedTensor& t : buffers_) taken = taken || t.name == name;
  for (const Child& c : children_) taken = taken || c.name == name;
  if (taken) {
    fail("TT-NN-02",
         "cannot register '" + name + "': a name must be new in its module, not empty and without dots", loc);
  }
}

TT_API std::string Module::path_in_outermost(const OngoingCall& call) {
  const auto module_of = [](const OngoingCall& c) {
    return static_cast<Module*>(const_cast<void*>(c.callee));
  };
  Module* const module = module_of(call);
  std::string path;
  for (const OngoingCall* c = call.outer; c; c = c->outer) {
    if (c->name != path_in_outermost) continue;
    try {
      module_of(*c)->for_each_module(
          [&](const std::string& at, Module& m) { path = &m == module ? at : path; });
    } catch (const Error&) {  // a child of it is gone
    }
  }
  const std::string type = type_name(typeid(*module).name());
  return path.empty() ? type : path + " (" + type + ")";
}

TT_API void Module::take(Module& other) {
  places_.insert(places_.end(), other.places_.begin(), other.places_.end());
  other.places_.clear();
  move_places(this);
  parameters_ = std::move(other.parameters_);
  buffers_ = std::move(other.buffers_);
  children_ = std::move(other.children_);
  training_ = other.training_;
}

TT_API void Module::load_state_dict(const StateDict& state, Loc loc) {
  StateDict own = state_dict();
  require_same_entries("load_state_dict", "this module", own, state, loc);
  copy_entries(own, state, loc);
}

// Every holder of the handle must see the change, so the new storage is put into the same TensorImpl.
template <class Convert>
void Module::convert_all(Convert&& convert) {
  NoGrad no_grad;
  for (NamedTensors& group : std::vector<NamedTensors>{named_parameters(), named_buffers()}) {
    for (NamedTensor& t : group) {
      const Tensor converted = convert(t.tensor.detach()).contiguous();
      if (converted.storage() == t.tensor.storage()) continue;
      t.tensor.zero_grad();
      TensorImpl& impl = t.tensor.checked();
      impl.storage = converted.storage();
      impl.strides = converted.strides();
      impl.offset = converted.offset();
      impl.dtype = converted.dtype();
    }
  }
}
TT_API void Module::to(DType dtype, Loc loc) {
  if (!is_floating(dtype)) {
    fail("TT-NN-05",
         std::string("a module cannot be converted to ") + name_of(dtype) +
             "\n  hint: parameters are floating: f32, f64, bf16 or f16",
         loc);
  }
  convert_all([&](const Tensor& t) { return is_floating(t.dtype()) ? t.to(dtype, loc) : t; });
}
TT_API void Module::to(Device device, Loc loc) {
  convert_all([&](const Tensor& t) { return t.to(device, loc); });
}

}  // namespace tinytorch::inline TT_BUILD
#endif
