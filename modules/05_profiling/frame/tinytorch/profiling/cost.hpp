// The work of a piece of a program, in FLOPs and bytes, counted from its primitives without timing.
//
// The frame of a course header: it has the given parts, and includes the functions of task 5.2. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <tinytorch/tensor/observer.hpp>

namespace tinytorch::inline TT_BUILD::profiling {

// Sums the FLOPs and bytes of the observed ops, and counts these ops. Each op begins with before() and ends
// with after(), which reports its cost, or with failed() if it threw. Work that is not an op begins with
// begin_work() and ends with end_work(). The cost of an op or of such work includes everything that runs
// inside it, so only the outermost one counts. Nothing counts of one that failed.
class CostCounter final : public OpObserver {
 public:
  inline void before(const PrimitiveBase&, const Tensors&) override;                            // task 5.2
  inline void after(const PrimitiveBase&, const Tensors&, const Tensors&, Cost cost) override;  // task 5.2
  inline void begin_work(const char*, Device) override;                                         // task 5.2
  inline void end_work(Cost cost) override;                                                     // task 5.2
  inline void failed(const PrimitiveBase&) override;                                            // task 5.2

  Cost total() const { return total_; }
  int64_t ops() const { return ops_; }  // outermost ones only

 private:
  void end(Cost cost);  // task 5.2, where you may define it

  int depth_ = 0;  // how many have begun and not ended
  Cost total_;
  int64_t ops_ = 0;
};

template <class F>
Cost count_cost(F&& f);  // task 5.2

}  // namespace tinytorch::inline TT_BUILD::profiling

#include <tasks/profiling/cost.hpp>
