// Shape inference: computes the shape of one sample after each layer of an entry, and collects the tensors
// and costs of the layers. Each number of the file is checked before it is used, and no allocation depends on
// its size.
#pragma once

#include <tinymlperf/entries/entry_spec.hpp>
#include <utility>

namespace tinymlperf::detail {

inline int64_t count(const Shape& shape) {
  int64_t n = 1;
  for (const int64_t d : shape) n *= d;  // safe: every dimension was checked against the limits
  return n;
}

inline bool is_activation(const std::string& type) {
  return type == "relu" || type == "gelu" || type == "silu" || type == "tanh" || type == "sigmoid";
}

class ShapeInference {
 public:
  explicit ShapeInference(EntrySpec& spec) : spec_(spec), shape_(spec.input) {}

  void add(const Json& object, size_t index) {
    where_ = "layers[" + std::to_string(index) + "]";
    prefix_ = std::to_string(index);
    if (!object.is_object() || !object.contains("type") || !object.at("type").is_string())
      throw Refusal(kFile, where_, "an object with a \"type\"", show(object));
    LayerSpec layer;
    layer.type = object.at("type").get<std::string>();
    read(layer, object);
    if (count(shape_) > limits::kActivations)
      throw Refusal(kFile, where_,
                    "an output of at most " + std::to_string(limits::kActivations) + " elements",
                    to_text(shape_));
    spec_.layers.push_back(layer);
  }

  void finish(const std::string& outputs_key) const {
    if (shape_ != Shape{spec_.outputs})
      throw Refusal(
          kFile, "layers",
          "a last output of shape " + to_text(Shape{spec_.outputs}) + ", the number of " + outputs_key,
          to_text(shape_));
  }

 private:
  void read(LayerSpec& layer, const Json& object) {
    const std::string& type = layer.type;
    if (type == "linear") {
      linear(layer, Fields(object, where_, {"type", "in", "out", "bias"}));
    } else if (type == "conv2d") {
      conv2d(layer,
             Fields(object, where_, {"type", "in", "out", "kernel", "stride", "padding", "groups", "bias"}));
    } else if (type == "max_pool2d" || type == "avg_pool2d") {
      pool(layer, Fields(object, where_, {"type", "kernel", "stride", "padding"}));
    } else if (type == "adaptive_avg_pool2d") {
      adaptive_pool(layer, Fields(object, where_, {"type", "output"}));
    } else if (type == "batch_norm1d" || type == "batch_norm2d") {
      batch_norm(layer, Fields(object, where_, {"type", "in"}));
    } else if (type == "dropout") {
      layer.p = Fields(object, where_, {"type", "p"}).number("p", 0, 1, 0.5);
    } else if (type == "flatten") {
      Fields(object, where_, {"type"});
      shape_ = {count(shape_)};
    } else if (is_activation(type)) {
      Fields(object, where_, {"type"});
    } else {
      throw Refusal(
          kFile, where_ + ".type",
          "linear, conv2d, max_pool2d, avg_pool2d, adaptive_avg_pool2d, batch_norm1d, batch_norm2d, dropout, "
          "flatten, relu, gelu, silu, tanh or sigmoid",
          show(object.at("type")));
    }
  }

  void linear(LayerSpec& layer, const Fields& fields) {
    layer.in = fields.integer("in", 1, limits::kActivations);
    layer.out = fields.integer("out", 1, limits::kDimension);
    layer.bias = fields.boolean("bias", true);
    require_flat(fields);
    if (shape_[0] != layer.in) fields.refuse("in", std::to_string(shape_[0]), std::to_string(layer.in));
    shape_ = {layer.out};
    add_parameters({layer.out, layer.in}, layer.bias);
    add_multiply_adds(layer.in * layer.out);
  }

