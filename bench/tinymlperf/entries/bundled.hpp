// The models that every benchmark starts with: for digits four, from too small to far too large; else the
// reference of its field and one that is too small.
//
// Each is written as its model.json would be, so that the bundled entries pass the same reader as anyone
// else's.
#pragma once

#include <cstdint>
#include <string>
#include <tinymlperf/entries/entry.hpp>
#include <vector>

namespace tinymlperf {

struct Recipe {
  EntrySpec spec;
  int64_t epochs = 0;
  double learning_rate = 0;  // the highest one of the schedule
  int64_t batch = 64;
  std::string optimizer = "adamw", schedule = "one_cycle";  // as in TrainingSpec
};

// What it is before anybody has trained it, which is what an entry of ttq says.
inline EntrySpec untrained(const Recipe& r) {
  EntrySpec spec = r.spec;
  spec.training = TrainingSpec{.optimizer = r.optimizer,
                               .schedule = r.schedule,
                               .learning_rate = r.learning_rate,
                               .batch = r.batch,
                               .epochs = r.epochs};
  return spec;
}

namespace detail {

inline Recipe recipe(const char* benchmark, const char* name, const char* description, int64_t epochs,
                     double learning_rate, const Json& layers) {
  const Task& task = task_of(benchmark);
  const Json document{{"schema", 1},
                      {"benchmark", benchmark},
                      {"name", name},
                      {"author", "tinytorch"},
                      {"description", description},
                      {"input", task.input},
                      {task.outputs_key, task.outputs},
                      {"layers", layers}};
  return {parse_entry(document.dump(), task), epochs, learning_rate};
}
inline Recipe recipe(const char* name, const char* description, int64_t epochs, double learning_rate,
                     const char* layers) {
  return recipe("dig", name, description, epochs, learning_rate, Json::parse(layers));
}

inline std::vector<Recipe> digit_recipes() {
  return {
      recipe("linear", "One matrix: ten templates, one per digit.", 6, 5e-3,
             R"([{"type": "flatten"}, {"type": "linear", "in": 784, "out": 10}])"),
      recipe("mlp", "Two layers without any idea of neighbourhood.", 6, 2e-3,
             R"([{"type": "flatten"}, {"type": "linear", "in": 784, "out": 128}, {"type": "relu"},
                 {"type": "linear", "in": 128, "out": 10}])"),
      recipe("lenet", "Convolutions, pooling, three linear layers (LeCun et al. 1998). The baseline.", 5,
             3e-3,
             R"([{"type": "conv2d", "in": 1, "out": 6, "kernel": 5, "padding": 2}, {"type": "relu"},
                 {"type": "max_pool2d", "kernel": 2},
                 {"type": "conv2d", "in": 6, "out": 16, "kernel": 5}, {"type": "relu"},
                 {"type": "max_pool2d", "kernel": 2}, {"type": "flatten"},
                 {"type": "linear", "in": 400, "out": 120}, {"type": "relu"},
                 {"type": "linear", "in": 120, "out": 84}, {"type": "relu"},
                 {"type": "linear", "in": 84, "out": 10}])"),
      recipe("wasteful", "Wide convolutions at full resolution: many times the work of lenet.", 2, 2e-3,
             R"([{"type": "conv2d", "in": 1, "out": 16, "kernel": 5, "padding": 2}, {"type": "relu"},
                 {"type": "conv2d", "in": 16, "out": 16, "kernel": 5, "padding": 2}, {"type": "relu"},
                 {"type": "max_pool2d", "kernel": 2},
                 {"type": "conv2d", "in": 16, "out": 32, "kernel": 5, "padding": 2}, {"type": "relu"},
                 {"type": "max_pool2d", "kernel": 2}, {"type": "flatten"},
                 {"type": "linear", "in": 1568, "out": 256}, {"type": "relu"},
                 {"type": "linear", "in": 256, "out": 10}])"),
  };
}

inline void append(Json& layers, const Json& more) { layers.insert(layers.end(), more.begin(), more.end()); }

