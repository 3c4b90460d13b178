// An entry that is to be trained, as a plugin: model.json says the layers and how to train them, and this library does, in a
// process of its own. After each epoch it tells its answers to the validation inputs.
//
// The query: training inputs f32 [N, ...], their classes i64 [N], validation inputs f32 [M, ...], a seed i64 [1].
#pragma once

#include <tinymlperf/judge/entry_worker.hpp>
#include <tinymlperf/training/train.hpp>

namespace tinymlperf::judge {

// What the judge prepares a trainer with: "ttq dig".
inline constexpr std::string_view kTrainingPrefix = "ttq ";

inline Recipe recipe_of(const std::filesystem::path& folder, std::string_view benchmark) {
  const EntrySpec spec = parse_entry(
      tinymlperf::detail::read_limited(folder / kModelFile, limits::kJsonBytes), task_of(benchmark));
  if (!spec.training)
    throw Refusal(tinymlperf::detail::kFile, "training", "how it is to be trained", "no such key");
  const TrainingSpec& t = *spec.training;
  return {spec, t.epochs, t.learning_rate, t.batch, t.optimizer, t.schedule};
}

inline Tensors train_for(const Recipe& recipe, const Query& query) {
  const tt::Tensor validation = tensor_of(query.inputs.at(2));
  const auto classes = query.inputs.at(1).values<int64_t>();
  TrainingData data = tinymlperf::detail::classes_to_learn(
      tensor_of(query.inputs.at(0)), tt::from_data(std::vector<int64_t>(classes.begin(), classes.end())),
      validation, {});
  data.validate = [&](tt::Module& net) {
    const tt::NoGrad no_grad;
    net.eval();
    tt::Tensors parts;
    for (int64_t start = 0; start < validation.size(0); start += 256)
      parts.push_back(net(validation.slice(0, start, std::min(start + 256, validation.size(0)))));
    query.token(channel_tensor_of(tt::cat(parts, 0)));
    return 0.0;  // the judge knows
  };
  const auto seed = static_cast<uint64_t>(query.inputs.at(3).values<int64_t>()[0]);
  train(recipe, data,
        {.batch = recipe.batch, .weight_decay = recipe.spec.training->weight_decay, .seed = seed},
        [](const TrainingCurve&) {});
  return {};
}

// What `tinymlperf worker FOLDER` does: answers for an entry, or trains it when the judge says so. `memory`: each answer
// says what it took.
inline int serve_worker(const std::filesystem::path& folder, bool memory = false) {
  tinymlperf::Answer answer;
  return serve([&](const Query& query) { return answer(query); },
               [&](std::string_view text) {
                 if (!text.starts_with(kTrainingPrefix)) {
                   answer = answers_of_entry(folder, text);
                   if (memory) answer = with_peak_bytes(std::move(answer));
                   return;
                 }
                 answer = [recipe = recipe_of(folder, text.substr(kTrainingPrefix.size()))](
                              const Query& query) { return train_for(recipe, query); };
               });
}

}  // namespace tinymlperf::judge
