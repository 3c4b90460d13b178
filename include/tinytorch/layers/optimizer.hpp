// Optimizer: updates parameters by their gradients. The base class of SGD and Adam holds the list of
// parameters with their state and the learning rate, and saves both.
//
//   tt::AdamW optimizer(net.named_parameters(), {.lr = 1e-3});
//   optimizer.zero_grad(); loss.backward(); optimizer.step();
//
// net.parameters() will do, too; the state is then saved under the positions of the parameters.
//
// It keeps an f32 copy (the master) of each bf16 or f16 parameter. An update is often smaller than the
// distance to the next 16-bit value, and would be lost in 16 bits. Source: Micikevicius et al., "Mixed
// precision training", 2018.
#pragma once

#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <tinytorch/backend/cpu/optimizer.hpp>
#include <tinytorch/backend/cuda/launch.hpp>
#include <tinytorch/layers/module.hpp>
#include <tinytorch/tensor/rules.hpp>

namespace tinytorch::inline TT_BUILD {

// Settings of some of an optimizer's parameters; an absent one is the optimizer's.
struct GroupOptions {
  std::optional<double> lr = {}, weight_decay = {};
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // Applies one update to every parameter that has a gradient.
  void step(TT_LOC);
  // step() with all gradients scaled so that their common norm is at most `limit` (clip.hpp), without a
  // change of grad(). If the norm is not finite, parameters, state and step counts stay as they are. Returns
  // the norm before clipping, f64 on the parameters' device, without waiting, so that a CUDA graph can
  // capture it. Throws TT-OPT-09 if limit <= 0, and TT-OPT-11 if the parameters are on several devices.
  Tensor step_clipped(double limit, TT_LOC);
  void zero_grad();
  // Calls f() after each step, which may be captured: pruning keeps zeros by it. Empty: no longer.
  void after_step(std::function<void()> f) { after_step_ = std::move(f); }

  // The learning rate and the step counts that updates use are stored on the parameters' device. So a replay
  // of a captured step increments the counts, and uses the rate of the last set_lr() outside of the capture.
  double lr() const { return lr_; }
  // Multiplies the rates of parameters that have their own by the same factor, so that a schedule moves all.
  void set_lr(double lr, TT_LOC);
  Tensors parameters() const;

  // Adds parameters, with their own rate or weight decay:
  //   optimizer.add_group(head.named_parameters(), {.lr = 1e-4});
  // Throws TT-OPT-12 for a tensor or name that it already has, TT-OPT-03 or TT-OPT-04 for a negative rate or
  // decay, or for a rate of its own while the optimizer's rate is 0. Without names, positions go on counting.
  void add_group(const NamedTensors& parameters, const GroupOptions& options = {}, TT_LOC);
  void add_group(const Tensors& added, const GroupOptions& options = {}, TT_LOC) {
    add_group(numbered(added, slots_.size()), options, loc);
  }
  // Gives some parameters their own rate or weight decay. Returns the number of parameters:
  //   optimizer.set_group([](const NamedTensor& p) { return p.tensor.rank() < 2; }, {.weight_decay = 0});
  template <class Predicate>
  int64_t set_group(Predicate&& predicate, const GroupOptions& options, TT_LOC) {
    int64_t count = 0;
    for (Slot& slot : slots_) {
      if (!predicate(NamedTensor{slot.name, slot.parameter})) continue;
      set_options(slot, options, loc);
      ++count;
    }
    return count;
  }
  // Biases and normalization weights are often excluded from weight decay.
  template <class Predicate>
  void exclude_from_weight_decay(Predicate&& predicate) {
    set_group(predicate, {.weight_decay = 0});
  }

  // "lr", and for every parameter "<name>.step", its state tensors such as "<name>.exp_avg", and, if it has
  // 16 bits, "<name>.master". The tensors share memory with the optimizer.
  StateDict state_dict() const;
  void load_state_dict(const StateDict& state, TT_LOC);

 protected:
  struct Slot {
    std::string name;
    Tensor parameter;
    Tensor master;  // the updated tensor: the parameter itself, or its f32 copy
    Tensors state;  // one tensor per state name, initially initial_state, with the shape of master
    double weight_decay = 0;
    Tensor step;      // i64 []: number of updates so far
    double rate = 1;  // the parameter's learning rate divided by the optimizer's
  };
  // A slot and its gradient, in the memory layout of the master, and in the dtype of the master or of the
  // parameter.
  struct Update {
    Slot* slot;
    Tensor gradient;
    bool rounded = false;  // true if the update also writes the 16-bit parameter
  };
  using Updates = std::vector<Update>;

