// A submission of kernels is this header and one function for each op that it wants to be good at:
//
//   #include <tinymlperf/entries/kernels.hpp>
//   using namespace tinymlperf;
//
//   int main() {
//     return serve_kernels({
//         kernel("gelu", [](Inputs in, std::span<float> out) {
//           const auto x = in[0].values<float>();
//           for (size_t i = 0; i < x.size(); ++i) out[i] = x[i] * 0.5f * (1 + std::erf(x[i] * 0.70710678f));
//         }),
//     });
//   }
//
// Inputs have a shape and values in row-major order; `out` is to be filled, in row-major order as well. Which
// ops there are, and what each takes, is said by `tinymlperf kernels`. An op that is not here is not
// compared.
//
// A query is a name (u8), the shape of the output (i64), and the inputs. The answer is one f32 tensor, or
// none where there is no such kernel. A query without a name asks for nothing but an output: what the channel
// itself costs.
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

// What is not written stays NaN.
inline Tensor empty_output(std::span<const int64_t> shape) {
  const int64_t n = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  Tensor out{DType::f32, {shape.begin(), shape.end()}, channel::Bytes(static_cast<size_t>(n) * 4)};
  std::ranges::fill(out.mutable_values<float>(), std::numeric_limits<float>::quiet_NaN());
  return out;
}

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
