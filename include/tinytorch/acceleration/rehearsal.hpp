// Rehearsal: a function runs under a recorder, and its operations allocate their results, but compute
// nothing.
//
//   capture<Rehearsal>(f, {blank}).graph      the graph of f for arguments of another size, without kernels
//
// C++ hides a branch on a size, and a number such as 1 / x.size(0), from a capture. A rehearsal finds both:
// the program itself says what it does for the size. It costs what the calls cost on the host. The function
// sees elements that mean nothing, which it cannot read without an error (TT-COMPILE-03); integers are 0, so
// that they are valid indices. What it writes in place to tensors of the program is put back. Random numbers
// are the caller's to put back (undo.hpp, GeneratorUse).
#pragma once

#include <tinytorch/acceleration/capture.hpp>
#include <tinytorch/backend/cpu/elementwise.hpp>
#include <utility>

namespace tinytorch::inline TT_BUILD {

class Rehearsal final : public Recorder {
 public:
  // Other observers of the thread are not told, because nothing is computed.
  explicit Rehearsal(const Tensors& inputs) : Recorder(inputs, nullptr) {}

  bool rehearses() const override { return true; }
  void after(const PrimitiveBase& op, const Tensors& inputs, const Tensors& outputs, Cost cost) override {
    if (!op.is_view()) {
      for (const Tensor& t : outputs) {
        if (!is_floating(t.dtype())) TT_KERNEL(t, fill(t.view_of(), 0.0));
      }
    }
    Recorder::after(op, inputs, outputs, cost);
  }
  // The check of the recorder reads elements.
  void differentiated(const Node&, const Tensors&, const Tensors&) override {}

  OpGraph finish(const Tensors& outputs, TT_LOC) {
    OpGraph graph = Recorder::finish(outputs, loc);
    restore(graph.written);
    return graph;
  }
};

// A tensor of zeros with this layout, which has no gaps, for the rehearsal of a function.
inline Tensor blank(const Shape& shape, const Strides& strides, DType dtype, Device device, bool grad) {
  Tensor t = alias(zeros({shape.numel()}, dtype, device), shape, strides, 0);
  if (grad) t.requires_grad_();
  return t;
}

}  // namespace tinytorch::inline TT_BUILD
