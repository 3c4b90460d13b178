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
// Inputs and output are row-major. The function fills `out`. `tinymlperf kernels` lists the ops and their
// inputs. Ops that a submission lacks are not compared.
#pragma once

#include <cmath>
#include <limits>
#include <tinymlperf/entries/plugin.hpp>
#include <utility>

namespace tinymlperf {

using Inputs = std::span<const Tensor>;

struct Kernel {
  std::string name;
  std::function<void(Inputs in, std::span<float> out)> run;
};

inline Kernel kernel(std::string name, std::function<void(Inputs in, std::span<float> out)> run) {
  return {std::move(name), std::move(run)};
}

// An output filled with NaN, so that elements which a kernel does not write are wrong.
inline Tensor empty_output(std::span<const int64_t> shape) {
  const int64_t n = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  Tensor out{DType::f32, {shape.begin(), shape.end()}, channel::Bytes(static_cast<size_t>(n) * 4)};
  std::ranges::fill(out.mutable_values<float>(), std::numeric_limits<float>::quiet_NaN());
  return out;
}

// A query consists of a name (u8), the shape of the output (i64), and the inputs. The answer is one f32
// tensor, or none if there is no kernel of this name. The answer to a query with an empty name is an output
// without work, which measures the cost of the channel itself.
inline Tensors answer_kernel_query(const std::vector<Kernel>& kernels, const Tensors& query) {
  const auto letters = query.at(0).values<char>();
  const std::string_view name(letters.data(), letters.size());
  const auto found = std::ranges::find(kernels, name, &Kernel::name);
  if (found == kernels.end() && !name.empty()) return {};
  Tensors answer{empty_output(query.at(1).values<int64_t>())};
  if (found != kernels.end()) found->run(Inputs(query).subspan(2), answer[0].mutable_values<float>());
  return answer;
}

inline int serve_kernels(const std::vector<Kernel>& kernels) {
  return serve([&](const Query& query) { return answer_kernel_query(kernels, query.inputs); });
}

}  // namespace tinymlperf
