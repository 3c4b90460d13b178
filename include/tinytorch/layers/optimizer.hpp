// Optimizer: changes parameters by their gradients. This is the part that SGD and Adam share: the list of
// parameters with their state, the learning rate, and saving both.
//
//   tt::AdamW optimizer(net.named_parameters(), {.lr = 1e-3});
//   optimizer.zero_grad(); loss.backward(); optimizer.step();
//
// A parameter of bf16 or f16 keeps an f32 copy here (its master): a step is often smaller than the distance
// to the next 16-bit value, and would be lost (Micikevicius et al., "Mixed precision training", 2018).
#pragma once

#include <cmath>
#include <tinytorch/layers/module.hpp>

namespace tinytorch::inline TT_BUILD {

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // Applies one update to every parameter that has a gradient.
  void step(TT_LOC) {
    NoGrad no_grad;
    for (Slot& slot : slots_) {
      Tensor gradient = slot.parameter.grad();
      if (!gradient) continue;
      if (gradient.dtype() != slot.master.dtype()) gradient = gradient.to(slot.master.dtype(), loc);
      if (!(slot.master.device().is_cuda() && backend::cuda::on_replay([&slot] { slot.step += 1; }))) {
        slot.step += 1;
      }
      update(slot, gradient.contiguous(loc));
      slot.master.storage()->bump_version();
      if (slot.master.storage() != slot.parameter.storage()) slot.parameter.copy_(slot.master, loc);
    }
  }
  void zero_grad() {
    for (Slot& slot : slots_) slot.parameter.zero_grad();
  }

  double lr() const { return lr_; }
  void set_lr(double lr, TT_LOC) {
    if (!(lr >= 0) || !std::isfinite(lr)) {
      fail("TT-OPT-03", "the learning rate must be a finite number >= 0, got " + std::to_string(lr), loc);
    }
    lr_ = lr;
  }
  Tensors parameters() const {
    Tensors all;
    for (const Slot& slot : slots_) all.push_back(slot.parameter);
    return all;
  }
  // Biases and normalization weights are often left out of weight decay:
  //   optimizer.exclude_from_weight_decay([](const NamedTensor& p) { return p.tensor.rank() < 2; });
  template <class Predicate>
  void exclude_from_weight_decay(Predicate&& predicate) {
    for (Slot& slot : slots_) {
      if (predicate(NamedTensor{slot.name, slot.parameter})) slot.weight_decay = 0;
    }
  }

  // "lr", and for every parameter "<name>.step", its state tensors such as "<name>.exp_avg", and
  // "<name>.master" when it has 16 bits. The tensors are the optimizer's own.
  StateDict state_dict() const {
    StateDict state{{"lr", from_data(std::vector<double>{lr_}, Shape{})}};
    for (const Slot& slot : slots_) {
      state.emplace(slot.name + ".step", from_data(std::vector<int64_t>{slot.step}, Shape{}));
      for (size_t i = 0; i < slot.state.size(); ++i) {
        state.emplace(slot.name + "." + state_names_[i], slot.state[i]);
      }
      if (slot.master.storage() != slot.parameter.storage())
        state.emplace(slot.name + ".master", slot.master);
    }
    return state;
  }
  void load_state_dict(const StateDict& state, TT_LOC) {
    StateDict own = state_dict();
    require_same_entries("load_state_dict", "this optimizer", own, state, loc);
    copy_entries(own, state, loc);
    set_lr(own.at("lr").item<double>(), loc);
    for (Slot& slot : slots_) slot.step = own.at(slot.name + ".step").item<int64_t>();
  }

 protected:
  struct Slot {
    std::string name;
    Tensor parameter;
    Tensor master;  // what is updated: the parameter itself, or its f32 copy
    Tensors state;  // one tensor per state name, shaped like master, starting at zero
    double weight_decay = 0;
    int64_t step = 0;  // updates so far
  };

  Optimizer(const NamedTensors& parameters, double lr, double weight_decay,
            std::vector<std::string> state_names, Loc loc)
      : state_names_(std::move(state_names)) {
    set_lr(lr, loc);
    if (!(weight_decay >= 0)) fail("TT-OPT-04", "weight_decay must be >= 0", loc);
    if (parameters.empty()) {
      fail("TT-OPT-05", "an optimizer needs at least one parameter\n  hint: pass net.named_parameters()",
           loc);
    }
    for (const NamedTensor& p : parameters) {
      const bool narrow = p.tensor.dtype() == DType::bf16 || p.tensor.dtype() == DType::f16;
      Tensor own = p.tensor.detach();
      Tensor master = narrow ? own.to(DType::f32, loc) : own;
      Slot slot{p.name, p.tensor, master, {}, weight_decay, 0};
      for (size_t i = 0; i < state_names_.size(); ++i) slot.state.push_back(zeros_like(master, loc));
      slots_.push_back(std::move(slot));
    }
  }

  // Where a captured CUDA graph looks the rate up before each replay; such a graph must not outlive this.
  const double& live_lr() const { return lr_; }

  // Updates slot.master and slot.state by a contiguous gradient of master's dtype. slot.step counts this one.
  virtual void update(Slot& slot, const Tensor& gradient) = 0;

 private:
  double lr_ = 0;
  std::vector<std::string> state_names_;
  std::vector<Slot> slots_;
};

}  // namespace tinytorch::inline TT_BUILD
