// An entry as plain data: the content of its model.json, and the tensors and costs that follow from it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tinymlperf/benchmarks/task.hpp>
#include <tinymlperf/support/json_fields.hpp>
#include <vector>

namespace tinymlperf {

// Limits on the cost of an entry, so that no entry can block the race for the others.
namespace limits {
constexpr int64_t kJsonBytes = int64_t{1} << 20;
constexpr int64_t kWeightBytes = int64_t{1} << 28;
constexpr int64_t kLayers = 256;
constexpr int64_t kDimension = 65536;               // channels, features, image sides
constexpr int64_t kWindow = 1024;                   // sides, strides and padding of a sliding window
constexpr int64_t kParameters = int64_t{1} << 26;   // of the whole model
constexpr int64_t kActivations = int64_t{1} << 20;  // elements of one layer's output for one sample
constexpr int64_t kPatches = int64_t{1} << 22;  // elements of a convolution's im2col matrix for one sample
constexpr int64_t kMultiplyAdds = 500'000'000;  // of the whole model for one sample
constexpr int64_t kContext = 4096, kFeatures = 4096, kBlocks = 64;  // of a language model
constexpr size_t kNameLength = 32;
constexpr size_t kTextLength = 500;
}  // namespace limits

struct LayerSpec {
  std::string type;
  int64_t in = 0, out = 0;                    // linear, conv2d, batch norms (in = channels)
  Sides kernel = 0, stride = 1, padding = 0;  // conv2d and pooling
  Sides output = 0;                           // adaptive_avg_pool2d
  int64_t groups = 1;                         // conv2d
  bool bias = true;
  double p = 0;  // dropout; no effect when scoring
};

struct TensorSpec {
  std::string name;
  Shape shape;
};

struct GptSpec {
  int64_t context = 0, features = 0, layers = 0, heads = 0;
};

// The training of an entry of a training benchmark (ttq). Such an entry has no weights.
struct TrainingSpec {
  std::string optimizer = "adamw";     // or sgd, with a momentum of 0.9
  std::string schedule = "one_cycle";  // or cosine, constant
  double learning_rate = 1e-3;         // the peak of the schedule
  double weight_decay = 0.01;
  int64_t batch = 64, epochs = 1;
};

struct EntrySpec {
  std::string benchmark = kDigitsBenchmark;
  std::string name, author, description;
  Shape input;  // of one sample
  int64_t outputs = 0;
  std::vector<LayerSpec> layers;
  std::optional<GptSpec> gpt;       // if present, there are no layers
  std::vector<TensorSpec> tensors;  // the tensors that weights.safetensors must hold, and no others
  std::optional<TrainingSpec> training;
  bool compile = false;       // its forward pass is run by tt::compile (judge/workers/entry_worker.hpp)
  int64_t parameters = 0;     // the number of trained elements, without running statistics
  int64_t multiply_adds = 0;  // for one sample, of matrix products and convolutions only
};

}  // namespace tinymlperf