  void conv2d(LayerSpec& layer, const Fields& fields) {
    layer.in = fields.integer("in", 1, limits::kDimension);
    layer.out = fields.integer("out", 1, limits::kDimension);
    layer.bias = fields.boolean("bias", true);
    layer.kernel = fields.sides("kernel", 1, limits::kWindow);
    layer.stride = fields.sides("stride", 1, limits::kWindow, 1);
    layer.padding = fields.sides("padding", 0, limits::kWindow, 0);
    layer.groups = fields.integer("groups", 1, limits::kDimension, 1);
    require_image(fields, layer.in);
    if (!layer.stride.square())  // the library's kernels have one stride
      fields.refuse("stride", "the same stride along height and width", to_text(layer.stride));
    if (layer.in % layer.groups != 0 || layer.out % layer.groups != 0)
      fields.refuse("groups",
                    "a number that divides " + std::to_string(layer.in) + " and " + std::to_string(layer.out),
                    std::to_string(layer.groups));
    const Sides out = window_outputs(layer, fields);
    shape_ = {layer.out, out.h, out.w};
    // Sides, channels and kernel area are each at most about 2^20, so the products below stay below 2^63.
    if (layer.out * out.h > limits::kActivations || layer.out * out.h * out.w > limits::kActivations)
      fields.refuse("", "an output of at most " + std::to_string(limits::kActivations) + " elements",
                    to_text(shape_));
    const int64_t area = layer.kernel.h * layer.kernel.w;
    const int64_t patches = out.h * out.w * layer.in * area;
    if (patches > limits::kPatches)
      fields.refuse("", "at most " + std::to_string(limits::kPatches) + " elements in the im2col matrix",
                    std::to_string(patches));
    const int64_t read = layer.in / layer.groups;
    add_parameters({layer.out, read, layer.kernel.h, layer.kernel.w}, layer.bias);
    add_multiply_adds(count(shape_) * read * area);
  }

  void pool(LayerSpec& layer, const Fields& fields) {
    require_image(fields, 0);
    layer.kernel = fields.sides("kernel", 1, limits::kWindow);
    layer.stride = fields.sides("stride", 1, limits::kWindow, layer.kernel);
    layer.padding = fields.sides("padding", 0, limits::kWindow, 0);
    if (layer.padding.h > layer.kernel.h / 2 || layer.padding.w > layer.kernel.w / 2)
      fields.refuse("padding", "at most half the kernel", to_text(layer.padding));
    const bool square = layer.kernel.square() && layer.stride.square() && layer.padding.square();
    if (!square && !(layer.stride == layer.kernel && layer.padding == 0))
      fields.refuse("", "a stride equal to the kernel and padding 0, since these are not all square",
                    "kernel " + to_text(layer.kernel) + ", stride " + to_text(layer.stride) + ", padding " +
                        to_text(layer.padding));
    const Sides out = window_outputs(layer, fields);
    shape_ = {shape_[0], out.h, out.w};
  }

  void adaptive_pool(LayerSpec& layer, const Fields& fields) {
    require_image(fields, 0);
    layer.output = fields.sides("output", 1, limits::kDimension);
    if (layer.output.h > shape_[1] || layer.output.w > shape_[2])
      fields.refuse("output", "at most the input's sides " + to_text(Sides(shape_[1], shape_[2])),
                    to_text(layer.output));
    shape_ = {shape_[0], layer.output.h, layer.output.w};
  }

  void batch_norm(LayerSpec& layer, const Fields& fields) {
    layer.in = fields.integer("in", 1, limits::kActivations);
    if (layer.type == "batch_norm2d") {
      require_image(fields, layer.in);
    } else {
      require_flat(fields);
      if (shape_[0] != layer.in) fields.refuse("in", std::to_string(shape_[0]), std::to_string(layer.in));
    }
    for (const char* name : {"weight", "bias", "running_mean", "running_var"})
      spec_.tensors.push_back({prefix_ + "." + name, {layer.in}});
    spec_.parameters += 2 * layer.in;
  }

  // The number of positions of a sliding window along height and width.
  Sides window_outputs(const LayerSpec& layer, const Fields& fields) const {
    const auto along = [&](size_t axis, int64_t kernel, int64_t stride, int64_t padding) {
      const int64_t padded = shape_[axis] + 2 * padding;
      if (kernel > padded)
        fields.refuse("kernel", "at most the padded input side " + std::to_string(padded),
                      std::to_string(kernel));
      return (padded - kernel) / stride + 1;
    };
    return {along(1, layer.kernel.h, layer.stride.h, layer.padding.h),
            along(2, layer.kernel.w, layer.stride.w, layer.padding.w)};
  }

  void require_flat(const Fields& fields) const {
    if (shape_.size() != 1)
      fields.refuse("", "a flat input (put a flatten layer before it)",
                    "an input of shape " + to_text(shape_));
  }

  void require_image(const Fields& fields, int64_t channels) const {
    if (shape_.size() != 3)
      fields.refuse("", "an image input [channels, height, width]", "an input of shape " + to_text(shape_));
    if (channels && shape_[0] != channels)
      fields.refuse("in", std::to_string(shape_[0]) + " channels", std::to_string(channels));
  }

  void add_parameters(const Shape& weight, bool bias) {
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

  void add_multiply_adds(int64_t multiply_adds) {
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

}  // namespace tinymlperf::detail