  Optimizer(const NamedTensors& parameters, double lr, double weight_decay,
            std::vector<std::string> state_names, Loc loc, double initial_state = 0);

  // Updates slot.master and slot.state by a gradient of their dtype and layout. slot.step counts this update
  // already. A derived optimizer defines this function or update_all().
  TT_API virtual void update(Slot&, const Tensor&);
  // Updates slots of one device and rate, and counts the step. `scalars` is indexed by backend::StepScalar.
  // With `clip`, gradients are multiplied by scalars[kGradientFactor], and a NaN there changes nothing. The
  // default calls update() for each slot; most optimizers need one kernel for all.
  TT_API virtual void update_all(Updates& updates, const Tensor& scalars, bool clip, Loc loc);
  // Throws for a parameter that add_group() must refuse.
  virtual void require_parameter(const NamedTensor&, Loc) const {}
  // The arguments of the kernels. The kernels write the contiguous 16-bit parameters too.
  static std::vector<backend::OptimizerSlot> slots_of(Updates& updates);

 private:
  // Counts each element that is read and each that is written, and about two FLOPs for each.
  static Cost cost_of(const Updates& updates);
  // The slots of one device and rate, which one call of update_all() updates.
  struct Group {
    Device device;
    double rate;
    Tensor scalars;  // f64, by backend::StepScalar
  };

  static bool has_master(const Slot& slot) { return slot.master.storage() != slot.parameter.storage(); }

  // Throws TT-OPT-01 unless the gradient has the shape and device of the master.
  static void require_matching(const Slot& slot, const Tensor& gradient, Loc loc);

  void add_slots(const NamedTensors& parameters, Loc loc);
  void set_options(Slot& slot, const GroupOptions& options, Loc loc);
  void write_lr(Group& group, Loc loc);
  Group& group_of(const Slot& slot, Loc loc);
  Updates updates_of(const Group& group, Loc loc);
  void update_group(Group& group, Updates updates, bool clip, Loc loc);

  double lr_ = 0, weight_decay_ = 0, initial_state_ = 0;
  std::vector<std::string> state_names_;
  std::vector<Slot> slots_;
  std::vector<Group> groups_;
  std::function<void()> after_step_;
};

}  // namespace tinytorch::inline TT_BUILD

#if TT_BODIES(LAYERS)
#include <tinytorch/layers/trainable.hpp>

