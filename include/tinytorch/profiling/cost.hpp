// How much work a piece of a program is, counted from its primitives, without timing anything.
#pragma once

#include <tinytorch/tensor/observer.hpp>

namespace tinytorch::inline TT_BUILD::profiling {

// Sums the FLOPs and bytes that primitives state. Ops that another op calls are part of what that one states.
class CostCounter final : public OpObserver {
 public:
  void before(const PrimitiveBase&, const Tensors&) override { ++depth_; }
  void after(const PrimitiveBase&, const Tensors&, const Tensors&, Cost cost) override { end(cost); }
  void begin_work(const char*, Device) override { ++depth_; }
  void end_work(Cost cost) override { end(cost); }
  void failed(const PrimitiveBase&) override { --depth_; }

  Cost total() const { return total_; }
  int64_t ops() const { return ops_; }

 private:
  void end(Cost cost) {
    if (--depth_ > 0) return;
    total_.flops += cost.flops;
    total_.bytes += cost.bytes;
    ops_ += 1;
  }

  int depth_ = 0;
  Cost total_;
  int64_t ops_ = 0;
};

// The work of one call of f.
template <class F>
Cost count_cost(F&& f) {
  CostCounter counter;
  const Observing observing(counter);
  f();
  return counter.total();
}

}  // namespace tinytorch::inline TT_BUILD::profiling
