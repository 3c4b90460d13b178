// The answer to a query, split into the answers to its samples.
#pragma once

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>
#include <tinymlperf/benchmarks/benchmark.hpp>
#include <tinymlperf/channel/tensor.hpp>
#include <vector>

namespace tinymlperf::judge {

// Row i of a query's answer belongs to its sample i. Throws std::runtime_error for another form, and for a
// value that is not finite.
inline std::vector<Answer> rows_of(const Benchmark& benchmark, const channel::Tensors& tensors,
                                   size_t samples) {
  const auto each = static_cast<size_t>(benchmark.answer_size());
  if (tensors.size() != 1 || tensors[0].dtype != channel::DType::f32 ||
      tensors[0].values<float>().size() != samples * each)
    throw std::runtime_error("an answer must be one f32 tensor of " + std::to_string(samples) + " x " +
                             std::to_string(each) + " values");
  std::vector<Answer> rows;
  const auto values = tensors[0].values<float>();
  // Minus infinity is the score of what is impossible.
  if (!std::ranges::all_of(values, [](float x) { return x <= std::numeric_limits<float>::max(); }))
    throw std::runtime_error("an answer holds a value that is not finite");
  for (size_t i = 0; i < samples; ++i)
    rows.emplace_back(values.begin() + static_cast<std::ptrdiff_t>(i * each),
                      values.begin() + static_cast<std::ptrdiff_t>((i + 1) * each));
  return rows;
}

}  // namespace tinymlperf::judge
