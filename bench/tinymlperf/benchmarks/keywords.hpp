// kws: keyword spotting: ten words, another word, or none in a second of sound. The samples are the log-mel
// features of generated speech (data/spoken_tones.hpp) and not its waveform, so that models are compared and
// not Fourier transforms.
#pragma once

#include <tinymlperf/benchmarks/classification.hpp>
#include <tinytorch/data/spoken_tones.hpp>

namespace tinymlperf {

const Descriptor& keywords_descriptor();

namespace judge {

class KeywordsBenchmark final : public Classification {
 public:
  KeywordsBenchmark() : Classification(keywords_descriptor()) {}
  std::pair<tinytorch::Tensor, tinytorch::Tensor> generate(int64_t n, uint64_t seed) const override {
    const tinytorch::SpokenTones spoken = tinytorch::spoken_tones(n, seed);
    return {spoken.features, spoken.labels};
  }
};

}  // namespace judge

namespace detail {

inline TrainingData keywords_to_learn(const TrainingSize& size) {
  const tt::SpokenTones train = tt::spoken_tones(size.training, kTrainingSeed),
                        validation = tt::spoken_tones(size.validation, kValidationSeed);
  return classes_to_learn(train.features, train.labels, validation.features, validation.labels);
}

// Depthwise-separable convolution: a filter for each channel, then a matrix over the channels (Zhang et al.,
// "Hello Edge", 2017).
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

inline std::vector<BundledModel> keyword_models() {
  return {
      {"ds-cnn", "Depthwise-separable convolutions, 32 channels. The baseline.", 6, 8e-3,
       Json{{"layers", ds_cnn(32, 3)}}},
      {"ds-cnn-narrow", "Depthwise-separable convolutions, 8 channels, one block fewer: too small.", 6, 8e-3,
       Json{{"layers", ds_cnn(8, 2)}}},
  };
}

}  // namespace detail

inline const Descriptor& keywords_descriptor() {
  static const Descriptor about{.shape = {"kws", {1, 49, 10}, 12, "classes"},
                                .question = "which of ten words is said, another one, or none",
                                .metric = "accuracy",
                                .floor = 0.90,
                                .size = {4000, 1000},
                                .data = detail::keywords_to_learn,
                                .recipes = detail::keyword_models,
                                .judged = judge::make_new<judge::KeywordsBenchmark>};
  return about;
}

}  // namespace tinymlperf
