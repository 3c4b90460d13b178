// Capture: records the operations of a function as an OpGraph, while the function runs normally.
//
//   auto captured = capture([&](const Tensors& x) { return Tensors{net(x[0])}; }, {x});
//   captured.graph.str();    captured.outputs
//
// Every operation passes one gate (tensor/apply.hpp), which tells its observer. So forward passes, backward
// passes and user-defined operations are all seen. A tensor is identified by its storage and its layout, not
// by its handle, so that detach() and copies of a handle are the same value. The recorder holds no storage:
// otherwise the engine would see a second owner of each gradient, and clone it.
//
// What a graph cannot repeat is an error: the host reads elements of a captured value (TT-COMPILE-03);
// elements are written in place, random numbers are drawn, or an optimizer steps (TT-COMPILE-04).
#pragma once

#include <functional>
#include <tinytorch/acceleration/graph.hpp>
#include <tinytorch/tensor/graph.hpp>
#include <tinytorch/tensor/observer.hpp>
#include <tinytorch/tensor/operators.hpp>
#include <tinytorch/tensor/rules.hpp>
#include <unordered_map>
#include <utility>

namespace tinytorch::inline TT_BUILD {

class Recorder final : public OpObserver {
 public:
  // `inputs` are the arguments of the function to record.
  explicit Recorder(const Tensors& inputs) : outer_(op_observer()) {
    for (const Tensor& t : inputs) graph_.inputs.push_back(add_root(t, ValueKind::input));
  }

  void before(const PrimitiveBase& op, const Tensors& inputs) override {
    if (outer_) outer_->before(op, inputs);
    ++depth_;
  }
  void failed(const PrimitiveBase& op) override {
    if (outer_) outer_->failed(op);
    --depth_;
  }
  void after(const PrimitiveBase& op, const Tensors& inputs, const Tensors& outputs, Cost cost) override {
    if (outer_) outer_->after(op, inputs, outputs, cost);
    if (--depth_ > 0) return;  // a part of another operation
    GraphStep step;
    for (const Tensor& t : inputs) step.inputs.push_back(t.defined() ? value_of(t) : -1);
    const int number = static_cast<int>(graph_.steps.size());
    for (const Tensor& t : outputs) step.outputs.push_back(result(t, op.is_view(), number));
    step.op = op.clone();
    step.cost = cost;
    step.module = path();
    step.backward = backward_ > 0;
    graph_.steps.push_back(std::move(step));
  }
  void begin_work(const char* name, Device device) override {
    if (outer_) outer_->begin_work(name, device);
    fail("TT-COMPILE-04", "capture: '" + std::string(name) +
                              "' changes parameters, which a captured function must not do\n  hint: capture "
                              "the forward and backward pass, and step the optimizer outside, or use "
                              "compile_step");
  }
  void end_work(Cost cost) override {
    if (outer_) outer_->end_work(cost);
  }
  void enter(const char* name, const void* owner) override {
    if (outer_) outer_->enter(name, owner);
    scopes_.push_back(owner ? type_name(name) : name);
  }
  void leave() override {
    if (outer_) outer_->leave();
    scopes_.pop_back();
  }
  void begin_backward(const Node& node) override {
    if (outer_) outer_->begin_backward(node);
    ++backward_;
  }
  void end_backward() override {
    if (outer_) outer_->end_backward();
    --backward_;
  }
  void wrote(const Tensor& destination, Loc loc) override {
    if (outer_) outer_->wrote(destination, loc);
    fail("TT-COMPILE-04",
         "capture: " + destination.describe() +
             " is written in place, which a captured graph cannot repeat\n  hint: compute a new tensor "
             "instead (y = y + 1), or leave this function uncompiled",
         loc);
  }
  void read_by_host(const Tensor& t, Loc loc) const {
    if (depth_ > 0 || !known(t)) return;  // an operation that checks its indices does so in a replay, too
    fail("TT-COMPILE-03",
         "capture: the program reads elements of " + t.describe() +
             ", so what it does next may depend on them, and a captured graph would not\n  hint: use "
             "where() to choose by value, or read the result outside of the compiled function",
         loc);
  }

  // Tensors that become known while the function runs, such as the gradients that a backward pass begins
  // with.
  void add_input(const Tensor& t) { graph_.inputs.push_back(add_root(t, ValueKind::input)); }
  const OpGraph& graph() const { return graph_; }
  // The graph, whose results are `outputs`.
  OpGraph finish(const Tensors& outputs) {
    for (const Tensor& t : outputs) graph_.outputs.push_back(value_of(t));
    return std::move(graph_);
  }

 private:
  struct Block {
    std::weak_ptr<Storage> storage;
    std::vector<int> values;  // the first is the root
  };

