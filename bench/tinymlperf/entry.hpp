// An entry's model.json: a list of layers, read into plain structs with every shape worked out beforehand.
//
//   {"schema": 1, "name": "mlp", "input": [1, 28, 28], "classes": 10,
//    "layers": [{"type": "flatten"}, {"type": "linear", "in": 784, "out": 128}, {"type": "relu"}, ...]}
//
// Parameters are named as in torch.nn.Sequential ("1.weight", "1.bias"), so weights saved by PyTorch fit. An
// entry is a stranger's file: anything unknown, inconsistent or beyond a limit is a Refusal that names file,
// place, expected and found. Nothing is allocated in proportion to a number before that number was checked.
#pragma once

#include <cstdint>
#include <string>
#include <tinymlperf/json_fields.hpp>
#include <utility>
#include <vector>

namespace tinymlperf {

// What one entry may cost, so that no entry can stop the race for the others.
namespace limits {
constexpr int64_t kJsonBytes = int64_t{1} << 20;
constexpr int64_t kWeightBytes = int64_t{1} << 28;
constexpr int64_t kLayers = 256;
constexpr int64_t kDimension = 65536;               // channels, features, image sides
constexpr int64_t kParameters = int64_t{1} << 26;   // of the whole model
constexpr int64_t kActivations = int64_t{1} << 20;  // elements of one layer's output for one sample
constexpr int64_t kPatches = int64_t{1} << 22;  // elements a convolution reads for one sample, with repeats
constexpr int64_t kMultiplyAdds = 500'000'000;  // of the whole model for one sample
constexpr size_t kNameLength = 32;
constexpr size_t kTextLength = 500;
}  // namespace limits

struct LayerSpec {
  std::string type;
  int64_t in = 0, out = 0;                      // linear, conv2d, batch_norm2d (in = channels)
  int64_t kernel = 0, stride = 1, padding = 0;  // conv2d and pooling, square
  bool bias = true;
  double p = 0;  // dropout; no effect when scoring
};

struct TensorSpec {
  std::string name;
  Shape shape;
};

struct EntrySpec {
  std::string name, author, description;
  Shape input;  // of one sample: C, H, W
  int64_t classes = 0;
  std::vector<LayerSpec> layers;
  std::vector<TensorSpec> tensors;  // exactly what weights.safetensors must hold
  int64_t parameters = 0;           // trained numbers, without running statistics
  int64_t multiply_adds = 0;        // for one sample, matrix products and convolutions only
};

namespace detail {
inline int64_t count(const Shape& shape) {
  int64_t n = 1;
  for (const int64_t d : shape) n *= d;  // safe: every dimension was checked against the limits
  return n;
}

inline bool is_activation(const std::string& type) {
  return type == "relu" || type == "gelu" || type == "silu" || type == "tanh" || type == "sigmoid";
}

// Follows one sample's shape through the layers and collects what each layer needs.
class ShapeWalk {
 public:
  explicit ShapeWalk(EntrySpec& spec) : spec_(spec), shape_(spec.input) {}

  void add(const Json& object, size_t index) {
    where_ = "layers[" + std::to_string(index) + "]";
    prefix_ = std::to_string(index);
    if (!object.is_object() || !object.contains("type") || !object.at("type").is_string())
      throw Refusal(kFile, where_, "an object with a \"type\"", show(object));
    LayerSpec layer;
    layer.type = object.at("type").get<std::string>();
    if (layer.type == "linear") {
      linear(layer, Fields(object, where_, {"type", "in", "out", "bias"}));
    } else if (layer.type == "conv2d") {
      conv2d(layer, Fields(object, where_, {"type", "in", "out", "kernel", "stride", "padding", "bias"}));
    } else if (layer.type == "max_pool2d" || layer.type == "avg_pool2d") {
      pool(layer, Fields(object, where_, {"type", "kernel", "stride"}));
    } else if (layer.type == "batch_norm2d") {
      batch_norm(layer, Fields(object, where_, {"type", "in"}));
    } else if (layer.type == "dropout") {
      layer.p = Fields(object, where_, {"type", "p"}).number("p", 0, 1, 0.5);
    } else if (layer.type == "flatten") {
      Fields(object, where_, {"type"});
      shape_ = {count(shape_)};
    } else if (is_activation(layer.type)) {
      Fields(object, where_, {"type"});
    } else {
      throw Refusal(
          kFile, where_ + ".type",
          "linear, conv2d, max_pool2d, avg_pool2d, batch_norm2d, dropout, flatten, relu, gelu, silu, tanh "
          "or sigmoid",
          show(object.at("type")));
    }
    if (count(shape_) > limits::kActivations)
      throw Refusal(kFile, where_,
                    "an output of at most " + std::to_string(limits::kActivations) + " elements",
                    to_text(shape_));
    spec_.layers.push_back(layer);
  }

