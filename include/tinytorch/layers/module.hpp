// Module: a named tree of parameters and buffers; the base class of every layer and model.
//
//   struct Net : tt::Module {
//     tt::Linear hidden{784, 128}, out{128, 10};
//     Net() { add("hidden", hidden), add("out", out); }
//     tt::Tensor forward(const tt::Tensor& x) override { return out(relu(hidden(x))); }  // x [B, 784]
//   };
//
// A parameter is trained; a buffer (a running mean) is only saved. Names are paths: "hidden.weight". The tree
// holds Tensor handles, so change a parameter by copy_, load_state_dict or to(), not by assigning a new
// Tensor.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
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
// Tensors by their positions, "0", "1", ..., for an optimizer that gets net.parameters(). Its state is then
// saved under positions, as PyTorch saves it; with net.named_parameters() it is saved under names.
inline NamedTensors numbered(const Tensors& tensors, size_t first = 0) {
  NamedTensors out;
  for (const Tensor& t : tensors) out.push_back({std::to_string(first + out.size()), t});
  return out;
}

// Counts the changes of modes of all modules of the process: train(), eval() and replace(). A compiled
// function looks whether it has changed since its capture.
inline std::atomic<uint64_t>& mode_changes() {
  static std::atomic<uint64_t> count{0};
  return count;
}

class Module {
 public:
  Module() = default;
  virtual ~Module() { move_places(nullptr); }
  Module(const Module&) = delete;  // a copy would train the same tensors as the original
  Module& operator=(const Module&) = delete;
  // A module can be moved, even if other modules have it as a child: their links follow it. So a vector of
  // layers may grow.
  Module(Module&& other) { take(other); }
  Module& operator=(Module&& other) {
    if (this != &other) take(other);
    return *this;
  }

  TT_API virtual Tensor forward(const Tensor&);
  // Calls forward(x). An error in it reports the path of the layer, "blocks.3.attn.proj (Linear)", and the
  // caller's line.
  Tensor operator()(const Tensor& x, TT_LOC) {
    const Scope scope = forward_scope(loc);
    if (call_hook_) call_hook_(x);
    return call_virtual<&Module::forward>(replacement_ ? *replacement_ : *this, x);
  }

  // --- building the tree, in a constructor ---
  Tensor add_parameter(std::string name, Tensor value, TT_LOC);
  Tensor add_buffer(std::string name, Tensor value, TT_LOC);
  // A buffer that to(dtype) does not convert, such as scales, which would lose their digits in 16 bits.
  Tensor add_exact_buffer(std::string name, Tensor value, TT_LOC);
  // Adds a child that is a member of this module, or that lives as long. An access to a child that has been
  // destroyed throws TT-NN-03.
  template <class M>
  M& add(std::string name, M& child, TT_LOC) {
    check_name(name, loc);
    children_.push_back({name, ChildLink(name, child)});
    return child;
  }
  // Adds a child that this module owns, alone or shared with others.
  template <class M>
  std::shared_ptr<M> add(std::string name, std::shared_ptr<M> child, TT_LOC) {
    check_name(name, loc);
    children_.push_back({name, ChildLink(name, child)});
    return child;
  }

  // --- another module in the place of this one, such as one with packed weights ---
  // Calls, the flattened tree, modes and moves go to `other`, under this module's path. Null: no longer.
  void replace(std::shared_ptr<Module> other) {
    replacement_ = std::move(other);
    ++mode_changes();
  }
  const std::shared_ptr<Module>& replacement() const { return replacement_; }
  // Drops the links to this module's own parameters, buffers and children, so that their memory is freed if
  // nobody else holds it. For a module that has been replaced for good.
  void forget_own_tensors() { parameters_.clear(), buffers_.clear(), exact_.clear(), children_.clear(); }
  // Calls f(x) before each call of this module, for observers of activations. Empty: no longer.
  void on_call(std::function<void(const Tensor&)> f) { call_hook_ = std::move(f); }

  // --- the flattened tree: own tensors first, then those of the children, in order of registration ---
  // A parameter that is registered twice (tied weights) is listed once, under its first name.
  NamedTensors named_parameters() const;
  NamedTensors named_buffers() const;
  Tensors parameters() const;
  int64_t parameter_count() const;
  // Calls f(path, module) for this module (path "") and for every module below it.
  template <class F>
  void for_each_module(F&& f, const std::string& path = "") {
    if (replacement_) return replacement_->for_each_module(f, path);
    f(path, *this);
    for (Child& c : children_) c.module->for_each_module(f, join(path, c.name));
  }

  // Without a gradient, the parameters are not trained: a frozen part of a network.
  void requires_grad_(bool on = true) {
    for (NamedTensor& p : named_parameters()) p.tensor.requires_grad_(on);
  }

  // --- modes ---
  void train(bool on = true);
  void eval() { train(false); }
  bool training() const { return training_; }

  void zero_grad();