  // The block of t's storage; null if it is not known, or if it is another storage at the same address.
  const Block* known(const Tensor& t) const {
    const auto found = blocks_.find(t.storage().get());
    return found != blocks_.end() && found->second.storage.lock() == t.storage() ? &found->second : nullptr;
  }
  static bool has_layout(const GraphValue& v, const Tensor& t, int64_t offset) {
    return v.dtype == t.dtype() && v.offset == offset && v.shape == t.shape() && v.strides == t.strides();
  }
  int add_value(const Tensor& t, ValueKind kind) {
    GraphValue v;
    v.kind = kind;
    v.shape = t.shape(), v.strides = t.strides(), v.dtype = t.dtype(), v.device = t.device();
    v.root = static_cast<int>(graph_.values.size());
    graph_.values.push_back(std::move(v));
    first_.push_back(t.offset());
    return static_cast<int>(graph_.values.size()) - 1;
  }
  int add_root(const Tensor& t, ValueKind kind) {
    const int v = add_value(t, kind);
    blocks_[t.storage().get()] = {t.storage(), {v}};
    return v;
  }
  // The number of the value that t is, which is added if t is new: as a view, if its memory is known, else as
  // an external tensor.
  int value_of(const Tensor& t) {
    const Block* const block = known(t);
    if (!block) {
      const int v = add_root(t, ValueKind::external);
      graph_.values.back().external = t;
      return v;
    }
    const int root = block->values[0];
    const int64_t offset = t.offset() - first_[static_cast<size_t>(root)];
    for (const int v : block->values) {
      if (!has_layout(graph_.value(v), t, offset)) continue;
      Tensor& external = graph_.values[static_cast<size_t>(v)].external;
      if (external.defined() && tracks_grad(t)) external = t;  // it was first seen by its detach()
      return v;
    }
    const int v = add_value(t, ValueKind::view);
    graph_.values.back().root = root;
    graph_.values.back().offset = offset;
    blocks_[t.storage().get()].values.push_back(v);
    return v;
  }
  int result(const Tensor& t, bool is_view, int step) {
    if (is_view) {
      const int count = static_cast<int>(graph_.values.size()), v = value_of(t);
      if (v == count) graph_.values.back().step = step;
      return v;
    }
    const int v = add_root(t, ValueKind::computed);
    graph_.values.back().step = step;
    return v;
  }
  std::string path() const {
    std::string text;
    for (const std::string& s : scopes_) text += (text.empty() ? "" : "/") + s;
    return text;
  }

  OpObserver* outer_;
  OpGraph graph_;
  std::unordered_map<const Storage*, Block> blocks_;
  std::vector<int64_t> first_;  // offset in its storage of each value
  std::vector<std::string> scopes_;
  int depth_ = 0, backward_ = 0;
};

// The recorder that this thread's host reads are reported to, or null.
inline const Recorder*& active_recorder() {
  thread_local const Recorder* recorder = nullptr;
  return recorder;
}

// Makes `recorder` see this thread's operations and host reads until the end of the C++ scope.
class Recording {
 public:
  explicit Recording(Recorder& recorder)
      : observing_(recorder),
        before_(std::exchange(active_recorder(), &recorder)),
        watcher_(std::exchange(host_read_watcher(), [](const Tensor& t, Loc loc) {
          if (active_recorder()) active_recorder()->read_by_host(t, loc);
        })) {}
  ~Recording() {
    active_recorder() = before_;
    host_read_watcher() = watcher_;
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

 private:
  Observing observing_;
  const Recorder* before_;
  HostReadWatcher watcher_;
};

// Throws from check() if the default generator has moved since construction, and moves it back.
class NoRandomNumbers {
 public:
  explicit NoRandomNumbers(Loc loc) : loc_(loc), before_(default_generator().state()) {}
  void check() const {
    const GeneratorState now = default_generator().state();
    if (now.seed == before_.seed && now.next_block == before_.next_block) return;
    default_generator().set_state(before_);
    fail("TT-COMPILE-04",
         "capture: the function draws random numbers, which a captured graph would repeat\n  hint: call "
         "eval() if dropout should be off, or draw the numbers outside and pass them in",
         loc_);
  }

 private:
  Loc loc_;
  GeneratorState before_;
};

using TensorFunction = std::function<Tensors(const Tensors&)>;

struct Captured {
  OpGraph graph;
  Tensors outputs;  // the results of this run
};

// Runs f(inputs) and records it. Whether the results belong to the autograd graph is as without capture.
inline Captured capture(const TensorFunction& f, const Tensors& inputs, TT_LOC) {
  for (const Tensor& t : inputs) require_defined("capture", loc, t);
  const NoRandomNumbers watch(loc);
  Recorder recorder(inputs);
  Captured out;
  {
    const Recording recording(recorder);
    out.outputs = f(inputs);
  }
  for (const Tensor& t : out.outputs) require_defined("capture", loc, t);
  watch.check();
  out.graph = recorder.finish(out.outputs);
  return out;
}

}  // namespace tinytorch::inline TT_BUILD
