// Primitive: one operation, with its shape rule, cost, kernels and derivative.
//
// A primitive is a small value that holds the attributes of one call, such as an axis or a stride. Only
// apply() (tensor/apply.hpp) and the backward pass call its functions. To add an operation, derive from
// Primitive<Self>; examples/custom_op.cpp is a complete example.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <tinytorch/backend/cuda/launch.hpp>
#include <tinytorch/backend/image_step.hpp>
#include <tinytorch/backend/parameters.hpp>
#include <tinytorch/backend/pointwise.hpp>
#include <tinytorch/core/random.hpp>
#include <tinytorch/tensor/tensor.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD {

// Shape, dtype and layout of a result, known before the computation.
struct Spec {
  Shape shape;
  DType dtype = DType::f32;
  // Memory layout, if not row-major. layout_like >= 0: the strides of that input, which has this shape and no
  // gaps. channels_last: images [N, C, H, W] are stored as [N, H, W, C].
  int8_t layout_like = -1;
  bool channels_last = false;
};
using Shapes = SmallVector<Shape, 3>;
using Specs = SmallVector<Spec, 2>;

// Cost of one call. bytes counts each operand as read once and each result as written once.
struct Cost {
  double flops = 0;
  double bytes = 0;
};

// A reduction over dimensions of its only input, all of them if there are none in `dims`. mean: the sum is
// divided by the number of elements of a result.
struct ReductionStep {
  backend::ReduceFn fn = backend::ReduceFn::sum;
  bool mean = false;
  Dims dims;
};

// The tensors that a derivative needs from the forward pass; others are freed at once. `extras` are the
// outputs after the first, which exist for the derivative; the result itself may then be overwritten or
// freed.
enum class Save : uint8_t {
  nothing = 0,
  inputs = 1,
  outputs = 2,
  both = 3,
  extras = 4,
  inputs_and_extras = 5
};

// The forward pass as its derivative gets it. Tensors that were not saved are undefined; the shapes are
// always present.
struct Saved {
  Tensors inputs, outputs;
  Shapes input_shapes;
  std::vector<bool> needs_grad;  // per input; if false, vjp may return an undefined gradient
};

// op.run(inputs, outputs) as call_virtual<&PrimitiveBase::run>(op, inputs, outputs). For a plain virtual call
// g++ optimizes the overriding functions of all classes that it has seen, with the kernels behind them, even
// if the program uses none of them: a third of the compile time of a small program. A call by a pointer to
// the function is the same machine code, and hides the classes. Layers and optimizers are called so, too.
template <auto function, class Object, class... Args>
decltype(auto) call_virtual(Object& object, Args&&... args) {
  return (object.*function)(std::forward<Args>(args)...);
}

class PrimitiveBase;
// Deletes a primitive without a plain call of its virtual destructor (see call_virtual).
struct DeletePrimitive {
  void operator()(const PrimitiveBase* op) const;
};
using OwnedPrimitive = std::unique_ptr<const PrimitiveBase, DeletePrimitive>;

