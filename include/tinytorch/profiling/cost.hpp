// How much work a piece of a program is, counted from its primitives, without timing anything.
#pragma once

#include <tinytorch/tensor/observer.hpp>

namespace tinytorch::inline TT_BUILD::profiling {

// Sums the FLOPs and bytes of what it observes, and counts how many ops that were. Each op begins with
// before() and ends with after(), which tells its cost, or with failed(), if it threw; work that is no op
// begins with begin_work() and ends with end_work().
//   What runs inside of an op or of such work is part of the cost that the outer one states: only the
//   outermost counts. One that failed was no work, whatever ran inside of it.
class CostCounter final : public OpObserver {
 public:
  void before(const PrimitiveBase&, const Tensors&) override { ++depth_; }
  void after(const PrimitiveBase&, const Tensors&, const Tensors&, Cost cost) override { end(cost); }
  void begin_work(const char*, Device) override { ++depth_; }
  void end_work(Cost cost) override { end(cost); }
  void failed(const PrimitiveBase&) override { --depth_; }

  Cost total() const { return total_; }
  int64_t ops() const { return ops_; }  // outermost ones

 private:
  // The innermost that is open has ended.
  void end(Cost cost) {
    if (--depth_ > 0) return;
    total_.flops += cost.flops;
    total_.bytes += cost.bytes;
    ops_ += 1;
  }

  int depth_ = 0;  // how many have begun and not ended
  Cost total_;
  int64_t ops_ = 0;
};

// The work of one call of f, and of nothing before or after it. Who observed before does so again afterwards,
// also if f throws (Observing sees to that).
template <class F>
Cost count_cost(F&& f) {
  CostCounter counter;
  const Observing observing(counter);
  f();
  return counter.total();
}

}  // namespace tinytorch::inline TT_BUILD::profiling