// A filter for each channel, then a matrix over the channels (Zhang et al., "Hello Edge", 2017).
inline Json separable(int64_t channels) {
  const Json normalize{{"type", "batch_norm2d"}, {"in", channels}}, relu{{"type", "relu"}};
  return {{{"type", "conv2d"},
           {"in", channels},
           {"out", channels},
           {"kernel", 3},
           {"padding", 1},
           {"groups", channels},
           {"bias", false}},
          normalize,
          relu,
          {{"type", "conv2d"}, {"in", channels}, {"out", channels}, {"kernel", 1}, {"bias", false}},
          normalize,
          relu};
}

// [1, 49, 10] -> 12. Frames are averaged in six groups only: the order of syllables tells words apart.
inline Json ds_cnn(int64_t channels, int64_t blocks) {
  Json layers{{{"type", "conv2d"},
               {"in", 1},
               {"out", channels},
               {"kernel", 5},
               {"stride", 2},
               {"padding", 2},
               {"bias", false}},
              {{"type", "batch_norm2d"}, {"in", channels}},
              {{"type", "relu"}}};
  append(layers, separable(channels));
  layers.push_back({{"type", "max_pool2d"}, {"kernel", 2}});  // [channels, 12, 2]
  for (int64_t block = 1; block < blocks; ++block) append(layers, separable(channels));
  append(layers, {{{"type", "adaptive_avg_pool2d"}, {"output", {6, 1}}},
                  {{"type", "flatten"}},
                  {{"type", "linear"}, {"in", 6 * channels}, {"out", 12}}});
  return layers;
}

inline std::vector<Recipe> keyword_recipes() {
  return {
      recipe("kws", "ds-cnn", "Depthwise-separable convolutions, 32 channels. The baseline.", 6, 8e-3,
             ds_cnn(32, 3)),
      recipe("kws", "ds-cnn-narrow", "The same with 8 channels and one block less: too small.", 6, 8e-3,
             ds_cnn(8, 2)),
  };
}

// [640] -> [code] -> [640]
inline Json autoencoder(int64_t hidden, int64_t code) {
  Json layers = Json::array();
  int64_t width = 640;
  for (const int64_t next : {hidden, hidden, code, hidden, hidden}) {
    append(layers, {{{"type", "linear"}, {"in", width}, {"out", next}},
                    {{"type", "batch_norm1d"}, {"in", next}},
                    {{"type", "relu"}}});
    width = next;
  }
  layers.push_back({{"type", "linear"}, {"in", width}, {"out", 640}});
  return layers;
}

inline std::vector<Recipe> anomaly_recipes() {
  return {
      recipe("ad", "autoencoder", "Squeezes a window of sound through 8 numbers. The baseline.", 20, 3e-3,
             autoencoder(128, 8)),
      recipe("ad", "autoencoder-narrow", "The same through 2 numbers, of 16 in a layer: too small.", 20, 3e-3,
             autoencoder(16, 2)),
  };
}

inline Recipe gpt_recipe(const char* name, const char* description, const GptSpec& gpt) {
  Json document{{"schema", 1},
                {"benchmark", "lm"},
                {"name", name},
                {"author", "tinytorch"},
                {"description", description}};
  document.update(to_json(gpt));
  return {parse_entry(document.dump(), task_of("lm")), 4, 5e-3, 16};
}

inline std::vector<Recipe> language_recipes() {
  return {
      gpt_recipe("gpt", "Two blocks of 64 features. The baseline.",
                 {.context = kContextBytes, .features = 64, .layers = 2, .heads = 4}),
      gpt_recipe("gpt-narrow", "One block of 16 features: too small.",
                 {.context = kContextBytes, .features = 16, .layers = 1, .heads = 2}),
  };
}

}  // namespace detail

inline std::vector<Recipe> bundled_recipes(std::string_view benchmark = "dig") {
  if (benchmark == "dig") return detail::digit_recipes();
  if (benchmark == "kws") return detail::keyword_recipes();
  if (benchmark == "ad") return detail::anomaly_recipes();
  if (benchmark == "lm") return detail::language_recipes();
  task_of(benchmark);  // throws where there is none at all
  throw std::invalid_argument("no model is bundled for the benchmark " + std::string(benchmark));
}

}  // namespace tinymlperf
