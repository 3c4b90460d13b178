// Pointwise programs as CUDA text, for the compiler of the CUDA driver's toolkit at run time (nvrtc.hpp).
//
// A thread computes all steps for 4, 8 or 16 neighbouring elements, in registers; each input and each result
// moves once, by vectors of 16 bytes where the layout allows it. Sizes, strides and the parameters of
// functions are arguments, as in the kernels for the CPU (emit_cpu.hpp), so one kernel serves all of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <tinytorch/acceleration/emit_cpu.hpp>
#include <tinytorch/acceleration/prelude.hpp>
#include <tinytorch/acceleration/prelude_shim.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::acceleration {

inline constexpr int kDeviceBlock = 256;  // threads of a block

// The most elements per thread for which the values of a program fit into the registers.
inline int most_elements(const PointwiseProgram& program) {
  const auto narrow = [&](int v) { return size_of(program.dtype_of_value(v)) <= 2; };
  bool all_narrow = program.compute == DType::f32;
  for (size_t k = 0; k < program.inputs.size(); ++k) all_narrow = all_narrow && narrow(static_cast<int>(k));
  for (const int v : program.outputs) all_narrow = all_narrow && narrow(v);
  if (program.compute == DType::f64) return 4;
  if (program.inputs.size() + program.outputs.size() > 6) return all_narrow ? 8 : 4;
  return all_narrow ? 16 : 8;
}

// Elements of one thread for operands of these layouts and addresses: a vector, or 1.
inline int elements_per_thread(const PointwiseProgram& program, const KernelCall& call,
                               std::span<void* const> out, std::span<const void* const> in) {
  const int wanted = most_elements(program);
  const int64_t* const size = call.arguments.data();
  if (call.layout.rows && size[3] % wanted != 0) return 1;  // a vector would cross rows
  const auto aligned = [&](const void* data, DType dtype) {
    return reinterpret_cast<uintptr_t>(data) %
               std::min<size_t>(16, size_of(dtype) * static_cast<size_t>(wanted)) ==
           0;
  };
  for (size_t k = 0; k < out.size(); ++k)
    if (!aligned(out[k], program.dtype_of_value(program.outputs[k]))) return 1;
  for (size_t k = 0; k < in.size(); ++k) {
    const InputLayout how = call.layout.inputs[k];
    if (how == InputLayout::strided) return 1;
    if (how != InputLayout::contiguous) continue;
    if (!aligned(in[k], program.inputs[k])) return 1;
    const int64_t* const stride = size + kKernelRank * (k + 1);
    for (int d = 0; d < kKernelRank - 1; ++d)
      if (stride[d] * static_cast<int64_t>(size_of(program.inputs[k])) % 16 != 0) return 1;
  }
  return wanted;
}

// Writes the text of one kernel, which takes its arguments as one struct: pointers to results, pointers to
// inputs, the numbers of KernelCall, and the number of elements.
class CudaEmitter {
 public:
  CudaEmitter(const PointwiseProgram& program, const KernelLayout& layout, int elements)
      : program_(program), layout_(layout), elements_(elements) {}

  std::string text() {
    const bool wide = program_.compute == DType::f64;
    line(std::string("typedef ") + (wide ? "double" : "float") + " T;");
    line("constexpr int E = " + n(static_cast<size_t>(elements_)) + ";");
    line(wide ? "typedef int64_t Bits;" : "typedef int32_t Bits;");
    line("struct Arguments {");
    line("  void* out[" + n(std::max<size_t>(1, program_.outputs.size())) + "];");
    line("  const void* in[" + n(std::max<size_t>(1, inputs())) + "];");
    line("  int64_t number[" + n(numbers()) + "];");
    line("  int64_t count;");
    line("};");
    line("extern \"C\" __global__ void __launch_bounds__(" + n(kDeviceBlock) +
         ") tinytorch_kernel(const __grid_constant__ Arguments g) {");
    line("  const int64_t first = (int64_t(blockIdx.x) * " + n(kDeviceBlock) + " + threadIdx.x) * E;");
    line("  if (first >= g.count) return;");
    line("  const bool whole = first + E <= g.count;");
    line("  const Bits zero = Bits(g.count >> 62);");  // 0, which no compiler can know
    if (layout_.rows) position();
    for (size_t k = 0; k < inputs(); ++k) input(k);
    for (size_t s = 0; s < program_.steps.size(); ++s) step(s);
    for (size_t k = 0; k < program_.outputs.size(); ++k) result(k);
    line("}");
    return out_;
  }

 private:
  static std::string n(size_t i) { return std::to_string(i); }
  void line(const std::string& text) { out_ += text + "\n"; }
  size_t inputs() const { return program_.inputs.size(); }
  size_t numbers() const { return kKernelRank * (1 + inputs()) + 2 * program_.steps.size() + 1; }

  // The index of the first element in each dimension; 32-bit divisions where they suffice.
  void position() {
    line("  int64_t at[4], rest = first;");
    line("  if (g.count < (int64_t(1) << 31)) {");
    line("    uint32_t left = uint32_t(first);");
    line(
        "    for (int d = 3; d > 0; --d) at[d] = left % uint32_t(g.number[d]), left /= "
        "uint32_t(g.number[d]);");
    line("    at[0] = left;");
    line("  } else {");
    line("    for (int d = 3; d > 0; --d) at[d] = rest % g.number[d], rest /= g.number[d];");
    line("    at[0] = rest;");
    line("  }");
  }

