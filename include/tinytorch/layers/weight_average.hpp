// WeightAverage: an exponential moving average of a net's parameters, which often generalizes better than the
// last step.
//
//   tt::WeightAverage average(net.named_parameters(), {.decay = 0.999});
//   optimizer.step(); average.update();              // in training
//   { const auto use = average.use(); evaluate(net); }   // the net has the averages in this scope
//
// average = decay average + (1 - decay) parameter. The first update copies the parameters. Averages of 16-bit
// parameters are kept in f32, because 1 - decay is below their precision.
// Source: Polyak and Juditsky, 1992; Tarvainen and Valpola, "Mean teachers", 2017.
#pragma once

#include <algorithm>
#include <tinytorch/layers/module.hpp>
#include <tinytorch/tensor/rules.hpp>
#include <utility>

namespace tinytorch::inline TT_BUILD {

struct WeightAverageOptions {
  double decay = 0.999;
  // The decay of update t is at most (1 + t) / (10 + t), so that the first steps do not weigh for long.
  bool warmup = false;
};

class WeightAverage {
 public:
  // Throws TT-OPT-05 for an empty list and TT-OPT-07 unless decay is in [0, 1).
  explicit WeightAverage(const Tensors& parameters, WeightAverageOptions average_options = {}, TT_LOC)
      : WeightAverage(numbered(parameters), average_options, loc) {}
  explicit WeightAverage(const NamedTensors& parameters, WeightAverageOptions average_options = {}, TT_LOC)
      : options(average_options), parameters_(parameters), count_(zeros(Shape{}, i64, cpu, loc)) {
    if (!(options.decay >= 0 && options.decay < 1)) {
      fail("TT-OPT-07", "WeightAverage: decay must be in [0, 1), got " + std::to_string(options.decay), loc);
    }
    if (parameters.empty()) {
      fail("TT-OPT-05", "WeightAverage needs at least one parameter\n  hint: pass net.named_parameters()",
           loc);
    }
    NoGrad no_grad;
    for (const NamedTensor& p : parameters) {
      const Tensor own = p.tensor.detach();
      averages_.push_back(is_16_bit(own.dtype()) ? own.to(f32, loc) : own.clone(loc));
    }
  }

  // Moves the averages towards the parameters. Throws TT-OPT-14 while use() is in effect.
  void update(TT_LOC) {
    if (in_use()) {
      fail("TT-OPT-14",
           "WeightAverage: update() while the net has the averages\n  hint: end the scope of use() first",
           loc);
    }
    NoGrad no_grad;
    const int64_t before = updates();
    const double t = static_cast<double>(before);
    const double decay = options.warmup ? std::min(options.decay, (1 + t) / (10 + t)) : options.decay;
    for (size_t i = 0; i < averages_.size(); ++i) {
      const Tensor now = parameters_[i].tensor.detach().to(averages_[i].dtype(), loc);
      if (before == 0) {
        averages_[i].copy_(now, loc);
      } else {
        averages_[i].mul_(decay, loc).add_(now, 1 - decay, loc);
      }
    }
    count_.fill_(before + 1, loc);
  }
  int64_t updates() const { return count_.item<int64_t>(); }

  // Gives the net the averages until the returned object ends; the parameters then return bit for bit.
  class [[nodiscard]] Use {
   public:
    explicit Use(WeightAverage& average, Loc loc) : average_(average), loc_(loc) { average_.enter(loc); }
    ~Use() { average_.leave(loc_); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    WeightAverage& average_;
    Loc loc_;
  };
  Use use(TT_LOC) { return Use(*this, loc); }

  // "updates", and for every parameter its average by the parameter's name. The tensors share memory.
  StateDict state_dict() const {
    StateDict state{{"updates", count_}};
    for (size_t i = 0; i < averages_.size(); ++i) state.emplace(parameters_[i].name, averages_[i]);
    return state;
  }
  void load_state_dict(const StateDict& state, TT_LOC) {
    StateDict own = state_dict();
    require_same_entries("load_state_dict", "this average", own, state, loc);
    copy_entries(own, state, loc);
  }

  const WeightAverageOptions options;

 private:
  bool in_use() const { return !kept_.empty(); }
  void enter(Loc loc) {
    if (in_use()) {
      fail("TT-OPT-14", "WeightAverage: use() inside the scope of another use()\n  hint: one scope is enough",
           loc);
    }
    NoGrad no_grad;
    for (size_t i = 0; i < averages_.size(); ++i) {
      Tensor p = parameters_[i].tensor.detach();
      kept_.push_back(p.clone(loc));
      p.copy_(averages_[i], loc);
    }
  }
  void leave(Loc loc) {
    NoGrad no_grad;
    for (size_t i = 0; i < averages_.size(); ++i) parameters_[i].tensor.detach().copy_(kept_[i], loc);
    kept_.clear();
  }

  NamedTensors parameters_;
  Tensors averages_;
  Tensors kept_;  // the parameters while the net has the averages, else empty
  Tensor count_;  // i64 []: number of updates
};

}  // namespace tinytorch::inline TT_BUILD
