// Kernels for the CPU: a submission to `krn` includes this header and has a function for each of its ops.
//
//   #include <tinymlperf/entries/kernels.hpp>
//   using namespace tinymlperf;
//   int main() {
//     return serve_kernels({kernel("gelu", [](Inputs in, std::span<float> out) {
//       const auto x = in[0].values<float>();
//       for (size_t i = 0; i < x.size(); ++i) out[i] = x[i] * 0.5f * (1 + std::erf(x[i] * 0.70710678f));
//     })});
//   }
// Inputs and output are row-major. The function fills `out`. A function for an op whose result is not f32
// takes a Tensor& instead of the span, for example kernel("gemm_int8", [](Inputs in, Tensor& out) {...}).
// `tinymlperf kernels` lists the ops and their inputs. Ops that a submission lacks are not compared.
#pragma once

#include <cmath>
#include <functional>
#include <limits>
#include <tinymlperf/entries/plugin.hpp>
#include <type_traits>
#include <utility>

namespace tinymlperf {

using Inputs = std::span<const Tensor>;

// A function of one of the two forms.
class KernelFunction {
 public:
  template <class F>
  KernelFunction(F f) {  // not explicit: kernels are listed as {name, function}
    if constexpr (std::is_invocable_v<F&, Inputs, Tensor&>) {
      run_ = std::move(f);
    } else {
      run_ = [f = std::move(f)](Inputs in, Tensor& out) mutable { f(in, out.mutable_values<float>()); };
    }
  }
  void operator()(Inputs in, Tensor& out) const { run_(in, out); }

 private:
  std::function<void(Inputs in, Tensor& out)> run_;
};

struct Kernel {
  std::string name;
  KernelFunction run;
};

inline Kernel kernel(std::string name, KernelFunction run) { return {std::move(name), std::move(run)}; }

// An output filled with NaN, or with bytes 0xa5 for integers, so that elements which a kernel does not write
// are wrong.
inline Tensor empty_output(std::span<const int64_t> shape, DType dtype = DType::f32) {
  const int64_t n = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  const bool floating =
      dtype == DType::f32 || dtype == DType::f64 || dtype == DType::f16 || dtype == DType::bf16;
  return {dtype,
          {shape.begin(), shape.end()},
          channel::Bytes(static_cast<size_t>(n) * channel::bytes_of_one(dtype),
                         floating ? std::byte{0xff} : std::byte{0xa5})};
}

// The type of the output that a query asks for (u8 [1]).
inline DType output_dtype(const Tensor& asked) {
  const uint8_t number = asked.values<uint8_t>()[0];
  if (number > static_cast<uint8_t>(DType::i64))
    throw std::runtime_error("a query asks for an output of type " + std::to_string(number));
  return static_cast<DType>(number);
}

// A query consists of a name (u8), the shape of the output (i64), its type (u8), and the inputs. The answer
// is one tensor, or none if there is no kernel of this name. The answer to a query with an empty name is an
// output without work, which measures the cost of the channel itself.
inline Tensors answer_kernel_query(const std::vector<Kernel>& kernels, const Tensors& query) {
  const auto letters = query.at(0).values<char>();
  const std::string_view name(letters.data(), letters.size());
  const auto found = std::ranges::find(kernels, name, &Kernel::name);
  if (found == kernels.end() && !name.empty()) return {};
  Tensors answer{empty_output(query.at(1).values<int64_t>(), output_dtype(query.at(2)))};
  if (found != kernels.end()) found->run(Inputs(query).subspan(3), answer[0]);
  return answer;
}

inline int serve_kernels(const std::vector<Kernel>& kernels) {
  return serve([&](const Query& query) { return answer_kernel_query(kernels, query.inputs); });
}

}  // namespace tinymlperf