  void finish() const {
    if (shape_ != Shape{spec_.classes})
      throw Refusal(kFile, "layers",
                    "a last output of shape " + to_text({spec_.classes}) + ", one score per class",
                    to_text(shape_));
  }

 private:
  void linear(LayerSpec& layer, const Fields& fields) {
    layer.in = fields.integer("in", 1, limits::kActivations);
    layer.out = fields.integer("out", 1, limits::kDimension);
    layer.bias = fields.boolean("bias", true);
    if (shape_.size() != 1)
      fields.refuse("", "a flat input (put a flatten layer before it)",
                    "an input of shape " + to_text(shape_));
    if (shape_[0] != layer.in) fields.refuse("in", std::to_string(shape_[0]), std::to_string(layer.in));
    shape_ = {layer.out};
    own({layer.out, layer.in}, layer.bias);
    spend(layer.in * layer.out);
  }

  void conv2d(LayerSpec& layer, const Fields& fields) {
    layer.in = fields.integer("in", 1, limits::kDimension);
    layer.out = fields.integer("out", 1, limits::kDimension);
    layer.bias = fields.boolean("bias", true);
    layer.padding = fields.integer("padding", 0, 1024, 0);
    require_image(fields, layer.in);
    const int64_t sides[2] = {window(layer, fields, 1, 1), window(layer, fields, 2, 1)};
    shape_ = {layer.out, sides[0], sides[1]};
    // Sides, channels and kernel area are each at most about 2^20, so the products below stay under 2^63.
    if (layer.out * sides[0] > limits::kActivations || layer.out * sides[0] * sides[1] > limits::kActivations)
      fields.refuse("", "an output of at most " + std::to_string(limits::kActivations) + " elements",
                    to_text(shape_));
    const int64_t patches = sides[0] * sides[1] * layer.in * layer.kernel * layer.kernel;
    if (patches > limits::kPatches)
      fields.refuse("",
                    "at most " + std::to_string(limits::kPatches) + " input values read per output channel",
                    std::to_string(patches));
    own({layer.out, layer.in, layer.kernel, layer.kernel}, layer.bias);
    spend(count(shape_) * layer.in * layer.kernel * layer.kernel);
  }

  void pool(LayerSpec& layer, const Fields& fields) {
    require_image(fields, 0);
    const int64_t height = window(layer, fields, 1, 0);
    shape_ = {shape_[0], height, window(layer, fields, 2, 0)};
  }

  void batch_norm(LayerSpec& layer, const Fields& fields) {
    layer.in = fields.integer("in", 1, limits::kDimension);
    require_image(fields, layer.in);
    for (const char* name : {"weight", "bias", "running_mean", "running_var"})
      spec_.tensors.push_back({prefix_ + "." + name, {layer.in}});
    spec_.parameters += 2 * layer.in;
  }

  // Output side of a sliding window; default_stride 0 means as large as the kernel, as pooling has it.
  int64_t window(LayerSpec& layer, const Fields& fields, size_t axis, int64_t default_stride) {
    layer.kernel = fields.integer("kernel", 1, 1024);
    layer.stride = fields.integer("stride", 1, 1024, default_stride ? default_stride : layer.kernel);
    const int64_t padded = shape_[axis] + 2 * layer.padding;
    if (layer.kernel > padded)
      fields.refuse("kernel", "at most the padded input side " + std::to_string(padded),
                    std::to_string(layer.kernel));
    return (padded - layer.kernel) / layer.stride + 1;
  }

