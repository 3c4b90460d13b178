// Programs that compute ops on a GPU: a submitted plan, or the library.
#pragma once

#include <memory>
#include <tinymlperf/channel/tensor.hpp>
#include <tinymlperf/device/compiled_plan.hpp>
#include <tinymlperf/device/device_module.hpp>
#include <tinymlperf/kernels/library/library_ops.hpp>
#include <tinytorch/backend/cpu/block_linear.hpp>
#include <tinytorch/backend/cuda/launch.hpp>

namespace tinymlperf::device {

// The tensors of a query on the device.
struct Buffers {
  Shapes shapes;
  std::vector<channel::DType> types;  // of the inputs
  channel::DType result = channel::DType::f32;
  std::vector<void*> in;
  void *out = nullptr, *workspace = nullptr;
};

class Program {
 public:
  virtual ~Program() = default;
  virtual bool has(const std::string& op) const = 0;
  virtual int64_t workspace(const std::string& op, const Shapes& shapes) const = 0;  // bytes
  // Loads the code of an op again, so that a submission has no state of earlier queries.
  virtual void load(const std::string& op) = 0;
  // Queues all launches of the loaded op on the current stream.
  virtual void queue(const std::string& op, const Buffers& buffers) = 0;
};

class PlanProgram final : public Program {
 public:
  explicit PlanProgram(const std::filesystem::path& folder) : compiled_(load_compiled_plan(folder)) {}

  bool has(const std::string& op) const override { return compiled_.plan.contains(op); }
  int64_t workspace(const std::string& op, const Shapes& shapes) const override {
    return workspace_of(compiled_.plan.at(op), shapes);
  }
  void load(const std::string& op) override {
    module_ = std::make_unique<DeviceModule>(compiled_.sources.at(compiled_.plan.at(op).source));
  }
  void queue(const std::string& op, const Buffers& b) override {
    for (const Launch& launch : compiled_.plan.at(op).launches) {
      std::vector<Value> values;
      for (const Argument& argument : launch.arguments) values.push_back(value_of(argument, b));
      module_->launch(launch.kernel, dimensions_of(launch, b.shapes), values);
    }
  }
  const LaunchPlan& plan() const { return compiled_.plan; }

 private:
  static Value value_of(const Argument& argument, const Buffers& b) {
    using Kind = Argument::Kind;
    if (argument.kind == Kind::real) return Value::of(Kind::real, argument.value);
    if (argument.kind == Kind::integer) return Value::of(Kind::integer, evaluate(argument.text, b.shapes));
    if (argument.text == "out") return Value::of(Kind::pointer, b.out);
    if (argument.text == "workspace") return Value::of(Kind::pointer, b.workspace);
    const size_t input = *input_number(argument.text);
    if (input >= b.in.size())
      throw std::invalid_argument(argument.text + ": the op has " + std::to_string(b.in.size()) +
                                  " inputs; the first is in0");
    return Value::of(Kind::pointer, b.in[input]);
  }

  CompiledPlan compiled_;
  std::unique_ptr<DeviceModule> module_;
};

#if TINYTORCH_WITH_CUDA

// The library's kernels for GPUs. Their scratch memory comes from the library's allocator.
struct Gpu {
  class Memory {
   public:
    explicit Memory(int64_t words)
        : bytes_(static_cast<size_t>(words) * 4),
          device_(tinytorch::backend::cuda::current_device()),
          data_(tinytorch::backend::cuda::allocate(bytes_, device_)) {}
    ~Memory() { tinytorch::backend::cuda::deallocate(data_, bytes_, device_); }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    void* data() const { return data_; }

   private:
    size_t bytes_;
    int device_;
    void* data_;
  };
  static void copy(const auto&... a) { tinytorch::backend::cuda::copy(a...); }
  static void unary(const auto&... a) { tinytorch::backend::cuda::unary(a...); }
  static void binary(const auto&... a) { tinytorch::backend::cuda::binary(a...); }
  static void reduce(const auto&... a) { tinytorch::backend::cuda::reduce(a...); }
  static void matmul(const auto&... a) { tinytorch::backend::cuda::matmul(a...); }
  static void linear(const auto&... a) { tinytorch::backend::cuda::linear(a...); }
  static void conv2d(const auto&... a) { tinytorch::backend::cuda::conv2d(a...); }
  static void max_pool2d(const auto&... a) { tinytorch::backend::cuda::max_pool2d(a...); }
  static void softmax(const auto&... a) { tinytorch::backend::cuda::softmax(a...); }
  static void log_softmax(const auto&... a) { tinytorch::backend::cuda::log_softmax(a...); }
  static void layer_norm(const auto&... a) { tinytorch::backend::cuda::layer_norm(a...); }
  static void rms_norm(const auto&... a) { tinytorch::backend::cuda::rms_norm(a...); }
  static void attention(const auto&... a) { tinytorch::backend::cuda::attention(a...); }
  static void embedding(const auto&... a) { tinytorch::backend::cuda::embedding(a...); }
  static void adam_step(const auto&... a) { tinytorch::backend::cuda::adam_step(a...); }
  static void quantize_rows(const auto&... a) { tinytorch::backend::cuda::quantize_rows(a...); }
  static void linear_int8(const auto&... a) { tinytorch::backend::cuda::linear_int8(a...); }
  static void linear_sparse24(const auto&... a) { tinytorch::backend::cuda::linear_sparse24(a...); }
  static void attention_decode(const auto&... a) { tinytorch::backend::cuda::attention_decode(a...); }
  static void kv_append(const auto&... a) { tinytorch::backend::cuda::kv_append(a...); }
  static void block_linear_q4_0(const library::View& out, const library::View& x,
                                const library::View& blocks) {
    tinytorch::backend::cuda::block_linear(out, x, blocks, library::View{},
                                           *tinytorch::find_block_format("Q4_0"),
                                           tinytorch::Activations::floats);
  }
  // The library rounds activations of a GPU in the product itself, so it has no kernel for codes.
  static void gemv_q4_0(const auto&...) {}
  // Sparse tensor cores came with compute capability 8.0.
  static bool has(std::string_view op) {
    if (op == "spmm_24")
      return tinytorch::backend::cuda::properties(tinytorch::backend::cuda::current_device()).major >= 8;
    return op != "gemv_q4_0";
  }
};

class LibraryProgram final : public Program {
 public:
  bool has(const std::string& op) const override { return find(op) != nullptr; }
  int64_t workspace(const std::string&, const Shapes&) const override { return 0; }
  void load(const std::string&) override {}
  void queue(const std::string& op, const Buffers& b) override {
    std::vector<library::View> views;
    for (size_t i = 0; i < b.in.size(); ++i)
      views.push_back(library::view(b.in[i], library::dtype_of(b.types[i]), b.shapes.in[i]));
    views.push_back(library::view(b.out, library::dtype_of(b.result), b.shapes.out));
    find(op)->run(views, static_cast<float*>(b.out));
  }

 private:
  static const library::LibraryOp* find(const std::string& op) {
    for (const library::LibraryOp& one : library::LibraryOps<Gpu>::all())
      if (one.name == op && Gpu::has(op)) return &one;
    return nullptr;
  }
};

#endif

}  // namespace tinymlperf::device
