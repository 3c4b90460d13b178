// Row programs (row_program.hpp) as CUDA text, for NVRTC.
//
// A part of a warp, a warp, or a block computes a row. It reads the row's inputs once, into registers, if
// they fit there; longer rows are read again for each pass. A pass computes, for every element, what the next
// reductions need, and folds it: first within a thread, then over the threads. Elementwise steps are computed
// again in each pass that needs them, which costs less than memory. What Math::fast allows is used: sums are
// added in another order than by the library's own reduction, values between the steps keep the precision of
// the computing type, and exp (errors up to 1e-5 for large numbers) and division (2 ulp) are approximate.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <tinytorch/acceleration/emit_cuda.hpp>
#include <tinytorch/acceleration/row_program.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::acceleration {

// The division of a row among `lanes` threads: each computes `elements` neighbours at a time, `parts` times,
// or, with 0 parts, as often as the row needs, without keeping inputs in registers. `shifted` rows begin
// between vectors, so that their first and last vectors have elements of other rows, too.
struct RowCut {
  int elements = 1, lanes = 32, parts = 1;
  bool shifted = false;
  auto operator<=>(const RowCut&) const = default;

  int block() const { return std::max(lanes, 128); }
  int rows_of_block() const { return block() / lanes; }
};

// The scalar steps of a row program: what its kernel computes, with the values between the steps of each
// FusedPointwise.
struct RowScalars {
  struct Step {
    bool reduces = false;
    ReductionStep reduction;
    backend::PointwiseStep fn;  // otherwise; its operands are in `in`
    std::vector<int> in;        // numbers of values
    int out = 0;
    bool full = false;         // the result has every element
    DType dtype = DType::f32;  // of the result
    int level = 0;             // how many reductions, one after the other, come before it
  };
  DType compute = DType::f32;
  std::vector<RowExtent> extents;  // of the values; the inputs are first
  std::vector<DType> dtypes;
  std::vector<Step> steps;
  int levels = 0;

  explicit RowScalars(const RowProgram& program) {
    std::vector<int> level(program.inputs, 0), number(program.values.size(), -1);
    for (size_t k = 0; k < program.inputs; ++k) {
      extents.push_back(program.values[k].extent), dtypes.push_back(program.values[k].dtype);
      number[k] = static_cast<int>(k);
      if (dtypes.back() == DType::f64) compute = DType::f64;
    }
    const auto add = [&](Step step) {
      step.out = static_cast<int>(extents.size());
      for (const int v : step.in) step.level = std::max(step.level, level[static_cast<size_t>(v)]);
      level.push_back(step.level + (step.reduces ? 1 : 0));
      levels = std::max(levels, level.back());
      extents.push_back(step.full ? RowExtent::full : RowExtent::row), dtypes.push_back(step.dtype);
      if (step.dtype == DType::f64) compute = DType::f64;
      steps.push_back(std::move(step));
      return steps.back().out;
    };
    for (const RowStep& s : program.steps) {
      std::vector<int> operands;
      for (const RowOperand& o : s.in) operands.push_back(number[static_cast<size_t>(o.value)]);
      const RowValue& result = program.value(s.out[0]);
      Step step;
      step.full = result.extent == RowExtent::full;
      step.dtype = result.dtype;
      if (s.op->reduction(step.reduction)) {
        step.reduces = true, step.in = operands;
        number[static_cast<size_t>(s.out[0])] = add(step);
      } else if (const auto* const fused = dynamic_cast<const FusedPointwise*>(s.op.get())) {
        std::vector<int> values = operands;
        for (const backend::PointwiseStep& p : fused->program->steps) {
          Step part;
          part.full = step.full, part.dtype = p.dtype, part.fn = p;
          for (int k = 0; k < p.operands(); ++k) part.in.push_back(values[static_cast<size_t>(p.in[k])]);
          values.push_back(add(part));
        }
        for (size_t k = 0; k < s.out.size(); ++k)
          number[static_cast<size_t>(s.out[k])] = values[static_cast<size_t>(fused->program->outputs[k])];
      } else {
        s.op->pointwise(step.fn);
        step.fn.dtype = step.dtype, step.in = operands;
        number[static_cast<size_t>(s.out[0])] = add(step);
      }
    }
    for (const int v : program.outputs) outputs.push_back(number[static_cast<size_t>(v)]);
  }
  std::vector<int> outputs;
};

class CudaRowEmitter {
 public:
  CudaRowEmitter(const RowProgram& program, RowCut cut) : program_(program), scalars_(program), cut_(cut) {}