  void input(size_t k) {
    const std::string v = "v" + n(k), type = emitted_type(program_.inputs[k]), p = "p" + n(k);
    const InputLayout how = layout_.inputs[k];
    line("  T " + v + "[E];");
    line("  {");
    const std::string data = "static_cast<const " + type + "*>(g.in[" + n(k) + "])";
    const size_t first = kKernelRank * (k + 1);
    if (how == InputLayout::constant) {
      line("    const " + type + "* const " + p + " = " + data + ";");
    } else if (layout_.rows) {
      std::string offset;
      for (size_t d = 0; d < kKernelRank; ++d)
        offset += (d == 0 ? "at[" : " + at[") + n(d) + "] * g.number[" + n(first + d) + "]";
      line("    const " + type + "* const " + p + " = " + data + " + " + offset + ";");
    } else {
      line("    const " + type + "* const " + p + " = " + data + " + first * g.number[" + n(first + 3) +
           "];");
    }
    const bool one = how == InputLayout::constant || how == InputLayout::repeated || elements_ == 1;
    if (one) {
      line("    const T x = to<T>(*" + p + ");");
      line("    for (int i = 0; i < E; ++i) " + v + "[i] = x;");
    } else {
      line("    if (whole) load(" + v + ", " + p + ");");
      line("    else for (int i = 0; i < E; ++i) " + v + "[i] = first + i < g.count ? to<T>(" + p +
           "[i]) : T(0);");
    }
    line("  }");
  }

  void step(size_t s) {
    using enum backend::PointwiseKind;
    const PointwiseStep& step = program_.steps[s];
    const std::string v = "v" + n(inputs() + s), fn = std::to_string(step.fn);
    const auto in = [&](int k) { return "v" + std::to_string(step.in[k]) + "[i]"; };
    const auto parameter = [&](size_t k) {
      return "convert<T>(std::bit_cast<double>(g.number[" + n(kKernelRank * (1 + inputs()) + 2 * s + k) +
             "]))";
    };
    std::string value;
    if (step.kind == unary) {
      value = short_gelu(step) ? "gelu_16_bit(" + in(0) + ")"
                               : "unary_of<UnaryFn(" + fn + "), T>(" + in(0) + ", " + parameter(0) + ", " +
                                     parameter(1) + ")";
    } else if (step.kind == binary) {
      value = "binary_of<BinaryFn(" + fn + "), T>(" + in(0) + ", " + in(1) + ", " + parameter(0) + ")";
    } else if (step.kind == where) {
      value = in(0) + " != T(0) ? " + in(1) + " : " + in(2);
    } else {
      value = step.dtype == DType::boolean ? in(0) + " != T(0) ? T(1) : T(0)" : in(0);
    }
    line("  T " + v + "[E];");
    line("  for (int i = 0; i < E; ++i) {");
    line("    T x = " + value + ";");
    if (program_.compute == DType::f32 && is_16_bit(step.dtype)) {
      line("    x = to<T>(to<" + emitted_type(step.dtype) + ">(x));");
    } else {
      // The compiler must not join a product of this step with a sum of a later one. An empty asm statement
      // is not enough: the assembler of PTX sees through it and joins them, too.
      line("    x = std::bit_cast<T>(std::bit_cast<Bits>(x) ^ zero);");
    }
    line("    " + v + "[i] = x;");
    line("  }");
  }
  // The kernel for single functions uses it if operand and result have 16 bits or fewer.
  bool short_gelu(const PointwiseStep& step) const {
    return step.fn == static_cast<uint8_t>(backend::UnaryFn::gelu) && program_.compute == DType::f32 &&
           size_of(step.dtype) <= 2 && size_of(program_.dtype_of_value(step.in[0])) <= 2;
  }

  void result(size_t k) {
    const std::string type = emitted_type(program_.dtype_of_value(program_.outputs[k]));
    const std::string v = "v" + std::to_string(program_.outputs[k]);
    line("  {");
    line("    " + type + "* const y = static_cast<" + type + "*>(g.out[" + n(k) + "]) + first;");
    if (elements_ > 1) {
      line("    if (whole) store(y, " + v + ");");
      line("    else for (int i = 0; i < E; ++i) if (first + i < g.count) y[i] = to<" + type + ">(" + v +
           "[i]);");
    } else {
      line("    *y = to<" + type + ">(" + v + "[0]);");
    }
    line("  }");
  }

  const PointwiseProgram& program_;
  const KernelLayout& layout_;
  const int elements_;
  std::string out_;
};

inline std::string emit_cuda(const PointwiseProgram& program, const KernelLayout& layout, int elements) {
  return "namespace tinytorch::inline TT_BUILD::backend::cuda {\n" +
         CudaEmitter(program, layout, elements).text() + "}\n";
}

}  // namespace tinytorch::inline TT_BUILD::acceleration
