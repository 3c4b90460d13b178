// Tensor: a typed, strided view of shared storage, with optional autograd state.
//
// A Tensor is a handle: a copy is cheap and refers to the same tensor. Views (transpose, slice, expand, ...)
// are new tensors over the same storage. Element type and device are run-time values; templates are used only
// where C++ values enter or leave (from_data, item, data, to_vector). Computations are free functions,
// declared in tensor/functions.hpp; the members below forward to them.
#pragma once

#include <concepts>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <tinytorch/backend/view.hpp>
#include <tinytorch/core/random.hpp>
#include <tinytorch/core/small_vector.hpp>
#include <tinytorch/tensor/host_read.hpp>
#include <tinytorch/tensor/methods.hpp>
#include <tinytorch/tensor/scalar.hpp>
#include <tinytorch/tensor/storage.hpp>
#include <tinytorch/tensor/strides.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD {

class Tensor;
class Selected;          // tensor/indexing.hpp
struct GradState;        // tensor/graph.hpp
struct BackwardOptions;  // autograd/grad.hpp
struct TensorArg;
struct IndexItem;
using Tensors = SmallVector<Tensor, 4>;

// Open end of a slice: x.slice(0, 2, kEnd) goes to the last element.
inline constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();

// An index together with the line that used it, so that an error in x[9] names the caller's line.
struct IndexArg {
  int64_t index;
  Loc loc;
  template <class T>
  requires std::is_integral_v<T> IndexArg(T i, Loc l = Loc::current())
      : index(static_cast<int64_t>(i)), loc(l) {}
};

inline constexpr const char* kUndefined = "TT-TENSOR-01";  // an undefined tensor was used
[[noreturn]] inline void fail_undefined(const char* op, ptrdiff_t operand, Loc loc) {
  fail(kUndefined,
       std::string(op) + ": operand " + std::to_string(operand) +
           " is undefined\n  hint: assign a tensor before use; a tensor that was moved from is undefined",
       loc);
}

struct TensorImpl {
  std::shared_ptr<Storage> storage;
  Shape shape;
  Strides strides;
  int64_t offset = 0;  // elements from the start of storage
  DType dtype = DType::f32;
  std::shared_ptr<GradState> grad_state;  // null until requires_grad_() or a recorded op
  std::string name;                       // shown in error messages
  // If an operation made this view: `base` is the tensor whose storage it shares (expired if that is gone),
  // and `seen_writes` counts the writes that the graph had recorded in it when the view was taken.
  std::weak_ptr<TensorImpl> base;
  uint64_t seen_writes = 0;
  bool view = false;
  bool unit = false;  // all ones, the initial gradient of backward(): multiplying by it can be skipped
};