namespace tinytorch::inline TT_BUILD {

TT_API void Optimizer::step(Loc loc) {
  NoGrad no_grad;
  for (Group& group : groups_) update_group(group, updates_of(group, loc), false, loc);
  if (after_step_) after_step_();
}

TT_API Tensor Optimizer::step_clipped(double limit, Loc loc) {
  if (!(limit > 0)) fail("TT-OPT-09", "step_clipped: the limit must be above 0", loc);
  Group& first = groups_.front();
  for (const Group& group : groups_) {
    if (group.device == first.device) continue;
    fail("TT-OPT-11",
         "step_clipped: the parameters are on several devices\n  hint: clip_gradient_norm, then step()", loc);
  }
  NoGrad no_grad;
  std::vector<Updates> updates;
  std::vector<backend::View> gradients;
  for (const Group& group : groups_) {
    updates.push_back(updates_of(group, loc));
    for (const Update& update : updates.back()) gradients.push_back(update.gradient.view_of());
  }
  {
    const backend::cuda::DeviceGuard on_device(first.device, loc);
    ObservedWork work("gradient norm", first.device);
    const backend::cuda::RangeGuard range("gradient norm");
    for (const backend::View& g : gradients) {
      work.cost.flops += 2 * static_cast<double>(g.numel());
      work.cost.bytes += static_cast<double>(g.numel()) * static_cast<double>(size_of(g.dtype));
    }
    TT_KERNEL(first.scalars, gradient_factor(first.scalars.view_of(), gradients, limit));
    const auto factor_and_norm = [&](const Group& group) {
      return group.scalars.slice(0, backend::kGradientFactor, backend::kStepScalarCount, 1, loc);
    };
    for (size_t i = 1; i < groups_.size(); ++i) {
      factor_and_norm(groups_[i]).copy_(factor_and_norm(first), loc);
    }
  }
  for (size_t i = 0; i < groups_.size(); ++i) update_group(groups_[i], std::move(updates[i]), true, loc);
  if (after_step_) after_step_();
  return first.scalars.select(0, backend::kGradientNorm, loc).clone(loc);
}

TT_API void Optimizer::zero_grad() {
  for (Slot& slot : slots_) slot.parameter.zero_grad();
}

TT_API void Optimizer::set_lr(double lr, Loc loc) {
  require_rate(lr, loc);
  lr_ = lr;
  for (Group& group : groups_) write_lr(group, loc);
}

TT_API Tensors Optimizer::parameters() const {
  Tensors all;
  for (const Slot& slot : slots_) all.push_back(slot.parameter);
  return all;
}

TT_API StateDict Optimizer::state_dict() const {
  StateDict state{{"lr", from_data(std::vector<double>{lr_}, Shape{})}};
  for (const Slot& slot : slots_) {
    state.emplace(slot.name + ".step", slot.step);
    for (size_t i = 0; i < slot.state.size(); ++i) {
      state.emplace(slot.name + "." + state_names_[i], slot.state[i]);
    }
    if (has_master(slot)) state.emplace(slot.name + ".master", slot.master);
  }
  return state;
}

TT_API void Optimizer::load_state_dict(const StateDict& state, Loc loc) {
  StateDict own = state_dict();
  require_same_entries("load_state_dict", "this optimizer", own, state, loc);
  copy_entries(own, state, loc);
  set_lr(own.at("lr").item<double>(), loc);
}

TT_API Optimizer::Optimizer(const NamedTensors& parameters, double lr, double weight_decay,
                            std::vector<std::string> state_names, Loc loc, double initial_state)
    : weight_decay_(weight_decay), initial_state_(initial_state), state_names_(std::move(state_names)) {
  set_lr(lr, loc);
  require_weight_decay(weight_decay, loc);
  if (parameters.empty()) {
    fail("TT-OPT-05", "an optimizer needs at least one parameter\n  hint: pass net.named_parameters()", loc);
  }
  require_trainable(parameters, loc);
  add_slots(parameters, loc);
}

TT_API void Optimizer::add_slots(const NamedTensors& parameters, Loc loc) {
  NoGrad no_grad;
  for (const NamedTensor& p : parameters) {
    const bool narrow = is_16_bit(p.tensor.dtype());
    Tensor own = p.tensor.detach();
    Tensor master = narrow ? own.to(DType::f32, loc) : own;
    Slot slot{p.name, p.tensor, master, {}, weight_decay_, zeros(Shape{}, i64, master.device(), loc)};
    for (size_t i = 0; i < state_names_.size(); ++i) {
      slot.state.push_back(zeros_like(master, loc).fill_(initial_state_, loc));
    }
    group_of(slot, loc);
    slots_.push_back(std::move(slot));
  }
}

TT_API void Optimizer::add_group(const NamedTensors& parameters, const GroupOptions& options, Loc loc) {
  NamedTensors all;
  for (const Slot& slot : slots_) all.push_back({slot.name, slot.parameter});
  for (const NamedTensor& p : parameters) {
    require_parameter(p, loc);
    for (const NamedTensor& known : all) {
      if (known.name != p.name) continue;
      fail("TT-OPT-12",
           "add_group: the optimizer has a parameter '" + p.name +
               "' already\n  hint: names distinguish the entries of state_dict(); rename the new ones",
           loc);
    }
    all.push_back(p);
  }
  require_trainable(all, loc);
  require_group(options.lr, options.weight_decay, lr_, loc);  // before anything is added
  const size_t before = slots_.size();
  add_slots(parameters, loc);
  for (size_t i = before; i < slots_.size(); ++i) set_options(slots_[i], options, loc);
}

TT_API void Optimizer::set_options(Slot& slot, const GroupOptions& options, Loc loc) {
  require_group(options.lr, options.weight_decay, lr_, loc);
  if (options.weight_decay) slot.weight_decay = *options.weight_decay;
  if (!options.lr) return;
  slot.rate = *options.lr / lr_;
  group_of(slot, loc);
}

// The group of the slot's device and rate, which is added if there is none.
TT_API Optimizer::Group& Optimizer::group_of(const Slot& slot, Loc loc) {
  const Device device = slot.master.device();
  for (Group& group : groups_) {
    if (group.device == device && group.rate == slot.rate) return group;
  }
  groups_.push_back({device, slot.rate, zeros({backend::kStepScalarCount}, f64, device, loc)});
  write_lr(groups_.back(), loc);
  return groups_.back();
}

TT_API void Optimizer::update(Slot&, const Tensor&) {
  fail("TT-OPT-10", "this optimizer defines neither update() nor update_all()");
}

TT_API void Optimizer::update_all(Updates& updates, const Tensor& scalars, bool clip, Loc loc) {
  const double factor =
      clip ? scalars.select(0, backend::kGradientFactor, loc).template item<double>(loc) : 1.0;
  if (std::isnan(factor)) return;
  for (Update& u : updates) {
    Tensor gradient = u.gradient.to(u.slot->master.dtype(), loc);
    if (factor != 1) gradient = gradient.clone(loc).mul_(factor, loc);
    u.slot->step.add_(ones(Shape{}, i64, u.slot->step.device(), loc), 1, loc);
    call_virtual<&Optimizer::update>(*this, *u.slot, gradient);
  }
}

TT_API std::vector<backend::OptimizerSlot> Optimizer::slots_of(Updates& updates) {
  std::vector<backend::OptimizerSlot> slots;
  for (Update& u : updates) {
    const Slot& slot = *u.slot;
    // If the master is contiguous in another order than row-major, gradient and state have the same order,
    // and all of them are passed as flat arrays.
    const bool row_major = slot.master.is_contiguous(),
               flat = !row_major && backend::is_dense(slot.master.shape(), slot.master.strides());
    const auto view = [flat](const Tensor& t) {
      return flat ? backend::View{t.view_of().data, t.dtype(), {t.numel()}, {1}} : t.view_of();
    };
    u.rounded = has_master(slot) && row_major && slot.parameter.is_contiguous();
    backend::OptimizerSlot out{view(slot.master),   view(u.gradient), {}, {},
                               slot.step.view_of(), slot.weight_decay};
    for (size_t i = 0; i < slot.state.size(); ++i) out.state[i] = view(slot.state[i]);
    if (u.rounded) out.rounded = slot.parameter.view_of();
    slots.push_back(out);
  }
  return slots;
}

TT_API void Optimizer::require_matching(const Slot& slot, const Tensor& gradient, Loc loc) {
  if (gradient.shape() == slot.master.shape() && gradient.device() == slot.master.device() &&
      slot.parameter.device() == slot.master.device()) {
    return;
  }
  fail("TT-OPT-01",
       "step: the gradient of '" + slot.name + "', " + gradient.describe() +
           ", does not match the parameter that the optimizer was given, " + slot.master.describe() +
           "\n  hint: make the optimizer after net.to(...); a gradient set by hand has the parameter's "
           "shape",
       loc);
}

TT_API void Optimizer::write_lr(Group& group, Loc loc) {
  NoGrad no_grad;
  group.scalars.select(0, backend::kLearningRate, loc).fill_(group.rate * lr_, loc);
}

TT_API Optimizer::Updates Optimizer::updates_of(const Group& group, Loc loc) {
  Updates updates;
  for (Slot& slot : slots_) {
    Tensor gradient = slot.parameter.grad();
    if (!gradient.defined() || slot.master.device() != group.device || slot.rate != group.rate) continue;
    require_matching(slot, gradient, loc);
    const DType dtype = gradient.dtype();
    if (dtype != slot.master.dtype() && dtype != slot.parameter.dtype()) {
      gradient = gradient.to(slot.master.dtype(), loc);
    }
    updates.push_back({&slot, with_layout_of(slot.master, gradient, loc)});
  }
  return updates;
}

TT_API Cost Optimizer::cost_of(const Updates& updates) {
  Cost cost;
  for (const Update& u : updates) {
    const auto bytes = [](const Tensor& t) { return static_cast<double>(t.bytes()); };
    const auto states = static_cast<double>(u.slot->state.size());
    cost.bytes += bytes(u.gradient) + (2 + 2 * states) * bytes(u.slot->master);
    if (has_master(*u.slot)) cost.bytes += bytes(u.slot->parameter);
    cost.flops += 2 * (3 + 2 * states) * static_cast<double>(u.slot->master.numel());
  }
  return cost;
}

TT_API void Optimizer::update_group(Group& group, Updates updates, bool clip, Loc loc) {
  if (updates.empty()) return;
  const backend::cuda::DeviceGuard on_device(group.device, loc);
  ObservedWork work("optimizer step", group.device);
  const backend::cuda::RangeGuard range("optimizer step");
  if (work.observed()) work.cost = cost_of(updates);
  call_virtual<&Optimizer::update_all>(*this, updates, group.scalars, clip, loc);
  for (const Update& u : updates) {
    Slot& slot = *u.slot;
    slot.master.storage()->bump_version();
    if (u.rounded) {
      slot.parameter.storage()->bump_version();
    } else if (has_master(slot)) {
      slot.parameter.copy_(slot.master, loc);
    }
  }
}

}  // namespace tinytorch::inline TT_BUILD
#endif
