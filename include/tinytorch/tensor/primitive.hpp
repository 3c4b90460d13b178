// Primitive: one operation, defined once. Its rule, its cost, its kernels and its derivative.
//
// A primitive is a small value that holds the attributes of one call (an axis, a stride). The gate, apply()
// in tensor/apply.hpp, is the only caller of these functions. To add an operation, derive from
// Primitive<Self>; examples/custom_op.cpp is a complete one.
#pragma once

#include <memory>
#include <string>
#include <tinytorch/backend/cuda/kernels/launch.hpp>
#include <tinytorch/tensor/tensor.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD {

// Shape, dtype and layout of a result, known before anything is computed.
struct Spec {
  Shape shape;
  DType dtype = DType::f32;
  // How the result lies in memory, if not row-major: as that input does, which has its shape and is dense;
  // or, of images [N, C, H, W], as [N, H, W, C].
  int8_t lies_like = -1;
  bool channels_last = false;
};
using Shapes = SmallVector<Shape, 3>;
using Specs = SmallVector<Spec, 2>;

// Work of one call. bytes: every operand read once, every result written once.
struct Cost {
  double flops = 0;
  double bytes = 0;
};

// What a derivative needs from the forward pass; everything else is freed at once. extras: the outputs after
// the first, which are made for the derivative; the result itself may then be overwritten or die.
enum class Save : uint8_t {
  nothing = 0,
  inputs = 1,
  outputs = 2,
  both = 3,
  extras = 4,
  inputs_and_extras = 5
};

// The forward pass as its derivative sees it. Tensors that were not saved are undefined; shapes always are
// there.
struct Saved {
  Tensors inputs, outputs;
  Shapes input_shapes;
  std::vector<bool> needs_grad;  // per input: others may be left undefined in the result
};

class PrimitiveBase {
 public:
  virtual ~PrimitiveBase() = default;
  virtual const char* name() const = 0;
  // Shape and dtype rule. Throws an Error that names the op, the operands and the caller.
  virtual Specs infer(const Tensors& inputs, Loc loc) const = 0;
  // Where the results live, given where the operands do.
  virtual Device output_device(Device inputs) const { return inputs; }
  virtual double flops(const Tensors& inputs, const Tensors& outputs) const = 0;
  // Writes outputs, which are allocated as infer() said, contiguous unless it gave another layout, on the
  // inputs' device. A library op calls TT_KERNEL, which picks the kernel of that device.
  virtual void run(const Tensors& inputs, Tensors& outputs) const = 0;
  // A view shares its input's storage instead of running a kernel.
  virtual bool is_view() const { return false; }
  virtual Tensor view(const Tensor&) const { return {}; }
  // Vector-Jacobian product: one gradient per input from one gradient per output (undefined: zero).
  virtual Save saves() const { return Save::nothing; }
  virtual bool saves_input(size_t) const { return true; }  // of those that saves() names: all, or some
  virtual bool differentiable() const = 0;
  virtual Tensors vjp(const Saved& saved, const Tensors& grads) const = 0;
  virtual std::unique_ptr<const PrimitiveBase> clone() const = 0;
};

// Supplies what follows from the concrete type. Self defines kName and, where it has a derivative, `vjp`.
template <class Self>
class Primitive : public PrimitiveBase {
 public:
  const char* name() const override { return Self::kName; }
  double flops(const Tensors&, const Tensors&) const override { return 0; }
  bool differentiable() const override { return true; }
  Tensors vjp(const Saved&, const Tensors&) const override {
    fail("TT-GRAD-05", std::string(name()) +
                           ": this op has no derivative\n  hint: call it on x.detach(), or give "
                           "its primitive a vjp");
  }
  std::unique_ptr<const PrimitiveBase> clone() const override {
    // Not make_unique: a unique_ptr type of its own for each primitive costs every file that
    // includes the ops a tenth of its compile time.
    return std::unique_ptr<const PrimitiveBase>(new Self(static_cast<const Self&>(*this)));
  }
};

// What a kernel sees of an operand that may be left out.
inline backend::View view_or_none(const Tensor& t) { return t.defined() ? t.view_of() : backend::View{}; }

// Total bytes an op moves: the inputs' and outputs' elements, each once; a broadcast operand counts its own
// size.
inline double bytes_moved(const Tensors& inputs, const Tensors& outputs) {
  double bytes = 0;
  for (const Tensor& t : inputs) bytes += t.defined() ? static_cast<double>(t.bytes()) : 0.0;
  for (const Tensor& t : outputs) bytes += static_cast<double>(t.bytes());
  return bytes;
}

}  // namespace tinytorch::inline TT_BUILD