  std::string text() {
    line(scalars_.compute == DType::f64 ? "typedef double T;" : "typedef float T;");
    line("constexpr int E = " + n(cut_.elements) + ", kLanes = " + n(cut_.lanes) +
         ", kBlock = " + n(cut_.block()) + ";");
    line("constexpr bool kShifted = " + n(static_cast<int>(cut_.shifted)) + ";");
    out_ += kSupport;
    line("struct Arguments {");
    line("  void* out[" + n(std::max<size_t>(1, program_.outputs.size())) + "];");
    line("  const void* in[" + n(std::max<size_t>(1, program_.inputs)) + "];");
    line("  double number[" + n(2 * scalars_.steps.size() + 1) + "];");
    line("  int64_t rows, length;");
    line("};");
    line("extern \"C\" __global__ void __launch_bounds__(kBlock)");
    line("tinytorch_kernel(const __grid_constant__ Arguments g) {");
    line("  __shared__ T partial[2][32];");
    line("  const int lane = static_cast<int>(threadIdx.x) % kLanes;");
    line("  const int64_t wanted = int64_t(blockIdx.x) * (kBlock / kLanes) + threadIdx.x / kLanes;");
    line("  const bool valid = wanted < g.rows;");  // a warp with other rows needs all its lanes
    line("  const int64_t row = valid ? wanted : g.rows - 1;");
    line("  const int64_t n = g.length;");
    line("  const int64_t origin = kShifted ? -(row * n % E) : 0;");
    for (size_t k = 0; k < program_.inputs; ++k) input(static_cast<int>(k));
    for (int level = 0; level <= scalars_.levels; ++level) {
      row_steps(level);
      if (level < scalars_.levels) reduce(level);
    }
    results();
    line("}");
    return out_;
  }

  // Bytes of the registers that keep the inputs of a row, per element of a thread.
  static int kept_bytes(const RowProgram& program) {
    size_t bytes = 0;
    for (size_t k = 0; k < program.inputs; ++k) {
      const RowExtent e = program.values[k].extent;
      if (e == RowExtent::full || e == RowExtent::line) bytes += size_of(program.values[k].dtype);
    }
    return static_cast<int>(bytes);
  }