class PrimitiveBase {
 public:
  virtual ~PrimitiveBase() = default;
  virtual const char* name() const = 0;
  // Shape and dtype rule. Throws an Error that names the operation, the operands and the caller's line.
  virtual Specs infer(const Tensors& inputs, Loc loc) const = 0;
  // Device of the results, given the device of the operands.
  virtual Device output_device(Device inputs) const { return inputs; }
  virtual double flops(const Tensors& inputs, const Tensors& outputs) const = 0;
  // Writes the outputs, which are allocated as infer() specified, on output_device(). An operation of the
  // library calls TT_KERNEL, which selects the kernel of that device.
  virtual void run(const Tensors& inputs, Tensors& outputs) const = 0;
  // A view shares its input's storage instead of running a kernel.
  virtual bool is_view() const { return false; }
  virtual Tensor view(const Tensor&) const { return {}; }
  // True if each element of the result depends on one element of each input alone. Then `step` gets the
  // function, so that several such operations can be computed together (acceleration/fusion.hpp).
  virtual bool pointwise(backend::PointwiseStep& /*step*/) const { return false; }
  // True if the operation is a reduction, which is then described (acceleration/row_groups.hpp).
  virtual bool reduction(ReductionStep& /*described*/) const { return false; }
  // True for a convolution, for batch norm with given statistics, and for pooling with the same bits in both
  // layouts of images; `step` says which, and its attributes (acceleration/conv_epilogue.hpp).
  virtual bool image_step(backend::ImageStep& /*step*/) const { return false; }
  // An operation that draws random numbers returns its stream and the first block of this call
  // (core/random.hpp), and makes the same operation on others. A replayed graph draws new numbers by them.
  virtual std::optional<GeneratorState> draws_from() const { return std::nullopt; }
  virtual OwnedPrimitive drawing_from(GeneratorState) const {
    return call_virtual<&PrimitiveBase::clone>(*this);
  }
  // Vector-Jacobian product: one gradient per input from one gradient per output. Undefined means zero.
  virtual Save saves() const { return Save::nothing; }
  virtual bool saves_input(size_t) const { return true; }   // if saves() includes inputs: which of them
  virtual bool saves_output(size_t) const { return true; }  // likewise
  // The only input whose gradient reads the saved input i, or -1. In a product a b, b alone reads a: if b
  // needs no gradient, a is not kept and may be overwritten.
  virtual int reader_of(size_t) const { return -1; }
  virtual bool differentiable() const = 0;
  virtual Tensors vjp(const Saved& saved, const Tensors& grads) const = 0;
  // Number of results, counted from the first one, whose gradients vjp takes into account.
  virtual size_t differentiable_outputs() const { return 1; }
  // Computes the same results by operations that can be differentiated any number of times, or returns
  // nothing. An operation whose vjp is a fused kernel has it, and grad() uses it for a derivative that will
  // be differentiated again (autograd/grad.hpp). `inputs` are those that were saved.
  virtual Tensors composed(const Tensors& /*inputs*/) const { return {}; }
  virtual OwnedPrimitive clone() const = 0;
  virtual void delete_this() const = 0;
};

inline void DeletePrimitive::operator()(const PrimitiveBase* op) const {
  call_virtual<&PrimitiveBase::delete_this>(*op);
}

// Reports that an operation, or the derivative of one, has no derivative.
[[noreturn]] inline void fail_no_derivative(const std::string& name) {
  const size_t n = name.size();
  if (n > 5 && name.compare(n - 5, 5, "_grad") == 0) {
    fail("TT-GRAD-05", name + ": the derivative of '" + name.substr(0, n - 5) +
                           "' cannot be differentiated again\n  hint: leave create_graph = false, or compose "
                           "the op of others, such as matmul and softmax");
  }
  fail("TT-GRAD-05", name +
                         ": this op has no derivative\n  hint: call it on x.detach(), or give its "
                         "primitive a vjp");
}

// Implements what follows from the concrete type. Self defines kName and, if it has a derivative, `vjp`.
template <class Self>
class Primitive : public PrimitiveBase {
 public:
  const char* name() const override { return Self::kName; }
  double flops(const Tensors&, const Tensors&) const override { return 0; }
  bool differentiable() const override { return true; }
  Tensors vjp(const Saved&, const Tensors&) const override { fail_no_derivative(name()); }
  OwnedPrimitive clone() const override {
    // std::make_unique would instantiate a unique_ptr type for each primitive, which costs every file that
    // includes the operations a tenth of its compile time.
    return OwnedPrimitive(new Self(static_cast<const Self&>(*this)));
  }
  void delete_this() const override { delete static_cast<const Self*>(this); }
};

// A primitive that draws random numbers if its `parameters`, with the fields p, seed and first_block, have a
// p above 0.
template <class Self>
class RandomPrimitive : public Primitive<Self> {
 public:
  std::optional<GeneratorState> draws_from() const override {
    const auto& drawn = static_cast<const Self&>(*this).parameters;
    if (!(drawn.p > 0)) return std::nullopt;
    return GeneratorState{drawn.seed, drawn.first_block};
  }
  OwnedPrimitive drawing_from(GeneratorState place) const override {
    auto* const other = new Self(static_cast<const Self&>(*this));
    other->parameters.seed = place.seed, other->parameters.first_block = place.next_block;
    return OwnedPrimitive(other);
  }
};

// The view of an operand for a kernel; an empty view if the operand is omitted.
inline backend::View view_or_none(const Tensor& t) { return t.defined() ? t.view_of() : backend::View{}; }

// Bytes that an operation moves: each element of the inputs and outputs once. A broadcast operand counts with
// its own size.
inline double bytes_moved(const Tensors& inputs, const Tensors& outputs) {
  double bytes = 0;
  for (const Tensor& t : inputs) bytes += t.defined() ? static_cast<double>(t.bytes()) : 0.0;
  for (const Tensor& t : outputs) bytes += static_cast<double>(t.bytes());
  return bytes;
}

}  // namespace tinytorch::inline TT_BUILD
