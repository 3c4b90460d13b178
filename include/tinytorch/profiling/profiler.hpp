// Profiler: records every op of this thread from its construction to finish().
//
//   profiling::Profiler profiler(model);
//   model.loss(tokens, targets).backward();
//   const profiling::Profile profile = profiler.finish();
//
// An op on the CPU is timed by the clock; an op on a GPU by a pair of events in its stream, which are read at
// the end, so that nothing waits in between. A gap in the stream before an op's first kernel counts as time
// of the op: the host did not supply work in time. An op of the backward pass belongs to the module of its
// forward op.
#pragma once

#include <optional>
#include <string>
#include <tinytorch/backend/cuda/runtime/runtime.hpp>
#include <tinytorch/benchmarking/clock.hpp>
#include <tinytorch/core/type_name.hpp>
#include <tinytorch/layers/module.hpp>
#include <tinytorch/profiling/profile.hpp>
#include <tinytorch/tensor/graph.hpp>
#include <unordered_map>
#include <vector>

namespace tinytorch::inline TT_BUILD::profiling {

class Profiler final : public OpObserver {
 public:
  Profiler() { begin(); }
  // Scopes of modules are named by their path in `model`; the model itself is "model".
  explicit Profiler(Module& model) {
    model.for_each_module([&](const std::string& path, Module& m) {
      path_of_[&m] = static_cast<int32_t>(paths_.size());
      paths_.push_back(path.empty() ? "model" : path);
    });
    begin();
  }

  // Stops observing and waits for the devices. Call it once.
  Profile finish() {
    observing_.reset();
    close_scopes(0);
    for (const Timed& t : timed_) read(t);
    add_to_callers();
    profile_.seconds = clock_() - start_;
    return std::move(profile_);
  }

  // The current module and op of the thread: "blocks.0.mlp linear"; "linear" outside of a module, "" outside
  // of any op and scope.
  std::string where() const {
    const int32_t op = open_ops_.empty() ? -1 : open_ops_.back();
    const int32_t scope = op < 0 ? scope_of_next_op() : profile_.ops[static_cast<size_t>(op)].scope;
    std::string text = profile_.scopes[static_cast<size_t>(scope)].path;
    if (op < 0) return text;
    const OpRecord& record = profile_.ops[static_cast<size_t>(op)];
    return text + (text.empty() ? "" : " ") + record.name + (record.backward ? " (backward)" : "");
  }

  // ---- callbacks of ops, scopes and the backward pass

  void before(const PrimitiveBase& op, const Tensors& inputs) override {
    OpRecord record;
    record.name = op.name();
    for (const Tensor& t : inputs) {
      record.inputs.push_back(t.defined() ? t.shape() : Shape{});
      if (t.defined()) record.device = t.device();
    }
    begin_op(std::move(record));
  }
  void after(const PrimitiveBase&, const Tensors&, const Tensors& outputs, Cost cost) override {
    OpRecord* const record = end_op(cost);
    if (!record) return;
    record->dtype = outputs[0].dtype();
    if (const auto& state = outputs[0].impl()->grad_state; state && state->producer)
      forward_scopes_[state->producer.get()] = record->scope;
  }
  // The innermost op threw. Its record stays in the profile, without time and work. An op that began before
  // the profiler is ignored.
  void failed(const PrimitiveBase&) override {
    if (open_ops_.empty()) return;
    drop_events(open_ops_.back());
    open_ops_.pop_back();
  }
  void begin_work(const char* name, Device device) override {
    OpRecord record;
    record.name = name;
    record.device = device;
    begin_op(std::move(record));
  }
  void end_work(Cost cost) override { end_op(cost); }

  // A scope begins, and new_scope() makes its record. But if the innermost open scope has the same owner (not
  // null), both are the same call (operator() and then forward(x, more)): the new scope shares the record,
  // which ends with the outer one.
  void enter(const char* name, const void* owner) override {
    const bool again = owner && owner == open_scopes_.back().owner;
    open_scopes_.push_back({again ? open_scopes_.back().index : new_scope(name, owner), owner, !again});
  }
  // The innermost scope ends (close_scopes(left) keeps `left` scopes open). The root, which is the first,
  // stays open.
  void leave() override {
    if (open_scopes_.size() > 1) close_scopes(open_scopes_.size() - 1);
  }

  // Until end_backward(), ops compute the derivative of the call that created `node`. They belong to the
  // scope of that call, or, if the call was not observed, to the innermost open scope. These spans may nest.
  void begin_backward(const Node& node) override {
    const auto found = forward_scopes_.find(&node);
    backward_scopes_.push_back(found == forward_scopes_.end() ? open_scopes_.back().index : found->second);
  }
  void end_backward() override { backward_scopes_.pop_back(); }

 private:
  struct OpenScope {
    int32_t index;  // into profile_.scopes
    const void* owner;
    bool owns_record;  // true for the scope that ends the record
  };
  struct Timed {  // an op on a GPU, with its events
    int32_t op;
    backend::cuda::Event begin, end;
  };

  void begin() {
    start_ = clock_();
    profile_.scopes.push_back({"", -1, 0, 0});
    open_scopes_.push_back({0, nullptr, true});
    observing_.emplace(*this);
  }