  void require_image(const Fields& fields, int64_t channels) {
    if (shape_.size() != 3)
      fields.refuse("", "an image input [channels, height, width]", "an input of shape " + to_text(shape_));
    if (channels && shape_[0] != channels)
      fields.refuse("in", std::to_string(shape_[0]) + " channels", std::to_string(channels));
  }

  void own(const Shape& weight, bool bias) {
    int64_t n = 1;
    for (const int64_t d : weight) {
      n *= d;
      if (n > limits::kParameters) break;
    }
    spec_.parameters += n + (bias ? weight[0] : 0);
    if (spec_.parameters > limits::kParameters)
      throw Refusal(kFile, where_, "at most " + std::to_string(limits::kParameters) + " parameters in all",
                    "a weight of shape " + to_text(weight));
    spec_.tensors.push_back({prefix_ + ".weight", weight});
    if (bias) spec_.tensors.push_back({prefix_ + ".bias", {weight[0]}});
  }

  void spend(int64_t multiply_adds) {
    spec_.multiply_adds += multiply_adds;
    if (spec_.multiply_adds > limits::kMultiplyAdds)
      throw Refusal(kFile, where_,
                    "at most " + std::to_string(limits::kMultiplyAdds) + " multiply-adds per sample",
                    std::to_string(spec_.multiply_adds) + " up to this layer");
  }

  EntrySpec& spec_;
  Shape shape_;
  std::string where_, prefix_;
};

}  // namespace detail

// Names appear in tables, file names and pages, so they are plain: letters, digits, '.', '_', '-'.
inline bool is_plain_name(const std::string& name) {
  if (name.empty() || name.size() > limits::kNameLength || name.front() == '.' || name.front() == '-')
    return false;
  return name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") ==
         std::string::npos;
}

// The task every entry solves: `input` is the shape of one sample.
struct Task {
  Shape input{1, 28, 28};
  int64_t classes = 10;
};

// Reads the text of a model.json; throws Refusal.
inline EntrySpec parse_entry(const std::string& text, const Task& task = {}) {
  using namespace detail;
  Json document;
  try {
    document = Json::parse(text);
  } catch (const Json::exception& e) {
    throw Refusal(kFile, "", "JSON", e.what());
  }
  const Fields fields(document, "",
                      {"schema", "name", "author", "description", "input", "classes", "layers"});
  fields.integer("schema", 1, 1);
  EntrySpec spec;
  spec.name = fields.text("name", limits::kNameLength, nullptr);
  if (!is_plain_name(spec.name))
    fields.refuse("name", "letters, digits, '.', '_' or '-', starting with a letter, digit or '_'",
                  show(spec.name));
  spec.author = fields.text("author", limits::kTextLength, "");
  spec.description = fields.text("description", limits::kTextLength, "");
  for (const Json& side : fields.array("input", 1, 4))
    spec.input.push_back(fields.check_integer(side, "input", 1, limits::kDimension));
  if (spec.input != task.input) fields.refuse("input", to_text(task.input), to_text(spec.input));
  spec.classes = fields.integer("classes", task.classes, task.classes);
  const Json& layers = fields.array("layers", 1, static_cast<size_t>(limits::kLayers));
  ShapeWalk walk(spec);
  for (size_t i = 0; i < layers.size(); ++i) walk.add(layers[i], i);
  walk.finish();
  return spec;
}

// The other direction, for the bundled models: parse_entry(to_json(spec).dump()) gives the same layers.
inline Json to_json(const EntrySpec& spec) {
  Json layers = Json::array();
  for (const LayerSpec& layer : spec.layers) {
    Json object{{"type", layer.type}};
    if (layer.in) object["in"] = layer.in;
    if (layer.out) object["out"] = layer.out;
    if (layer.kernel) object["kernel"] = layer.kernel, object["stride"] = layer.stride;
    if (layer.type == "conv2d") object["padding"] = layer.padding;
    if (layer.type == "conv2d" || layer.type == "linear") object["bias"] = layer.bias;
    if (layer.type == "dropout") object["p"] = layer.p;
    layers.push_back(object);
  }
  return {{"schema", 1},           {"name", spec.name},
          {"author", spec.author}, {"description", spec.description},
          {"input", spec.input},   {"classes", spec.classes},
          {"layers", layers}};
}

}  // namespace tinymlperf
