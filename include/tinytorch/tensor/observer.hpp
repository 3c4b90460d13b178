// Observers of a thread's operations, for profilers, counters and graph capture.
//
//   ops        each operation that apply() runs (tensor/apply.hpp), before and after
//   work       work outside of apply(), such as an optimizer's step
//   scopes     named spans around operations: a module's forward pass, a part of a training step
//   backward   the recorded operation whose derivative is being computed
// A thread has at most one observer. Without one, an operation and a scope each cost one comparison. Scopes
// are also NVTX ranges for Nsight (backend/cuda/runtime/runtime.hpp), which costs one more comparison.
#pragma once

#include <string>
#include <tinytorch/core/type_name.hpp>
#include <tinytorch/tensor/primitive.hpp>
#include <utility>

namespace tinytorch::inline TT_BUILD {

struct Node;

class OpObserver {
 public:
  virtual ~OpObserver() = default;
  virtual void before(const PrimitiveBase&, const Tensors& /*inputs*/) {}
  virtual void after(const PrimitiveBase& op, const Tensors& inputs, const Tensors& outputs, Cost cost) = 0;
  virtual void failed(const PrimitiveBase&) {}  // called instead of after() if the operation threw
  // True if an operation on these inputs allocates its results, but computes no element of them: a rehearsal
  // of the program (acceleration/rehearsal.hpp).
  virtual bool rehearses(const Tensors& /*inputs*/) const { return false; }
  // The elements of `destination` will be overwritten with the result of `op`, broadcast to its shape. The
  // destination may be one of the inputs.
  virtual void writing(const PrimitiveBase& /*op*/, const Tensor& /*destination*/,
                       const Tensors& /*inputs*/) {}
  // The elements of a tensor were written in place.
  virtual void wrote(const Tensor& /*destination*/, Loc) {}
  // Work outside of apply() begins; the work begun last ends, with its cost.
  virtual void begin_work(const char* /*name*/, Device) {}
  virtual void end_work(Cost) {}
  // A scope begins; the innermost scope ends. `owner` is the object that it belongs to, such as a module, or
  // null.
  virtual void enter(const char* /*name*/, const void* /*owner*/) {}
  virtual void leave() {}
  // Operations between these two calls compute the gradients of the node's inputs.
  virtual void begin_backward(const Node&) {}
  virtual void end_backward() {}
  // Called before end_backward(), when the derivative has computed `results` from `gradients`. Undefined
  // tensors mean zero.
  virtual void differentiated(const Node&, const Tensors& /*gradients*/, const Tensors& /*results*/) {}
};

// The observer of this thread, or null.
inline OpObserver*& op_observer() {
  thread_local OpObserver* observer = nullptr;
  return observer;
}

// Tells the observer what an in-place write, which follows, computes. A write without this announcement
// cannot be captured.
inline void announce_write(const PrimitiveBase& op, const Tensor& destination, const Tensors& inputs) {
  if (OpObserver* const observer = op_observer()) observer->writing(op, destination, inputs);
}
// Counts an in-place write to t's elements, which the caller has made.
inline void count_write(const Tensor& t, Loc loc) {
  t.storage()->bump_version();
  if (OpObserver* const observer = op_observer()) observer->wrote(t, loc);
}

// Makes `observer` the observer of this thread until the end of the C++ scope. The previous observer is
// suspended until then.
class Observing {
 public:
  explicit Observing(OpObserver& observer) : before_(std::exchange(op_observer(), &observer)) {}
  ~Observing() { op_observer() = before_; }
  Observing(const Observing&) = delete;
  Observing& operator=(const Observing&) = delete;

 private:
  OpObserver* before_;
};

// A named span of the program, until the end of the C++ scope. Scopes nest. `name` must outlive the observer;
// if there is an owner, it is the mangled name of the owner's type, from typeid. The Nsight range is called
// "module Linear" or "scope evaluation", so that it cannot be mistaken for an operation. If `call` has a
// name, errors inside the scope contain that name and the caller's line.
class Scope {
 public:
  explicit Scope(const char* name, const void* owner = nullptr, OngoingCall call = {})
      : call_(call),
        observer_(op_observer()),
        range_([&] { return owner ? "module " + type_name(name) : "scope " + std::string(name); }) {
    if (observer_) observer_->enter(name, owner);
    if (!call_.name) return;
    call_.outer = ongoing_call();
    ongoing_call() = &call_;
  }
  ~Scope() {
    if (call_.name) ongoing_call() = call_.outer;
    if (observer_ && observer_ == op_observer()) observer_->leave();  // the observer may have been replaced
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  OngoingCall call_;
  OpObserver* observer_;
  backend::cuda::RangeGuard range_;
};

// Work outside of apply(), until the end of the C++ scope. If observed(), the caller fills in `cost`.
class ObservedWork {
 public:
  ObservedWork(const char* name, Device device) : observer_(op_observer()) {
    if (observer_) observer_->begin_work(name, device);
  }
  ~ObservedWork() {
    if (observer_ && observer_ == op_observer()) observer_->end_work(cost);
  }
  ObservedWork(const ObservedWork&) = delete;
  ObservedWork& operator=(const ObservedWork&) = delete;

  bool observed() const { return observer_ != nullptr; }
  Cost cost;

 private:
  OpObserver* observer_;
};

// The computation of one recorded operation's derivative, until the end of the C++ scope.
class BackwardScope {
 public:
  explicit BackwardScope(const Node& node) : node_(node), observer_(op_observer()) {
    if (observer_) observer_->begin_backward(node);
  }
  ~BackwardScope() {
    if (observer_ && observer_ == op_observer()) observer_->end_backward();
  }
  BackwardScope(const BackwardScope&) = delete;
  BackwardScope& operator=(const BackwardScope&) = delete;

  void gave(const Tensors& gradients, const Tensors& results) const {
    if (observer_ && observer_ == op_observer()) observer_->differentiated(node_, gradients, results);
  }

 private:
  const Node& node_;
  OpObserver* observer_;
};

}  // namespace tinytorch::inline TT_BUILD