  // An op begins: its record, with scope, parent and direction, is appended to profile_.ops, and its index to
  // open_ops_, the ops that have begun and not ended. open_events(device, index) starts the timing on a GPU.
  // The clock is read last here, and first in end_op, so that the op's time includes little of the profiler's
  // own.
  void begin_op(OpRecord record) {
    const auto index = static_cast<int32_t>(profile_.ops.size());
    record.scope = scope_of_next_op();
    record.parent = open_ops_.empty() ? -1 : open_ops_.back();
    record.backward = !backward_scopes_.empty();
    open_events(record.device, index);
    open_ops_.push_back(index);
    profile_.ops.push_back(std::move(record));
    profile_.ops.back().start = clock_() - start_;
  }
  // The innermost op ends: sets its times and its cost, and ends its events by close_events(index). The
  // device times are the host's, until read() replaces them by those of the events. Returns its record, or
  // null for an op that began before the profiler.
  OpRecord* end_op(Cost cost) {
    const double now = clock_() - start_;
    if (open_ops_.empty()) return nullptr;
    const int32_t index = open_ops_.back();
    OpRecord& record = profile_.ops[static_cast<size_t>(index)];
    record.seconds = record.device_seconds = now - record.start;
    record.device_start = record.start;
    record.cost = cost;
    close_events(index);
    open_ops_.pop_back();
    return &record;
  }

  // The scope of the innermost derivative, else the innermost open scope.
  int32_t scope_of_next_op() const {
    return backward_scopes_.empty() ? open_scopes_.back().index : backward_scopes_.back();
  }

  int32_t new_scope(const char* name, const void* owner) {
    const auto known = path_of_.find(owner);
    const bool is_known = known != path_of_.end();
    std::string path = is_known ? paths_[static_cast<size_t>(known->second)] : owner ? type_name(name) : name;
    profile_.scopes.push_back({std::move(path), open_scopes_.back().index, clock_() - start_, 0});
    return static_cast<int32_t>(profile_.scopes.size()) - 1;
  }
  void close_scopes(size_t left) {
    for (; open_scopes_.size() > left; open_scopes_.pop_back()) {
      if (!open_scopes_.back().owns_record) continue;
      ScopeRecord& scope = profile_.scopes[static_cast<size_t>(open_scopes_.back().index)];
      scope.seconds = clock_() - start_ - scope.start;
    }
  }

  void open_events(Device device, int32_t op) {
    if constexpr (backend::cuda::is_built()) {
      if (!device.is_cuda() || backend::cuda::is_capturing()) return;
      mark_beginning(device);
      Timed timed{op, backend::cuda::Event(true, device.index), backend::cuda::Event(true, device.index)};
      timed.begin.record();
      timed_of_open_.push_back(std::move(timed));
    }
  }
  bool has_events(int32_t op) const { return !timed_of_open_.empty() && timed_of_open_.back().op == op; }
  void close_events(int32_t op) {
    if (!has_events(op)) return;
    timed_of_open_.back().end.record();
    timed_.push_back(std::move(timed_of_open_.back()));
    timed_of_open_.pop_back();
  }
  void drop_events(int32_t op) {
    if (has_events(op)) timed_of_open_.pop_back();
  }
  // Events measure only the time between two of them, so the first event on a device is matched with the
  // host's clock.
  void mark_beginning(Device device) {
    for (const Beginning& known : beginnings_) {
      if (known.device == device.index) return;
    }
    backend::cuda::Event event(true, device.index);
    event.record();
    event.synchronize();
    beginnings_.push_back({device.index, std::move(event), clock_() - start_});
  }
  void read(const Timed& timed) {
    OpRecord& op = profile_.ops[static_cast<size_t>(timed.op)];
    size_t at = 0;
    while (beginnings_[at].device != op.device.index) ++at;
    const Beginning& first = beginnings_[at];
    op.device_seconds = timed.end.milliseconds_since(timed.begin) * 1e-3;
    op.device_start = first.seconds + timed.begin.milliseconds_since(first.event) * 1e-3;
  }

  // Adds up in each op the times of the ops that it called: `inner_seconds` and `inner_device_seconds`.
  void add_to_callers() {
    for (const OpRecord& op : profile_.ops) {
      if (op.parent < 0) continue;
      OpRecord& caller = profile_.ops[static_cast<size_t>(op.parent)];
      caller.inner_seconds += op.seconds;
      caller.inner_device_seconds += op.device_seconds;
    }
  }

  struct Beginning {
    int device;
    backend::cuda::Event event;
    double seconds;  // host time of the event, since the profile began
  };

  benchmarking::SteadyClock clock_;
  double start_ = 0;
  Profile profile_;
  std::vector<std::string> paths_;                    // paths of the model's modules
  std::unordered_map<const void*, int32_t> path_of_;  // index into paths_, by module
  std::vector<int32_t> open_ops_;
  std::vector<Timed> timed_of_open_, timed_;
  std::vector<Beginning> beginnings_;  // one for each device
  std::vector<OpenScope> open_scopes_;
  std::unordered_map<const void*, int32_t> forward_scopes_;  // by node: the scope of the call that created it
  std::vector<int32_t> backward_scopes_;
  std::optional<Observing> observing_;
};

}  // namespace tinytorch::inline TT_BUILD::profiling
