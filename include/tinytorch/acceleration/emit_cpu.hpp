// Pointwise programs as C++ text for the CPU.
//
// The text depends on the steps, the dtypes and the class of layout of each input. Sizes, strides and the
// parameters of functions (the bounds of clamp) are arguments, so one kernel serves all of them.
#pragma once

#include <bit>
#include <optional>
#include <span>
#include <string>
#include <tinytorch/acceleration/kernel_support.hpp>
#include <tinytorch/backend/functors.hpp>
#include <tinytorch/backend/layout.hpp>
#include <tinytorch/backend/pointwise.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::acceleration {

using backend::PointwiseProgram;
using backend::PointwiseStep;
using backend::View;

// The stride of an input along the last dimension that remains after dimensions are merged.
enum class InputLayout : uint8_t {
  constant,    // one value for all elements
  contiguous,  // the next element
  repeated,    // the same element along a row
  strided      // any other step
};

// The properties of the inputs for which a kernel is compiled, besides the program. `rows` is true if some
// input needs more than one dimension; otherwise the elements are one contiguous run.
struct KernelLayout {
  bool rows = false;
  std::vector<InputLayout> inputs;
  bool operator==(const KernelLayout&) const = default;
};

inline constexpr int kKernelRank = 4;
using backend::kKernelOperands;

// The arguments of a kernel: 4 sizes, 4 strides of each input, the bits of 2 parameters of each step, and 1
// if results are written with non-temporal stores.
struct KernelCall {
  KernelLayout layout;
  std::vector<int64_t> arguments;
};
using KernelFunction = void (*)(void* const* out, const void* const* in, const int64_t* arguments,
                                int64_t begin, int64_t end);

// Arguments from merged sizes and strides, whose rank is at most 4.
inline KernelCall kernel_call(const PointwiseProgram& program, const Shape& shape,
                              std::span<const Strides> strides, bool non_temporal) {
  KernelCall call;
  const int rank = shape.size(), missing = kKernelRank - rank;
  call.layout.rows = rank > 1;
  call.arguments.assign(kKernelRank * (1 + strides.size()), 0);
  for (int d = 0; d < kKernelRank; ++d)
    call.arguments[static_cast<size_t>(d)] = d < missing ? 1 : shape[d - missing];
  for (size_t k = 0; k < strides.size(); ++k) {
    bool constant = true;
    for (int d = 0; d < rank; ++d) {
      call.arguments[kKernelRank * (k + 1) + static_cast<size_t>(d + missing)] = strides[k][d];
      constant = constant && strides[k][d] == 0;
    }
    const int64_t last = strides[k].back();
    call.layout.inputs.push_back(constant    ? InputLayout::constant
                                 : last == 1 ? InputLayout::contiguous
                                 : last == 0 ? InputLayout::repeated
                                             : InputLayout::strided);
  }
  for (const PointwiseStep& step : program.steps)
    for (const double p : step.p) call.arguments.push_back(std::bit_cast<int64_t>(p));
  call.arguments.push_back(non_temporal ? 1 : 0);
  return call;
}

// The call that computes contiguous results of `shape` from the inputs. Nothing if no kernel is made for it:
// more than 32 inputs or results, or more than 4 dimensions after merging, or rows that are shorter than a
// few vectors.
inline std::optional<KernelCall> kernel_call_for(const PointwiseProgram& program, const Shape& shape,
                                                 std::span<const View> in, bool non_temporal) {
  constexpr int64_t kShortestRow = 32;
  if (in.size() > kKernelOperands || program.outputs.size() > kKernelOperands) return std::nullopt;
  Strides strides[kKernelOperands + 1];
  // A contiguous view beside the inputs keeps the order of the results, and also serves programs without
  // inputs.
  strides[0] = Strides::filled(shape.size(), 0);
  int64_t step = 1;
  for (int d = shape.size() - 1; d >= 0; --d) strides[0][d] = step, step *= shape[d];
  for (size_t k = 0; k < in.size(); ++k) strides[k + 1] = backend::stretch(in[k], shape);
  Shape merged = shape;
  backend::collapse(merged, strides, in.size() + 1);
  if (merged.size() > kKernelRank) return std::nullopt;
  if (merged.size() > 1 && merged.back() < kShortestRow) return std::nullopt;
  return kernel_call(program, merged, std::span(strides + 1, in.size()), non_temporal);
}

