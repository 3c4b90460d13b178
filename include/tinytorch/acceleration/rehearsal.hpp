// Rehearsal: a function runs under a recorder, and the operations that depend on its arguments allocate their
// results, but compute nothing.
//
//   capture<Rehearsal>(f, {blank}).graph      the graph of f for arguments of another size, without kernels
//
// C++ hides a branch on a size, and a number such as 1 / x.size(0), from a capture. A rehearsal finds both:
// the program itself says what it does for the size. It costs what the calls cost on the host. The arguments
// and all that is computed from them are hollow: their elements mean nothing, and the function cannot read
// them without an error (TT-COMPILE-03); integers are 0, so that they are valid indices. Operations on other
// tensors do compute, so that a table which the program makes once and keeps has its elements. What the
// function writes in place to tensors of the program is put back. Random numbers are the caller's to put back
// (undo.hpp, GeneratorUse).
#pragma once

#include <algorithm>
#include <memory>
#include <tinytorch/acceleration/capture.hpp>
#include <tinytorch/backend/cpu/elementwise.hpp>
#include <unordered_map>
#include <utility>

namespace tinytorch::inline TT_BUILD {

class Rehearsal final : public Recorder {
 public:
  // Other observers of the thread are not told, because nothing is computed.
  explicit Rehearsal(const Tensors& inputs) : Recorder(inputs, nullptr) {
    for (const Tensor& t : inputs) make_hollow(t);
  }

  bool rehearses(const Tensors& inputs) const override {
    return std::ranges::any_of(inputs, [&](const Tensor& t) { return is_hollow(t); });
  }
  void after(const PrimitiveBase& op, const Tensors& inputs, const Tensors& outputs, Cost cost) override {
    if (!op.is_view() && rehearses(inputs)) {
      for (const Tensor& t : outputs) {
        make_hollow(t);
        if (!is_floating(t.dtype())) TT_KERNEL(t, fill(t.view_of(), 0.0));
      }
    }
    Recorder::after(op, inputs, outputs, cost);
  }
  void writing(const PrimitiveBase& op, const Tensor& destination, const Tensors& inputs) override {
    if (rehearses(inputs)) make_hollow(destination);
    Recorder::writing(op, destination, inputs);
  }
  // The check of the recorder reads elements.
  void differentiated(const Node&, const Tensors&, const Tensors&) override {}

  OpGraph finish(const Tensors& outputs, TT_LOC) {
    OpGraph graph = Recorder::finish(outputs, loc);
    restore(graph.written);
    return graph;
  }

 private:
  bool is_hollow(const Tensor& t) const {
    if (!t.defined()) return false;
    const auto found = hollow_.find(t.storage().get());
    return found != hollow_.end() &&
           found->second.lock() == t.storage();  // or it is new memory at that address
  }
  void make_hollow(const Tensor& t) {
    if (t.defined()) hollow_[t.storage().get()] = t.storage();
  }

  std::unordered_map<const Storage*, std::weak_ptr<Storage>> hollow_;
};

// A tensor of zeros with this layout, which has no gaps, for the rehearsal of a function.
inline Tensor blank(const Shape& shape, const Strides& strides, DType dtype, Device device, bool grad) {
  Tensor t = alias(zeros({shape.numel()}, dtype, device), shape, strides, 0);
  if (grad) t.requires_grad_();
  return t;
}

}  // namespace tinytorch::inline TT_BUILD