// Calls f(element) for each element of a strided view in row-major order.
template <class T, class F>
void for_each_element(const backend::View& v, F&& f) {
  if (v.numel() == 0) return;
  int64_t index[kMaxRank] = {};
  int64_t offset = 0;
  while (true) {
    f(v.as<T>()[offset]);
    int d = v.rank() - 1;
    for (; d >= 0; --d) {
      offset += v.strides[d];
      if (++index[d] < v.shape[d]) break;
      offset -= v.strides[d] * v.shape[d];
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

class Tensor : public TensorMethods {
 public:
  using TensorMethods::add_, TensorMethods::mul_, TensorMethods::to;
  using TensorMethods::reshape, TensorMethods::expand, TensorMethods::permute;
  Tensor() = default;  // undefined: no storage
  explicit Tensor(std::shared_ptr<TensorImpl> impl) : impl_(std::move(impl)) {}
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) = default;
  // Assignment to a variable makes this handle refer to another tensor; it writes no element. Assignment to
  // the result of an expression writes elements: x[0] = y, x[0] = 3, x.slice(0, 1, 3) = 0.
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & = default;
  void operator=(TensorArg values) &&;
  void operator=(ScalarArg number) &&;
  bool defined() const { return impl_ != nullptr; }
  // True if the only element is not 0, so that `if (loss < best)` works. It is an error unless the tensor is
  // defined and has exactly one element. !, && and || of tensors are elementwise (tensor/operators.hpp).
  explicit operator bool() const { return item<bool>(); }
  TensorImpl* impl() const { return impl_.get(); }
  const std::shared_ptr<TensorImpl>& handle() const { return impl_; }
  // Number of handles that refer to this tensor; views are other tensors and do not count.
  long handle_count() const { return impl_.use_count(); }

  // --- properties ---
  const Shape& shape(TT_LOC) const { return checked(loc).shape; }
  const Strides& strides(TT_LOC) const { return checked(loc).strides; }
  int64_t offset(TT_LOC) const { return checked(loc).offset; }
  int rank(TT_LOC) const { return shape(loc).size(); }
  // Size of dimension d; negative d counts from the end.
  int64_t size(int d, TT_LOC) const;
  int64_t numel(TT_LOC) const { return shape(loc).numel(); }
  DType dtype(TT_LOC) const { return checked(loc).dtype; }
  Device device(TT_LOC) const { return checked(loc).storage->device(); }
  size_t bytes(TT_LOC) const { return static_cast<size_t>(numel(loc)) * size_of(dtype(loc)); }
  bool is_contiguous() const { return tinytorch::is_contiguous(shape(), strides()); }
  const std::shared_ptr<Storage>& storage(TT_LOC) const { return checked(loc).storage; }
  const std::string& name() const { return checked().name; }
  Tensor& named(std::string name) {
    checked().name = std::move(name);
    return *this;
  }

  // --- values in and out ---
  // Pointer to the first element; strides() locates the others. On the CPU only.
  template <class T>
  T* data(TT_LOC) const {
    require_dtype(dtype_of<T>, loc);
    return static_cast<T*>(raw(loc));
  }
  void* raw(TT_LOC) const;
  backend::View view_of() const;
  // The only element, converted to T as by a cast (core/dtype.hpp). For a CUDA tensor, this waits until the
  // value has been computed.
  template <class T = float>
  T item(TT_LOC) const {
    const Tensor one = only_element(loc);
    return tinytorch::dispatch(one.dtype(),
                               [&]<class U>(U*) { return convert<T>(*one.view_of().template as<U>()); });
  }
  // All elements in row-major order, converted to T as by a cast.
  template <class T = float>
  std::vector<T> to_vector(TT_LOC) const {
    tell_host_read(*this, loc);
    if (!device().is_cpu()) return detach().to(tinytorch::cpu).to_vector<T>(loc);
    std::vector<T> out;
    out.reserve(static_cast<size_t>(numel()));
    tinytorch::dispatch(dtype(), [&]<class U>(U*) {
      for_each_element<U>(view_of(), [&](U value) { out.push_back(convert<T>(value)); });
    });
    return out;
  }

  // --- copies ---
  Tensor to(DType dtype, TT_LOC) const;
  Tensor to(Device device, TT_LOC) const;
  Tensor contiguous(TT_LOC) const;  // *this if it is already contiguous
  Tensor clone(TT_LOC) const;       // keeps the layout of a permuted tensor (tensor/kept_layout.hpp)

  // --- autograd ---
  bool requires_grad() const;
  Tensor& requires_grad_(bool on = true, TT_LOC);
  bool is_leaf() const;
  // Accumulated gradient; undefined before the first backward pass.
  Tensor grad() const;
  // g must have this tensor's shape, device and dtype, or be undefined. For a 16-bit tensor it may be f32.
  void set_grad(const Tensor& g, TT_LOC);
  void zero_grad();
  Tensor& retain_grad();  // keeps the gradient of an operation's result; leaves keep theirs in any case
  // backward calls hook(grad) when this gradient is complete, and uses the result instead, if it is defined.
  void register_hook(std::function<Tensor(const Tensor&)> hook);
  // A tensor with these values outside the graph. It shares the storage.
  Tensor detach() const;
  // Adds to grad() of every leaf on which this tensor depends. Without `gradient`: for one element.
  void backward(const Tensor& gradient = {}, bool retain_graph = false, TT_LOC) const;
  // Takes the options of autograd/grad.hpp: loss.backward({.create_graph = true}).
  template <std::same_as<BackwardOptions> Options = BackwardOptions>
  void backward(const Options& options, TT_LOC) const;

  // --- in-place; an error where the backward pass would become wrong ---
  Tensor& fill_(Scalar value, TT_LOC);
  Tensor& zero_(TT_LOC) { return fill_(0, loc); }
  Tensor& copy_(const Tensor& source, TT_LOC);
  Tensor& add_(const Tensor& other, Scalar alpha = 1, TT_LOC);
  Tensor& mul_(Scalar factor, TT_LOC);

  // --- views ---
  Tensor reshape(const Shape& shape, TT_LOC) const;  // one size may be -1
  Tensor flatten(int start = 0, int end = -1, TT_LOC) const;
  Tensor transpose(int a, int b, TT_LOC) const;
  Tensor t(TT_LOC) const;  // last two dimensions swapped
  Tensor permute(const Dims& order, TT_LOC) const;
  Tensor expand(const Shape& shape, TT_LOC) const;
  Tensor unsqueeze(int dim, TT_LOC) const;
  // Elements start, start + step, ... below stop along dim; negative positions count from the end.
  Tensor slice(int dim, int64_t start, int64_t stop = kEnd, int64_t step = 1, TT_LOC) const;
  Tensor select(int dim, int64_t index, TT_LOC) const;  // `index` along dim; the dimension is removed
  Tensor operator[](IndexArg at) const { return select(0, at.index, at.loc); }
  // x[{0, 1}] is one element of a matrix, x[{kWholeRange, Span{1, 3}}] some of its columns: views, as in
  // PyTorch's x[0, 1] and x[:, 1:3]. x[mask] and x[index] copy (tensor/indexing.hpp).
  Tensor operator[](std::initializer_list<IndexItem> items) const;
  Selected operator[](TensorArg at) const;

  // "f32 [2, 3] on cpu", after the name if there is one: the text for a tensor in messages.
  std::string describe() const;

  void require_dtype(DType expected, Loc loc) const {
    if (dtype() != expected) {
      fail("TT-DTYPE-01",
           "this tensor holds " + std::string(name_of(dtype())) + ", not " + name_of(expected) +
               "\n  hint: convert first with .to(" + name_of(expected) + ")",
           loc);
    }
  }
  TensorImpl& checked(TT_LOC) const {
    if (!impl_)
      fail(kUndefined,
           "the tensor is undefined\n  hint: assign a tensor before use; a tensor that was moved from is "
           "undefined",
           loc);
    return *impl_;
  }

 private:
  Tensor only_element(Loc loc) const;  // on the CPU
  std::shared_ptr<TensorImpl> impl_;
};

// A Tensor operand together with the line that used it, so that an error in `a + b` names the caller's line.
struct TensorArg {
  const Tensor& tensor;
  Loc loc;
  TensorArg(const Tensor& t, Loc l = Loc::current()) : tensor(t), loc(l) {}
};

// --- creation without computation (the basis of all other functions) ---

// Uninitialized memory.
TT_API Tensor empty(const Shape& shape, DType dtype = DType::f32, Device device = default_device(), TT_LOC);
// A view of t's storage, outside the graph and without checks: the caller's strides must stay inside the
// storage.
TT_API Tensor alias(const Tensor& t, const Shape& shape, const Strides& strides, int64_t offset);

// Copies `values` (row-major) into a new tensor of that shape; without a shape, into a vector.
template <class T>
Tensor from_data(const std::vector<T>& values, const Shape& shape, Device device = default_device(), TT_LOC);
template <class T>
Tensor from_data(const std::vector<T>& values, TT_LOC) {
  return from_data(values, Shape{static_cast<int64_t>(values.size())}, default_device(), loc);
}
template <class T>
Tensor from_data(std::initializer_list<T> values, const Shape& shape, Device device = default_device(),
                 TT_LOC) {
  return from_data(std::vector<T>(values), shape, device, loc);
}
template <class T>
Tensor from_data(std::initializer_list<T> values, TT_LOC) {
  return from_data(std::vector<T>(values), loc);
}

// d, plus the rank if it is negative. Throws an error that names `op` if d is outside [-rank, rank).
TT_API int normalize_dim(int64_t d, int rank, const char* op, Loc loc);

// ---------------------------------------------------------------------------------------------------------

inline int64_t Tensor::size(int d, Loc loc) const {
  return rank(loc) == 0 ? 1 : shape()[normalize_dim(d, rank(), "size", loc)];
}

inline void* Tensor::raw(Loc loc) const {
  const TensorImpl& t = checked(loc);
  tell_host_read(*this, loc);
  if (t.storage->device().is_cuda()) {
    fail("TT-DEVICE-02",
         "the values of a tensor on " + device().str() +
             " cannot be read from the host\n"
             "  hint: copy it with .to(cpu) first",
         loc);
  }
  return static_cast<char*>(t.storage->data()) + t.offset * static_cast<int64_t>(size_of(t.dtype));
}

inline backend::View Tensor::view_of() const {
  const TensorImpl& t = checked();
  char* base = static_cast<char*>(t.storage->data()) + t.offset * static_cast<int64_t>(size_of(t.dtype));
  return {base, t.dtype, t.shape, t.strides};
}

template <class T>
Tensor from_data(const std::vector<T>& values, const Shape& shape, Device device, Loc loc) {
  if (shape.numel() != static_cast<int64_t>(values.size())) {
    fail("TT-SHAPE-05",
         "from_data: " + std::to_string(values.size()) + " values do not fill shape " + shape.str() + " (" +
             std::to_string(shape.numel()) + " elements)",
         loc);
  }
  Tensor t = empty(shape, dtype_of<T>, cpu, loc);
  T* out = t.data<T>();
  for (size_t i = 0; i < values.size(); ++i) out[i] = values[i];
  return device.is_cpu() ? t : t.to(device, loc);
}

// Compiled once for the most common types of values.
#ifdef TINYTORCH_COMPILED
extern template Tensor from_data(const std::vector<float>&, const Shape&, Device, Loc);
extern template Tensor from_data(const std::vector<double>&, const Shape&, Device, Loc);
extern template Tensor from_data(const std::vector<int64_t>&, const Shape&, Device, Loc);
extern template std::vector<float> Tensor::to_vector(Loc) const;
extern template std::vector<double> Tensor::to_vector(Loc) const;
extern template std::vector<int64_t> Tensor::to_vector(Loc) const;
#endif

}  // namespace tinytorch::inline TT_BUILD

#if TT_BODIES(TENSOR)
namespace tinytorch::inline TT_BUILD {

TT_API int normalize_dim(int64_t d, int rank, const char* op, Loc loc) {
  const int64_t limit = rank == 0 ? 1 : rank;
  if (d < -limit || d >= limit) {
    fail("TT-SHAPE-03",
         std::string(op) + ": dimension " + std::to_string(d) + " is outside [" + std::to_string(-limit) +
             ", " + std::to_string(limit - 1) + "] of a tensor of rank " + std::to_string(rank),
         loc);
  }
  return static_cast<int>(d < 0 ? d + limit : d);
}

TT_API std::string Tensor::describe() const {
  if (!impl_) return "undefined tensor";
  const std::string label = name().empty() ? "" : "'" + name() + "' ";
  return label + name_of(dtype()) + " " + shape().str() + " on " + device().str();
}

// Throws TT-SHAPE-01 unless a tensor can have this shape. It is called for each requested shape; the shapes
// of views follow from checked ones.
inline void require_valid_shape(const char* what, const Shape& shape, Loc loc) {
  if (is_valid_shape(shape)) return;
  fail("TT-SHAPE-01",
       std::string(what) + " " + shape.str() + ": sizes must be >= 0 and their product must fit in memory",
       loc);
}

TT_API Tensor empty(const Shape& shape, DType dtype, Device device, Loc loc) {
  require_valid_shape("cannot make a tensor of shape", shape, loc);
  auto impl = std::make_shared<TensorImpl>();
  impl->storage = std::make_shared<Storage>(static_cast<size_t>(shape.numel()) * size_of(dtype), device, loc);
  impl->shape = shape;
  impl->strides = contiguous_strides(shape);
  impl->dtype = dtype;
  return Tensor(std::move(impl));
}

TT_API Tensor alias(const Tensor& t, const Shape& shape, const Strides& strides, int64_t offset) {
  auto impl = std::make_shared<TensorImpl>();
  impl->storage = t.storage();
  impl->shape = shape;
  impl->strides = strides;
  impl->offset = offset;
  impl->dtype = t.dtype();
  return Tensor(std::move(impl));
}

TT_API Tensor Tensor::only_element(Loc loc) const {
  if (!defined()) fail_undefined("item", 1, loc);
  if (numel() != 1) {
    fail("TT-SHAPE-06",
         "item: needs exactly one element, this tensor is " + describe() +
             "\n  hint: reduce it first, for example with .mean()",
         loc);
  }
  tell_host_read(*this, loc);
  if (!device().is_cpu()) {
    backend::cuda::refuse_in_capture("item()", loc);
    return detach().to(tinytorch::cpu, loc);
  }
  return *this;
}

#ifdef TINYTORCH_COMPILED
template Tensor from_data(const std::vector<float>&, const Shape&, Device, Loc);
template Tensor from_data(const std::vector<double>&, const Shape&, Device, Loc);
template Tensor from_data(const std::vector<int64_t>&, const Shape&, Device, Loc);
template std::vector<float> Tensor::to_vector(Loc) const;
template std::vector<double> Tensor::to_vector(Loc) const;
template std::vector<int64_t> Tensor::to_vector(Loc) const;
#endif

}  // namespace tinytorch::inline TT_BUILD
#endif