  // --- state ---
  // Parameters and buffers by path. The tensors share memory with the module: clone() them to keep a copy.
  StateDict state_dict() const;
  // Copies `state` into this module. Names and shapes must be equal. A difference throws TT-NN-04 with a list
  // of all differences, before anything is changed. Floating-point values are converted to the dtype of the
  // module.
  void load_state_dict(const StateDict& state, TT_LOC);
  // Converts floating-point parameters and buffers to `dtype`, or moves all of them to `device`, in place.
  // The gradients of converted parameters are dropped. Construct optimizers after this call.
  void to(DType dtype, TT_LOC);
  void to(Device device, TT_LOC);
  // The device of the first parameter; the default device if there is none.
  Device device() const;

 protected:
  // A forward() with other arguments, which operator() does not call, must create this scope first, so that
  // profilers and errors can attribute the ops to this module.
  Scope forward_scope(TT_LOC) const {
    return Scope(typeid(*this).name(), this, {nullptr, loc, this, path_in_outermost});
  }

 private:
  // The current address of a module; null after it is destroyed.
  struct Place {
    Module* module;
  };
  // A link to a child that stays valid when the child is moved.
  class ChildLink {
   public:
    ChildLink(const std::string& name, Module& member) : name_(name), place_(member.place()) {}
    ChildLink(const std::string& name, std::shared_ptr<Module> owned)
        : name_(name), owned_(std::move(owned)), place_(owned_->place()) {}
    Module* operator->() const {
      if (!place_->module) {
        fail("TT-NN-03", "the child '" + name_ +
                             "' of this module was destroyed with its owner\n  hint: keep layers as "
                             "members, in a ModuleList, or with std::make_shared");
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

  // The path of the called module in the outermost called module that contains it, and its type.
  static std::string path_in_outermost(const OngoingCall& call);
  static std::string join(const std::string& path, const std::string& name) {
    return path.empty() ? name : path + "." + name;
  }
  void check_name(const std::string& name, Loc loc) const;
  void take(Module& other);
  const Tensor* first_parameter() const;  // null if there is none
  void collect(NamedTensors Module::*group, const std::string& path, NamedTensors& out) const;
  template <class Convert>
  void convert_all(Convert&& convert);

  NamedTensors parameters_, buffers_;
  Tensors exact_;  // the buffers that to(dtype) does not convert
  std::vector<Child> children_;
  std::vector<std::shared_ptr<Place>> places_;  // one; several after one child was assigned to another
  std::shared_ptr<Module> replacement_;         // null: none
  std::function<void(const Tensor&)> call_hook_;
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

TT_API Tensor Module::add_exact_buffer(std::string name, Tensor value, Loc loc) {
  add_buffer(std::move(name), value, loc);
  exact_.push_back(value);
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
  ++mode_changes();
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
// parameters()[0] would be too slow: generation calls this function for every token.
TT_API const Tensor* Module::first_parameter() const {
  if (replacement_) return replacement_->first_parameter();
  if (!parameters_.empty()) return &parameters_.front().tensor;
  for (const Child& c : children_) {
    if (const Tensor* const found = c.module->first_parameter()) return found;
  }
  return nullptr;
}

TT_API void Module::collect(NamedTensors Module::*group, const std::string& path, NamedTensors& out) const {
  if (replacement_) return replacement_->collect(group, path, out);
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
    } catch (const Error&) {  // one of its children was destroyed
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
  exact_ = std::move(other.exact_);
  children_ = std::move(other.children_);
  replacement_ = std::move(other.replacement_);
  call_hook_ = std::move(other.call_hook_);
  training_ = other.training_;
}

TT_API void Module::load_state_dict(const StateDict& state, Loc loc) {
  StateDict own = state_dict();
  require_same_entries("load_state_dict", "this module", own, state, loc);
  copy_entries(own, state, loc);
}

// The new storage is put into the existing TensorImpl, so that every holder of the handle sees the change.
template <class Convert>
void Module::convert_all(Convert&& convert) {
  NoGrad no_grad;
  for (NamedTensors& group : std::vector<NamedTensors>{named_parameters(), named_buffers()}) {
    for (NamedTensor& t : group) {
      const Tensor converted = convert(t.tensor).detach().contiguous();
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
  Tensors exact;
  for_each_module([&](const std::string&, Module& m) {
    for (const Tensor& t : m.exact_) exact.push_back(t);
  });
  convert_all([&](const Tensor& t) {
    const auto same = [&](const Tensor& e) { return e.impl() == t.impl(); };
    const bool keep = !is_floating(t.dtype()) || std::any_of(exact.begin(), exact.end(), same);
    return keep ? t : t.to(dtype, loc);
  });
}
TT_API void Module::to(Device device, Loc loc) {
  convert_all([&](const Tensor& t) { return t.to(device, loc); });
}

}  // namespace tinytorch::inline TT_BUILD
#endif
