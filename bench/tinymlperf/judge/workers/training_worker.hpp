// The worker of an entry that is to be trained. model.json says the layers and the recipe; this library
// trains it in a sandboxed process and sends its answers to the validation inputs after each epoch.
//
// The query has four tensors, by the benchmark:
//   dig   training inputs f32 [N, 1, 28, 28], their classes i64 [N], validation inputs f32 [M, 1, 28, 28],
//         a seed i64 [1]
//   lm    training bytes u8 [N, 64], the bytes after each u8 [N, 64], validation windows u8 [M, 64],
//         a seed i64 [1]
// A token is the answers to all validation inputs, f32 [M, the task's outputs].
#pragma once

#include <tinymlperf/judge/workers/entry_worker.hpp>
#include <tinymlperf/training/train.hpp>

namespace tinymlperf::judge {

inline Recipe recipe_of(const std::filesystem::path& folder, std::string_view benchmark) {
  const EntrySpec spec = parse_entry(
      tinymlperf::detail::read_limited(folder / kModelFile, limits::kJsonBytes), task_of(benchmark));
  const TrainingSpec& t = require_training(spec);
  return {spec, t.epochs, t.learning_rate, t.batch, t.optimizer, t.schedule};
}

namespace detail {

inline tt::Tensor tokens_of(const channel::Tensor& t) {
  const auto values = t.values<uint8_t>();
  return tt::from_data(std::vector<int64_t>(values.begin(), values.end()), to_shape(t.shape));
}

inline TrainingData text_of(const Query& query) {
  const tt::Tensor validation = tokens_of(query.inputs.at(2));
  return {tokens_of(query.inputs.at(0)), tokens_of(query.inputs.at(1)), tinymlperf::detail::text_loss, "",
          [validation, token = query.token](tt::Module& net) {
            net.eval();
            token(channel_tensor_of(score_windows(dynamic_cast<tt::LanguageModel&>(net), validation)));
            return 0.0;  // the judge grades
          }};
}

inline TrainingData classes_of(const Query& query) {
  const tt::Tensor validation = tensor_of(query.inputs.at(2));
  const auto classes = query.inputs.at(1).values<int64_t>();
  TrainingData data = tinymlperf::detail::classes_to_learn(
      tensor_of(query.inputs.at(0)), tt::from_data(std::vector<int64_t>(classes.begin(), classes.end())),
      validation, {});
  data.validate = [validation, token = query.token](tt::Module& net) {
    const tt::NoGrad no_grad;
    net.eval();
    tt::Tensors parts;
    for (int64_t start = 0; start < validation.size(0); start += 256)
      parts.push_back(net(validation.slice(0, start, std::min(start + 256, validation.size(0)))));
    token(channel_tensor_of(tt::cat(parts, 0)));
    return 0.0;  // the judge grades
  };
  return data;
}

}  // namespace detail

inline Tensors train_for(const Recipe& recipe, const Query& query) {
  const TrainingData data = recipe.spec.gpt ? detail::text_of(query) : detail::classes_of(query);
  const auto seed = static_cast<uint64_t>(query.inputs.at(3).values<int64_t>()[0]);
  train(recipe, data,
        {.batch = recipe.batch, .weight_decay = recipe.spec.training->weight_decay, .seed = seed},
        [](const TrainingCurve&) {});
  return {};
}

// `tinymlperf worker FOLDER`: answers for an entry, or trains it if the judge asks for that. With `memory`
// each answer is followed by its peak of allocated bytes.
inline int serve_worker(const std::filesystem::path& folder, bool memory = false) {
  Respond respond;
  return serve([&](const Query& query) { return respond(query); },
               [&](std::string_view benchmark) {
                 if (!is_training(benchmark)) {
                   respond = answers_of_entry(folder, benchmark);
                   if (memory) respond = with_peak_bytes(std::move(respond));
                   return;
                 }
                 respond = [recipe = recipe_of(folder, subject_of(benchmark))](const Query& query) {
                   return train_for(recipe, query);
                 };
               });
}

}  // namespace tinymlperf::judge
