// The worker of an entry of tier T0, which is data alone. This library reads the entry and answers for it, in
// a sandboxed process that has neither the clock nor the right answers, so that a malicious file cannot
// affect the judge.
#pragma once

#include <filesystem>
#include <tinymlperf/benchmarks/restoration.hpp>
#include <tinymlperf/entries/load.hpp>
#include <tinymlperf/entries/plugin.hpp>
#include <tinymlperf/entries/text_model.hpp>
#include <tinytorch/autograd/grad_mode.hpp>
#include <tinytorch/core/allocator.hpp>

namespace tinymlperf::judge {

inline tt::Tensor tensor_of(const channel::Tensor& t) {
  if (t.dtype != channel::DType::f32) throw std::invalid_argument("an entry takes f32");
  const auto values = t.values<float>();
  return tt::from_data(std::vector<float>(values.begin(), values.end()), to_shape(t.shape));
}

inline channel::Tensor channel_tensor_of(const tt::Tensor& t) {
  std::vector<int64_t> shape;
  for (int d = 0; d < t.rank(); ++d) shape.push_back(t.size(d));
  return channel::make_tensor(std::move(shape), std::span<const float>(t.to_vector<float>()));
}

// The answer: the outputs of the network, or for sounds the error of its restorations.
inline tt::Tensor answer_of(const Network& network, const tt::Tensor& x) {
  if (!task_of(network.spec().benchmark).restored) return network.forward(x);
  const auto restore = [&](const tt::Tensor& windows) { return network.forward(windows); };
  const tt::Tensor windows = x.reshape({x.size(0) * x.size(1), x.size(2)});
  return restoration_errors(restore, windows).to(tt::DType::f32).reshape({x.size(0), 1});
}

// Windows of bytes are scored; a prompt with a number of tokens is continued by as many tokens.
inline Tensors answer_of(const TextModel& model, const Query& query) {
  const channel::Tensor& bytes = query.inputs.at(0);
  if (query.inputs.size() == 1) {
    const auto values = bytes.values<uint8_t>();
    const std::vector<int64_t> tokens(values.begin(), values.end());
    return {channel_tensor_of(model.score(tt::from_data(tokens, to_shape(bytes.shape))))};
  }
  const std::vector<uint8_t> out = model.continue_prompt(
      bytes.values<uint8_t>(), query.inputs[1].values<int64_t>()[0],
      [&](uint8_t next) { query.token(make_tensor<uint8_t>(DType::u8, {1}, std::span(&next, 1))); });
  return {make_tensor<uint8_t>(DType::u8, {static_cast<int64_t>(out.size())}, out)};
}

// The function that answers for the entry in a folder.
inline Respond answers_of_entry(const std::filesystem::path& folder, std::string_view benchmark) {
  if (task_of(benchmark).text)
    return [model = load_text_model(folder)](const Query& query) { return answer_of(model, query); };
  const auto entry = std::make_shared<Entry>(load_entry(folder, task_of(benchmark)));
  return [entry](const Query& query) -> Tensors {
    const tt::NoGrad guard;
    return {channel_tensor_of(answer_of(entry->network, tensor_of(query.inputs.at(0))))};
  };
}

// Adds to each answer the peak number of allocated bytes while it was computed: i64 [1].
inline Respond with_peak_bytes(Respond respond) {
  return [respond = std::move(respond)](const Query& query) {
    tt::reset_peak();
    Tensors out = respond(query);
    const auto peak = static_cast<int64_t>(tt::allocator_stats().peak);
    out.push_back(make_tensor<int64_t>(DType::i64, {1}, std::span(&peak, 1)));
    return out;
  };
}

}  // namespace tinymlperf::judge