 private:
  static constexpr const char* kSupport = R"cuda(
enum class Fold { sum, max, min };
template <Fold fold>
__device__ __forceinline__ T neutral() {
  return fold == Fold::sum ? T(0) : fold == Fold::max ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::infinity();
}
template <Fold fold>
__device__ __forceinline__ T join(T a, T x) {  // NaN wins
  if (fold == Fold::sum) return a + x;
  if (fold == Fold::max) return x > a || x != x ? x : a;
  return x < a || x != x ? x : a;
}
__device__ __forceinline__ bool inside(int64_t j, int64_t n) { return !kShifted || (j >= 0 && j < n); }
// Elements [j, j + E) of a row, 0 outside of it.
template <class X>
__device__ __forceinline__ void load_one_by_one(X (&out)[E], const X* p, int64_t j, int64_t n) {
#pragma unroll
  for (int i = 0; i < E; ++i) out[i] = inside(j + i, n) ? p[j + i] : X();
}
template <class X>
__device__ __forceinline__ void load_elements(X (&out)[E], const X* p, int64_t j, int64_t n) {
  if (kShifted && (j < 0 || j + E > n)) return load_one_by_one(out, p, j, n);
  constexpr int kBytes = kAccessBytes<X, E>, kEach = kBytes / static_cast<int>(sizeof(X));
  using Word = typename WordOf<kBytes>::Type;
#pragma unroll
  for (int k = 0; k < E / kEach; ++k) {
    const Word word = reinterpret_cast<const Word*>(p + j)[k];
    memcpy(&out[k * kEach], &word, sizeof(word));
  }
}
template <class X>
__device__ __forceinline__ void store_elements(X* p, const T (&in)[E], int64_t j, int64_t n) {
  if (kShifted && (j < 0 || j + E > n)) {
#pragma unroll
    for (int i = 0; i < E; ++i)
      if (inside(j + i, n)) p[j + i] = to<X>(in[i]);
    return;
  }
  store(p + j, in);
}
__device__ __forceinline__ float fast_exp(float x) {
  float y;
  asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x * 1.44269504f));  // with subnormal results
  return y;
}
__device__ __forceinline__ float fast_quotient(float a, float b) {
  float y;
  asm("div.full.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));  // for all b; __fdividef is 0 above 2^126
  return y;
}
template <UnaryFn fn>
__device__ __forceinline__ T fast_unary(T x, T p0, T p1) {
  if constexpr (fn == UnaryFn::exp && sizeof(T) == 4) return fast_exp(x);
  return unary_of<fn, T>(x, p0, p1);
}
template <BinaryFn fn>
__device__ __forceinline__ T fast_binary(T a, T b, T p0) {
  if constexpr (fn == BinaryFn::div && sizeof(T) == 4) return fast_quotient(a, b);
  // A product that is computed again in another pass must not be joined with another sum there.
  if constexpr (fn == BinaryFn::mul && sizeof(T) == 4) return __fmul_rn(a, b);
  return binary_of<fn, T>(a, b, p0);
}
template <Fold fold>
__device__ __forceinline__ T over_lanes(T a, T* partial) {
  for (int step = (kLanes < 32 ? kLanes : 32) / 2; step > 0; step /= 2) {
    const T b = __shfl_xor_sync(0xffffffffu, a, step);
    a = join<fold>(a, b);
  }
  if (kLanes <= 32) return a;
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = a;
  __syncthreads();
  T all = partial[0];
  for (int w = 1; w < kLanes / 32; ++w) all = join<fold>(all, partial[w]);
  return all;
}
)cuda";

  template <class I>
  static std::string n(I i) {
    return std::to_string(i);
  }
  void line(const std::string& text) { out_ += text + "\n"; }
  RowExtent extent(int v) const { return scalars_.extents[static_cast<size_t>(v)]; }
  DType dtype(int v) const { return scalars_.dtypes[static_cast<size_t>(v)]; }
  // True for values that have an element for each element of a row.
  bool by_element(int v) const { return extent(v) == RowExtent::full || extent(v) == RowExtent::line; }
  std::string type(int v) const { return emitted_type(dtype(v)); }

  void input(int k) {
    const std::string data = "static_cast<const " + type(k) + "*>(g.in[" + n(k) + "])";
    if (extent(k) == RowExtent::constant) return line("  const T v" + n(k) + " = to<T>(*" + data + ");");
    if (extent(k) == RowExtent::row) return line("  const T v" + n(k) + " = to<T>(" + data + "[row]);");
    const std::string offset = extent(k) == RowExtent::full ? " + row * n" : "";
    line("  const " + type(k) + "* const p" + n(k) + " = " + data + offset + ";");
    if (cut_.parts == 0) return;
    line("  " + type(k) + " c" + n(k) + "[" + n(cut_.parts) + "][E];");
    line("#pragma unroll");
    line("  for (int u = 0; u < " + n(cut_.parts) + "; ++u) {");
    line("    const int64_t j = origin + (int64_t(u) * kLanes + lane) * E;");
    line("    if (j < n) " + load(k) + "(c" + n(k) + "[u], p" + n(k) + ", j, n);");
    line("  }");
  }

  // A line for all rows does not begin between vectors with them.
  std::string load(int k) const {
    return cut_.shifted && extent(k) == RowExtent::line ? "load_one_by_one" : "load_elements";
  }

  // The value of an elementwise step, from values of the same element or row.
  std::string value(const RowScalars::Step& s) const {
    using enum backend::PointwiseKind;
    const auto in = [&](size_t k) { return "v" + n(s.in[k]); };
    const size_t at = static_cast<size_t>(&s - scalars_.steps.data());
    const auto parameter = [&](size_t k) { return "convert<T>(g.number[" + n(2 * at + k) + "])"; };
    const std::string fn = n(static_cast<int>(s.fn.fn));
    std::string x = in(0);
    if (s.fn.kind == unary) {
      x = "fast_unary<UnaryFn(" + fn + ")>(" + in(0) + ", " + parameter(0) + ", " + parameter(1) + ")";
    } else if (s.fn.kind == binary) {
      x = "fast_binary<BinaryFn(" + fn + ")>(" + in(0) + ", " + in(1) + ", " + parameter(0) + ")";
    } else if (s.fn.kind == where) {
      x = "(" + in(0) + " != T(0) ? " + in(1) + " : " + in(2) + ")";
    } else if (s.dtype == DType::boolean) {
      x = "(" + in(0) + " != T(0) ? T(1) : T(0))";
    }
    return x;
  }

  // Numbers for each row that depend on `level` reductions.
  void row_steps(int level) {
    for (const RowScalars::Step& s : scalars_.steps)
      if (!s.full && !s.reduces && s.level == level) line("  const T v" + n(s.out) + " = " + value(s) + ";");
  }

  // The elementwise steps that `wanted` values of an element depend on, and the inputs.
  void needed(const std::vector<int>& wanted, std::vector<bool>& values) const {
    values.assign(scalars_.extents.size(), false);
    for (const int v : wanted) values[static_cast<size_t>(v)] = true;
    for (auto s = scalars_.steps.rbegin(); s != scalars_.steps.rend(); ++s) {
      if (!s->full || !values[static_cast<size_t>(s->out)]) continue;
      for (const int v : s->in)
        values[static_cast<size_t>(v)] = values[static_cast<size_t>(v)] || by_element(v);
    }
  }
  // A loop over the elements of a row that one thread computes, up to the values `wanted`; each_element()
  // writes what is done with them.
  template <class Before, class Each, class After>
  void pass(const std::vector<int>& wanted, Before&& before, Each&& each_element, After&& after) {
    std::vector<bool> values;
    needed(wanted, values);
    const auto reads = [&](int k) { return by_element(k) && values[static_cast<size_t>(k)]; };
    const int inputs = static_cast<int>(program_.inputs);
    if (cut_.parts > 0) {
      line("#pragma unroll");
      line("  for (int u = 0; u < " + n(cut_.parts) + "; ++u) {");
      line("    const int64_t j = origin + (int64_t(u) * kLanes + lane) * E;");
      line("    if (j < n) {");
    } else {
      line("  for (int64_t j = origin + int64_t(lane) * E; j < n; j += int64_t(kLanes) * E) {");
      line("    {");
      for (int k = 0; k < inputs; ++k) {
        if (!reads(k)) continue;
        line("    " + type(k) + " l" + n(k) + "[E];");
        line("    " + load(k) + "(l" + n(k) + ", p" + n(k) + ", j, n);");
      }
    }
    before();
    line("#pragma unroll");
    line("    for (int i = 0; i < E; ++i) {");
    for (int k = 0; k < inputs; ++k) {
      if (!reads(k)) continue;
      const std::string from = (cut_.parts > 0 ? "c" : "l") + n(k) + (cut_.parts > 0 ? "[u][i]" : "[i]");
      line("      const T v" + n(k) + " = to<T>(" + from + ");");
    }
    for (const RowScalars::Step& s : scalars_.steps)
      if (s.full && values[static_cast<size_t>(s.out)])
        line("      const T v" + n(s.out) + " = " + value(s) + ";");
    each_element();
    line("    }");
    after();
    line("    }");
    line("  }");
  }

  static std::string fold(const RowScalars::Step& s) {
    const backend::ReduceFn fn = s.reduction.fn;
    return fn == backend::ReduceFn::max   ? "Fold::max"
           : fn == backend::ReduceFn::min ? "Fold::min"
                                          : "Fold::sum";
  }
  // All reductions that depend on `level` others.
  void reduce(int level) {
    std::vector<const RowScalars::Step*> all;
    std::vector<int> wanted;
    for (const RowScalars::Step& s : scalars_.steps) {
      if (!s.reduces || s.level != level) continue;
      all.push_back(&s), wanted.push_back(s.in[0]);
      line("  T a" + n(s.out) + " = neutral<" + fold(s) + ">();");
    }
    pass(
        wanted, [] {},
        [&] {
          for (const RowScalars::Step* s : all)
            line("      if (inside(j + i, n)) a" + n(s->out) + " = join<" + fold(*s) + ">(a" + n(s->out) +
                 ", v" + n(s->in[0]) + ");");
        },
        [] {});
    for (const RowScalars::Step* s : all) {
      // Two buffers take turns, so that no thread writes one that another still reads.
      std::string x = "over_lanes<" + fold(*s) + ">(a" + n(s->out) + ", partial[" + n(reduced_++ % 2) + "])";
      if (s->reduction.mean) x += " / T(n)";
      line("  const T v" + n(s->out) + " = " + x + ";");
    }
  }

  void results() {
    std::vector<int> wanted;
    for (size_t k = 0; k < scalars_.outputs.size(); ++k) {
      const int v = scalars_.outputs[k];
      if (by_element(v)) {
        wanted.push_back(v);
      } else {
        line("  if (valid && lane == 0) static_cast<" + type(v) + "*>(g.out[" + n(k) + "])[row] = to<" +
             type(v) + ">(v" + n(v) + ");");
      }
    }
    if (wanted.empty()) return;
    const auto for_each = [&](auto&& f) {
      for (size_t k = 0; k < scalars_.outputs.size(); ++k)
        if (by_element(scalars_.outputs[k])) f(k, scalars_.outputs[k]);
    };
    pass(
        wanted, [&] { for_each([&](size_t k, int) { line("    T y" + n(k) + "[E];"); }); },
        [&] { for_each([&](size_t k, int v) { line("      y" + n(k) + "[i] = v" + n(v) + ";"); }); },
        [&] {
          for_each([&](size_t k, int v) {
            line("    if (valid) store_elements(static_cast<" + type(v) + "*>(g.out[" + n(k) +
                 "]) + row * n, y" + n(k) + ", j, n);");
          });
        });
  }

  const RowProgram& program_;
  const RowScalars scalars_;
  const RowCut cut_;
  int reduced_ = 0;
  std::string out_;
};

inline std::string emit_cuda_rows(const RowProgram& program, RowCut cut) {
  return "namespace tinytorch::inline TT_BUILD::backend::cuda {\n" + CudaRowEmitter(program, cut).text() +
         "}\n";
}

}  // namespace tinytorch::inline TT_BUILD::acceleration
