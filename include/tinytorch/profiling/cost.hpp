// The work of a piece of a program, in FLOPs and bytes, counted from its primitives without timing.
#pragma once

#include <tinytorch/tensor/observer.hpp>

namespace tinytorch::inline TT_BUILD::profiling {

// Sums the FLOPs and bytes of the observed ops, and counts these ops. Each op begins with before() and ends
// with after(), which reports its cost, or with failed() if it threw. Work that is not an op begins with
// begin_work() and ends with end_work(). The cost of an op or of such work includes everything that runs
// inside it, so only the outermost one counts. Nothing counts of one that failed.
class CostCounter final : public OpObserver {
 public:
  void before(const PrimitiveBase&, const Tensors&) override { ++depth_; }
  void after(const PrimitiveBase&, const Tensors&, const Tensors&, Cost cost) override { end(cost); }
  void begin_work(const char*, Device) override { ++depth_; }
  void end_work(Cost cost) override { end(cost); }
  void failed(const PrimitiveBase&) override { --depth_; }

  Cost total() const { return total_; }
  int64_t ops() const { return ops_; }  // outermost ones only

 private:
  // The innermost open op or work has ended.
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

// The cost of one call of f. The previous observer is restored afterwards, also if f throws (by Observing).
template <class F>
Cost count_cost(F&& f) {
  CostCounter counter;
  const Observing observing(counter);
  f();
  return counter.total();
}

}  // namespace tinytorch::inline TT_BUILD::profiling
