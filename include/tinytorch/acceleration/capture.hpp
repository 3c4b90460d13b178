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
// Operations that draw random numbers from the default generator, such as dropout, draw new ones in each
// replay. Writes in place are steps, too: those to tensors of the function become new values, and those to
// tensors of the program, such as the running statistics of a norm, happen in each replay. What a graph
// cannot repeat is an error: the host reads elements of a captured value (TT-COMPILE-03); an argument is
// written in place, random numbers are drawn without an operation, an optimizer steps, or a derivative calls
// a kernel outside of an operation (TT-COMPILE-04).
#pragma once

#include <algorithm>
#include <functional>
#include <set>
#include <string_view>
#include <tinytorch/acceleration/constant_copy.hpp>
#include <tinytorch/acceleration/graph.hpp>
#include <tinytorch/acceleration/undo.hpp>
#include <tinytorch/autograd/grad_mode.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tensor/graph.hpp>
#include <tinytorch/tensor/observer.hpp>
#include <tinytorch/tensor/operators.hpp>
#include <tinytorch/tensor/rules.hpp>
#include <unordered_map>
#include <utility>

namespace tinytorch::inline TT_BUILD {

class Recorder : public OpObserver {
 public:
  // `inputs` are the arguments of the function to record. `outer` is told, too, what it sees.
  explicit Recorder(const Tensors& inputs, OpObserver* outer = op_observer()) : outer_(outer) {
    graph_.random = default_generator().state();
    for (const Tensor& t : inputs) graph_.inputs.push_back(add_root(t, ValueKind::input));
  }