// The name that emitted text uses for the elements of a dtype which programs may have.
inline std::string emitted_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "float";
    case DType::f64:
      return "double";
    case DType::bf16:
      return "BFloat16";
    case DType::f16:
      return "Half";
    default:
      return "bool";
  }
}

// Writes the text of one kernel.
class CpuEmitter {
 public:
  CpuEmitter(const PointwiseProgram& program, const KernelLayout& layout)
      : program_(program), layout_(layout) {}

  std::string text() {
    line(program_.compute == DType::f64 ? "typedef double T;" : "typedef float T;");
    out_ += "#if defined(__AVX__)\nconstexpr int kBytes = 32;\n#else\nconstexpr int kBytes = 16;\n#endif\n";
    out_ += kKernelSupport;
    line("extern \"C\" [[gnu::visibility(\"default\")]] void tinytorch_kernel(void* const* out,");
    line("    const void* const* in, const int64_t* arguments, int64_t begin, int64_t end) {");
    line("  const int64_t* const size = arguments;");
    parameters();
    for (size_t k = 0; k < inputs(); ++k) {
      line("  const auto* const in" + n(k) + " = static_cast<const " + emitted_type(program_.inputs[k]) +
           "*>(in[" + n(k) + "]);");
      line("  const int64_t* const stride" + n(k) + " = arguments + " + n(4 * (k + 1)) + ";");
      if (how(k) == InputLayout::constant) line(value(k) + "repeat(convert<T>(*in" + n(k) + "));");
    }
    line("  Position position(size, begin);");
    line("  for (int64_t at = begin; at < end;) {");
    line(
        "    const int64_t left = size[3] - position.index[3] < end - at ? size[3] - position.index[3] "
        ": end - at;");
    for (size_t k = 0; k < inputs(); ++k) {
      if (how(k) == InputLayout::constant) continue;
      line("    const auto* const from" + n(k) + " = in" + n(k) + " + position.offset(stride" + n(k) + ");");
      if (how(k) == InputLayout::repeated) line(value(k) + "repeat(convert<T>(*from" + n(k) + "));");
    }
    run();
    line("    at += left;");
    line("    position.next_run(size);");
    line("  }");
    line("#if defined(__x86_64__)\n  if (stream) __builtin_ia32_sfence();\n#endif\n}");
    return out_;
  }

 private:
  static std::string n(size_t i) { return std::to_string(i); }
  static std::string parameter(size_t step, size_t k) {
    std::string name = "p";
    name += n(step), name += k == 0 ? "_0" : "_1";
    return name;
  }
  void line(const std::string& text) { out_ += text + "\n"; }
  size_t inputs() const { return program_.inputs.size(); }
  InputLayout how(size_t k) const { return layout_.inputs[k]; }
  // True for inputs that are read element by element.
  bool walks(size_t k) const { return how(k) == InputLayout::contiguous || how(k) == InputLayout::strided; }
  static std::string value(size_t v) { return "        const V v" + n(v) + " = "; }

  // Parameters become variables that the compiler knows nothing about, as in the loops of single functions.
  void parameters() {
    const size_t first = 4 * (1 + inputs());
    for (size_t s = 0; s < program_.steps.size(); ++s) {
      for (size_t k = 0; k < 2; ++k) {
        line("  [[maybe_unused]] const T " + parameter(s, k) + " = convert<T>(parameter(arguments[" +
             n(first + 2 * s + k) + "]));");
      }
    }
    line("  const bool stream = arguments[" + n(first + 2 * program_.steps.size()) + "] != 0;");
  }

