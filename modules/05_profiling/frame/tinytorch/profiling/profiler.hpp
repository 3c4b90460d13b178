// Profiler: records every op of this thread from its construction to finish().
//
// The frame of a course header: it has the given parts, and includes the functions of task 5.4. It is cut
// from the library's header by modules/frames.py.
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
  inline void failed(const PrimitiveBase&) override;  // task 5.4
  void begin_work(const char* name, Device device) override {
    OpRecord record;
    record.name = name;
    record.device = device;
    begin_op(std::move(record));
  }
  void end_work(Cost cost) override { end_op(cost); }

  inline void enter(const char* name, const void* owner) override;  // task 5.4
  inline void leave() override;                                     // task 5.4
  inline void begin_backward(const Node& node) override;            // task 5.4
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

  void begin_op(OpRecord record);    // task 5.4
  OpRecord* end_op(Cost cost);       // task 5.4
  int32_t scope_of_next_op() const;  // task 5.4

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

  void add_to_callers();  // task 5.4

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

#include <tasks/profiling/profiler.hpp>