  // A run that failed has written nothing.
  ~Recorder() override {
    if (!finished_) restore(graph_.written);
  }
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

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
    if (std::string_view(op.name()) == "write_region") refuse_write_of_part(inputs[0]);
    GraphStep step;
    for (const Tensor& t : inputs) step.inputs.push_back(t.defined() ? value_of(t) : -1);
    const int number = static_cast<int>(graph_.steps.size());
    for (const Tensor& t : outputs) step.outputs.push_back(result(t, op.is_view(), number));
    count_draw(op, outputs);
    step.op = op.clone();
    step.cost = cost;
    step.module = path();
    step.backward = !derivatives_.empty();
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
    derivatives_.push_back(graph_.steps.size());
  }
  // A derivative is linear in the gradients, so a result that no step computes from them is zero. Otherwise a
  // kernel outside of an operation has computed it, and each replay would repeat the elements of this run.
  void differentiated(const Node& node, const Tensors& gradients, const Tensors& results) override {
    if (outer_) outer_->differentiated(node, gradients, results);
    std::set<int> roots;
    for (const Tensor& t : gradients) {
      if (t.defined() && known(t)) roots.insert(known(t)->values[0]);
    }
    roots = graph_.computed_from(std::move(roots), derivatives_.back());
    for (const Tensor& t : results) {
      if (!t.defined()) continue;
      const Block* const block = known(t);
      if (!(block && roots.contains(block->values[0])) && !is_zero(t)) refuse_derivative(node);
    }
  }
  void end_backward() override {
    if (outer_) outer_->end_backward();
    derivatives_.pop_back();
  }
  void writing(const PrimitiveBase& op, const Tensor& destination, const Tensors& inputs) override {
    if (outer_) outer_->writing(op, destination, inputs);
    if (depth_ == 0) announced_ = record_write(op, destination, inputs);
  }
  void wrote(const Tensor& destination, Loc loc) override {
    if (outer_) outer_->wrote(destination, loc);
    if (depth_ > 0 || std::exchange(announced_, false)) return;
    fail(
        "TT-COMPILE-04",
        "capture: " + destination.describe() +
            " is written in place, which a captured graph cannot repeat: it is an argument, or it is written "
            "in a backward pass or by a function that the library does not know\n  hint: compute a new "
            "tensor "
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
  OpGraph finish(const Tensors& outputs, TT_LOC) {
    if (!(default_generator().state() == next_draw())) refuse_draw("the function", loc);
    for (const Tensor& t : outputs) graph_.outputs.push_back(value_of(t));
    finished_ = true;
    return std::move(graph_);
  }

 private:
  // The state that the default generator has if all numbers so far were drawn by recorded steps.
  GeneratorState next_draw() const {
    return {graph_.random.seed, graph_.random.next_block + graph_.random_blocks};
  }
  // Steps draw from the default generator, one after the other; a derivative uses the numbers of its forward
  // step again. Other numbers, such as those of rand(), are not those of a step.
  void count_draw(const PrimitiveBase& op, const Tensors& outputs) {
    const std::optional<GeneratorState> drawn = op.draws_from();
    if (!drawn) return;
    const GeneratorState next = next_draw(), now = default_generator().state();
    const bool moved = now.next_block > next.next_block || outputs[0].numel() == 0;
    if (*drawn == next && now.seed == next.seed && moved) {
      draws_.insert(drawn->next_block);
      graph_.random_blocks = now.next_block - graph_.random.next_block;
    } else if (derivatives_.empty() || drawn->seed != next.seed || !draws_.contains(drawn->next_block)) {
      refuse_draw("'" + std::string(op.name()) + "'");
    }
  }
  [[noreturn]] static void refuse_write_of_part(const Tensor& base) {
    fail("TT-COMPILE-04", "capture: a view of " + base.describe() +
                              " is written in place, and needs a derivative\n  hint: use cat(), where() or "
                              "scatter_add(), or leave this function uncompiled");
  }
  static bool is_zero(const Tensor& t) {
    OpObserver* const self = std::exchange(op_observer(), nullptr);
    const HostReadWatcher watcher = std::exchange(host_read_watcher(), HostReadWatcher{});
    const std::vector<double> values = t.detach().to_vector<double>();
    host_read_watcher() = watcher;
    op_observer() = self;
    return std::ranges::all_of(values, [](double v) { return v == 0; });
  }
  [[noreturn]] static void refuse_derivative(const Node& node) {
    fail("TT-COMPILE-04",
         "capture: the derivative of '" + std::string(node.op->name()) +
             "' calls a kernel outside of an operation, so a captured graph would repeat this run's gradient"
             "\n  hint: compute the derivative by operations, or by a Primitive of its own, or leave this "
             "function uncompiled",
         node.loc);
  }
  [[noreturn]] static void refuse_draw(const std::string& who, TT_LOC) {
    fail(
        "TT-COMPILE-04",
        "capture: " + who +
            " uses random numbers that are not drawn by a step of the graph from the default generator, so a "
            "replay would repeat them\n  hint: use dropout() with the default generator, or draw the numbers "
            "outside and pass them in",
        loc);
  }

  struct Block {
    std::weak_ptr<Storage> storage;
    std::vector<int> values;  // the first is the root
  };

  // Records a write in place; false if it cannot be repeated. A tensor of the function whose elements are all
  // replaced becomes a new value, so that the step is one like any other. Otherwise, the step's result is the
  // value that it overwrites.
  bool record_write(const PrimitiveBase& op, const Tensor& to, const Tensors& inputs) {
    if (!known(to)) add_root(to, ValueKind::external), graph_.values.back().external = to.detach();
    int root = known(to)->values[0];
    if (!derivatives_.empty() || graph_.value(root).kind == ValueKind::input) return false;
    if (graph_.value(root).kind == ValueKind::external && !keep_before(root, to)) return false;
    root = known(to)->values[0];
    GraphStep step;
    for (const Tensor& t : inputs) step.inputs.push_back(value_of(t));
    const GraphValue& v = graph_.value(root);
    const bool whole = v.kind == ValueKind::computed && is_contiguous(to.shape(), to.strides()) &&
                       has_layout(v, to, to.offset() - first_[static_cast<size_t>(root)]);
    if (!whole && v.kind == ValueKind::computed) return false;  // a part of a tensor of the function
    const auto number = static_cast<int>(graph_.steps.size());
    if (whole) {
      step.outputs.push_back(add_root(to, ValueKind::computed));
      graph_.values.back().step = number;
    } else {
      step.outputs.push_back(value_of(to));
    }
    step.op = op.clone();
    step.cost = {op.flops(inputs, {to}), bytes_moved(inputs, {to})};
    step.module = path();
    graph_.steps.push_back(std::move(step));
    return true;
  }
  // Keeps the elements of an external value before it is overwritten for the first time. A tensor of the
  // program is written by each replay. One that the function itself made is a constant, of which each replay
  // writes a copy.
  bool keep_before(int root, const Tensor& to) {
    OpObserver* const self = std::exchange(op_observer(), nullptr);
    const Tensor place = graph_.value(root).external;
    const bool first = std::ranges::none_of(
        graph_.written, [&](const WrittenTensor& w) { return w.place.storage() == place.storage(); });
    const Tensor before = first ? place.detach().clone() : Tensor(), part = to.detach().clone();
    op_observer() = self;
    const bool covers = place.bytes() == place.storage()->bytes() && place.is_contiguous();
    const bool own = to.storage()->number() >= first_storage_;
    if (!covers) {                                              // a part of it is all that is known
      if (!own) graph_.written.push_back({to.detach(), part});  // the write was made, and is undone
      return false;
    }
    if (!own) {
      if (first) graph_.written.push_back({place.detach(), before});
      return true;
    }
    graph_.values[static_cast<size_t>(root)].external = before;
    GraphStep step;
    step.inputs.push_back(root);
    step.outputs.push_back(add_root(place, ValueKind::computed));
    graph_.values.back().step = static_cast<int>(graph_.steps.size());
    step.op = ConstantCopy().clone();
    step.cost.bytes = 2 * static_cast<double>(place.bytes());
    graph_.steps.push_back(std::move(step));
    return true;
  }

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
      // It may have been first seen by its detach(); a whole slice of it has the same layout.
      if (external.defined() && tracks_grad(t) && !tracks_grad(external)) external = t;
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
  std::set<uint64_t> draws_;         // first blocks of the steps that draw
  std::vector<size_t> derivatives_;  // first step of each derivative that is being computed
  int depth_ = 0;
  const uint64_t first_storage_ = Storage::count();  // of those that the function makes
  bool announced_ = false, finished_ = false;
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

using TensorFunction = std::function<Tensors(const Tensors&)>;

struct Captured {
  OpGraph graph;
  Tensors outputs;  // the results of this run
};

// Runs f(inputs) and records it. Whether the results belong to the autograd graph is as without capture.
// R: Recorder, or Rehearsal (rehearsal.hpp).
template <class R = Recorder>
Captured capture(const TensorFunction& f, const Tensors& inputs, TT_LOC) {
  for (const Tensor& t : inputs) require_defined("capture", loc, t);
  GeneratorUse random;
  R recorder(inputs);
  Captured out;
  {
    const Recording recording(recorder);
    out.outputs = f(inputs);
  }
  for (const Tensor& t : out.outputs) require_defined("capture", loc, t);
  out.graph = recorder.finish(out.outputs, loc);
  random.keep();
  return out;
}

}  // namespace tinytorch::inline TT_BUILD