  // One run: first its whole vectors, then the rest in buffers.
  void run() {
    line("    const int64_t whole = left / W * W;");
    line("    for (int pass = 0; pass < 2; ++pass) {");
    line("      const int64_t count = pass == 0 ? whole : left - whole;");
    line("      if (count == 0) continue;");
    for (size_t k = 0; k < inputs(); ++k) {
      if (!walks(k)) continue;
      const std::string step = how(k) == InputLayout::contiguous ? "1" : "stride" + n(k) + "[3]";
      line("      Buffer<" + emitted_type(program_.inputs[k]) + "> rest" + n(k) + ";");
      line("      const auto* const x" + n(k) + " = pass == 0 ? from" + n(k) + " : copied(rest" + n(k) +
           ", from" + n(k) + " + whole * " + step + ", " + step + ", count);");
      line("      const int64_t step" + n(k) + " = pass == 0 ? " + step + " : 1;");
    }
    for (size_t k = 0; k < program_.outputs.size(); ++k) {
      const std::string t = emitted_type(program_.dtype_of_value(program_.outputs[k]));
      line("      Buffer<" + t + "> result" + n(k) + ";");
      line("      auto* const target" + n(k) + " = static_cast<" + t + "*>(out[" + n(k) + "]) + at;");
      line("      auto* const y" + n(k) + " = pass == 0 ? target" + n(k) + " : result" + n(k) + ".at;");
      line("      const bool stream" + n(k) + " = stream && pass == 0 && aligned(y" + n(k) + ");");
    }
    line("      for (int64_t j = 0; j < count; j += W) {");
    for (size_t k = 0; k < inputs(); ++k) {
      if (!walks(k)) continue;
      const bool contiguous = how(k) == InputLayout::contiguous;
      line(value(k) + "load(x" + n(k) +
           (contiguous ? " + j, 1);" : " + j * step" + n(k) + ", step" + n(k) + ");"));
    }
    for (size_t s = 0; s < program_.steps.size(); ++s) step(s);
    for (size_t k = 0; k < program_.outputs.size(); ++k)
      line("        store(y" + n(k) + " + j, v" + n(static_cast<size_t>(program_.outputs[k])) + ", stream" +
           n(k) + ");");
    line("      }");
    for (size_t k = 0; k < program_.outputs.size(); ++k)
      line("      if (pass == 1) for (int64_t i = 0; i < count; ++i) target" + n(k) + "[whole + i] = y" +
           n(k) + "[i];");
    line("    }");
  }

  void step(size_t s) {
    using enum backend::PointwiseKind;
    const PointwiseStep& step = program_.steps[s];
    const auto in = [&](int k) { return "v" + std::to_string(step.in[k]); };
    const std::string fn = std::to_string(step.fn), p0 = parameter(s, 0), p1 = parameter(s, 1);
    std::string call;
    if (step.kind == unary) {
      const auto f = static_cast<backend::UnaryFn>(step.fn);
      call = f == backend::UnaryFn::sin   ? "apply_trig<true>(" + in(0) + ")"
             : f == backend::UnaryFn::cos ? "apply_trig<false>(" + in(0) + ")"
                                          : "apply(" + in(0) + ", [&](T x) { return unary_value<UnaryFn(" +
                                                fn + "), T>(x, " + p0 + ", " + p1 + "); })";
    } else if (step.kind == binary) {
      call = "apply(" + in(0) + ", " + in(1) + ", [&](T x, T y) { return binary_value<BinaryFn(" + fn +
             "), T>(x, y, " + p0 + "); })";
    } else if (step.kind == where) {
      call = "apply(" + in(0) + ", " + in(1) + ", " + in(2) +
             ", [](T c, T x, T y) { return c != T(0) ? x : y; })";
    } else if (step.dtype == DType::boolean) {
      call = "apply(" + in(0) + ", [](T x) { return x != T(0) ? T(1) : T(0); })";
    } else {
      call = in(0);
    }
    if (program_.compute == DType::f32 && is_16_bit(step.dtype)) {
      call =
          "apply(" + call + ", [](T x) { return convert<T>(convert<" + emitted_type(step.dtype) + ">(x)); })";
    }
    line(value(inputs() + s) + call + ";");
  }

  const PointwiseProgram& program_;
  const KernelLayout& layout_;
  std::string out_;
};

inline std::string emit_cpu(const PointwiseProgram& program, const KernelLayout& layout) {
  return CpuEmitter(program, layout).text();
}

}  // namespace tinytorch::inline TT_BUILD::acceleration
