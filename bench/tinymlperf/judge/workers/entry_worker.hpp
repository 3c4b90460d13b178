// The worker of an entry of tier T0, which is data alone. This library reads the entry and answers for it, in
// a sandboxed process that has neither the clock nor the right answers, so that a malicious file cannot
// affect the judge.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <tinymlperf/benchmarks/restoration.hpp>
#include <tinymlperf/entries/load.hpp>
#include <tinymlperf/entries/plugin.hpp>
#include <tinymlperf/entries/text_model.hpp>
#include <tinytorch/acceleration/compiled.hpp>
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

using Forward = std::function<tt::Tensor(const tt::Tensor&)>;

// `plain`, or the same function compiled if model.json says "compile": true. Fused steps are interpreted: the
// system's compiler would work beside the timed turns of each fresh process, and its kernels would change the
// times in the middle of a match. What cannot be captured is an error, since an entry that asked for a
// compiled pass must not be timed without one.
inline Forward forward_of(const EntrySpec& spec, Forward plain) {
  if (!spec.compile) return plain;
  const tt::CompileOptions options{.kernels = tt::RegionKernels::interpreted, .strict = true};
  const auto compiled = std::make_shared<tt::Compiled<Forward>>(tt::compile(std::move(plain), options));
  return [compiled](const tt::Tensor& x) { return (*compiled)(x); };
}

// The answer: the outputs of the network, or for sounds the error of its restorations.
inline tt::Tensor answer_of(const EntrySpec& spec, const Forward& forward, const tt::Tensor& x) {
  if (!task_of(spec.benchmark).restored) return forward(x);
  const tt::Tensor windows = x.reshape({x.size(0) * x.size(1), x.size(2)});
  return restoration_errors(forward, windows).to(tt::DType::f32).reshape({x.size(0), 1});
}

// Windows of bytes are scored; a prompt with a number of tokens is continued by as many tokens, and what is
// computed for it is kept if it has a salt.
inline Tensors answer_of(const TextModel& model, const Forward& next, const Query& query) {
  const channel::Tensor& bytes = query.inputs.at(0);
  if (query.inputs.size() == 1) {
    const auto values = bytes.values<uint8_t>();
    const std::vector<int64_t> tokens(values.begin(), values.end());
    return {channel_tensor_of(model.score(tt::from_data(tokens, to_shape(bytes.shape)), next))};
  }
  if (model.spec().compile)
    throw std::invalid_argument(
        "model.json: compile: a text is continued token by token, which is not compiled\n  hint: take the "
        "option out for the scenarios generation and shared_prefix");
  std::string salt;
  if (query.inputs.size() > 2) {
    const auto given = query.inputs[2].values<uint8_t>();
    salt.assign(given.begin(), given.end());
  }
  const std::vector<uint8_t> out = model.continue_prompt(
      bytes.values<uint8_t>(), query.inputs[1].values<int64_t>()[0],
      [&](uint8_t byte) { query.token(make_tensor<uint8_t>(DType::u8, {1}, std::span(&byte, 1))); }, salt);
  return {make_tensor<uint8_t>(DType::u8, {static_cast<int64_t>(out.size())}, out)};
}

// The function that answers for the entry in a folder, one query at a time.
inline Respond answers_of_entry(const std::filesystem::path& folder, std::string_view benchmark) {
  if (task_of(benchmark).text) {
    const auto model = std::make_shared<TextModel>(load_text_model(folder));
    const Forward next = forward_of(model->spec(), [model](const tt::Tensor& x) { return model->next(x); });
    return [model, next](const Query& query) { return answer_of(*model, next, query); };
  }
  const auto network = std::make_shared<Network>(load_entry(folder, task_of(benchmark)).network);
  const Forward forward =
      forward_of(network->spec(), [network](const tt::Tensor& x) { return network->forward(x); });
  return [network, forward](const Query& query) -> Tensors {
    const tt::NoGrad guard;
    return {channel_tensor_of(answer_of(network->spec(), forward, tensor_of(query.inputs.at(0))))};
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
