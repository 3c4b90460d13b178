// Observers: what sees a thread's work as it happens. Profilers, counters and graph capture are observers.
//
//   ops        each call that passes the gate (tensor/apply.hpp), before and after
//   work       what is done past the gate, such as an optimizer's step
//   scopes     named spans around them: a module's forward pass, a part of a step
//   backward   of which recorded call the derivative is being computed
// A thread has one observer at a time. Without one, an op and a scope each pay one comparison. Scopes are
// ranges for Nsight as well (backend/cuda/runtime/runtime.hpp), where these are shown, which is one more.
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
  virtual void failed(const PrimitiveBase&) {}  // instead of after(): it threw
  // Work that is no op begins; the last one begun ends, and was so much.
  virtual void begin_work(const char* /*name*/, Device) {}
  virtual void end_work(Cost) {}
  // A scope begins; the innermost one ends. `owner` says whose it is, such as a module, or is null.
  virtual void enter(const char* /*name*/, const void* /*owner*/) {}
  virtual void leave() {}
  // Ops between these two compute the gradients of the node's inputs.
  virtual void begin_backward(const Node&) {}
  virtual void end_backward() {}
};

// The observer of this thread, or null.
inline OpObserver*& op_observer() {
  thread_local OpObserver* observer = nullptr;
  return observer;
}

// Until the end of the C++ scope `observer` sees this thread's work; the one before it sees nothing
// meanwhile.
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
// of a scope with an owner it is the owner's type, as typeid names it. Its range is "module Linear" or "scope
// evaluation", so that no reader takes it for an op's. Errors inside a scope whose `call` has a name say that
// name and the caller's line.
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
    if (observer_ && observer_ == op_observer()) observer_->leave();  // it may have gone meanwhile
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  OngoingCall call_;
  OpObserver* observer_;
  backend::cuda::RangeGuard range_;
};

// Work past the gate, until the end of the C++ scope. Whoever is observed fills in `cost`.
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

// The derivative of one recorded call, until the end of the C++ scope.
class BackwardScope {
 public:
  explicit BackwardScope(const Node& node) : observer_(op_observer()) {
    if (observer_) observer_->begin_backward(node);
  }
  ~BackwardScope() {
    if (observer_ && observer_ == op_observer()) observer_->end_backward();
  }
  BackwardScope(const BackwardScope&) = delete;
  BackwardScope& operator=(const BackwardScope&) = delete;

 private:
  OpObserver* observer_;
};

}  // namespace tinytorch::inline TT_BUILD
