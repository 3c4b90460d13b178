// QuantizedLinear: a linear layer whose weight is packed. It takes the place of a Linear in a module tree.
//
//   linear.replace(std::make_shared<QuantizedLinear>(quantize(linear.weight, "Q8_0"), linear.bias));
//
// Its packed weight is a u8 buffer, so that the tree moves it to devices and writes it to files, and its bias
// is a buffer, too: neither is trained. So are the scales and zero points of a format that has them beside
// its codes, "scales" and "zero_points"; the scales stay f32 in a model of another dtype. A method that
// scales or rotates channels gives it an InputTransform, which is part of each call unless the layer before
// takes the scales over.
#pragma once

#include <optional>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/quantization/hadamard.hpp>
#include <tinytorch/quantization/tensor.hpp>

namespace tinytorch::inline TT_BUILD {

// The transform of inputs x [..., K] before the product: x / s, then a Hadamard rotation. The weight becomes
// W s, rotated, so that the product stays the same. A call costs a division of each input, which is 1 / N of
// the product's work, and, with a rotation, log2 K additions for each input on the CPU.
struct InputTransform {
  Tensor scale{};                      // s, f32 [K]; undefined: none
  std::optional<uint64_t> rotation{};  // the seed of its signs

  bool empty() const { return !scale.defined() && !rotation; }
  Tensor inputs(const Tensor& x) const {
    if (empty()) return x;
    const NoGrad no_grad;
    Tensor y = scale.defined() ? x / scale.to(x.device()).to(x.dtype()) : x;
    return rotation ? hadamard_rotate(y, *rotation) : y;
  }
  // The transformed weight, f32 on the CPU. w [N, K] itself is not changed.
  Tensor weight(const Tensor& w) const {
    const NoGrad no_grad;
    Tensor y = calibration_values("InputTransform", w, Loc::current());
    if (scale.defined()) y = y * scale;
    return rotation ? hadamard_rotate(y, *rotation) : y;
  }
};

class QuantizedLinear : public Module {
 public:
  // weight [N, K], bias [N] or undefined.
  QuantizedLinear(const QuantizedTensor& weight, const Tensor& given_bias,
                  Activations rounding = Activations::int8, const InputTransform& before = {})
      : activations(rounding),
        format_(&weight.format()),
        K_(weight.shape().back()),
        rotation_(before.rotation) {
    blocks_ = add_buffer("weight", weight.blocks());
    if (weight.scales().defined()) scales_ = add_exact_buffer("scales", weight.scales());
    if (weight.zero_points().defined()) zero_points_ = add_buffer("zero_points", weight.zero_points());
    if (given_bias.defined()) bias_ = add_buffer("bias", given_bias.detach());
    if (before.scale.defined()) scale_ = add_exact_buffer("input_scale", before.scale.to(weight.device()));
  }
  Tensor forward(const Tensor& x) override {
    const Tensor inputs = transform().inputs(x);
    return linear(order_.defined() ? index_select(inputs, -1, order_) : inputs, weight(), bias_, activations);
  }
  // i64 [K]: column k of the packed weight belongs to input order[k], a buffer "input_order". Formats whose
  // blocks are groups of other inputs than neighbours are stored in this order.
  void set_input_order(const Tensor& order, TT_LOC) {
    if (order.dtype() != DType::i64 || !(order.shape() == Shape{K_}))
      fail("TT-SHAPE-02", "an order of " + std::to_string(K_) + " inputs is i64 [K], got " + order.describe(),
           loc);
    if (order_.defined()) {
      order_.copy_(order, loc);
    } else {
      order_ = add_buffer("input_order", order, loc);
    }
  }
  const Tensor& input_order() const { return order_; }  // undefined: as they come

  QuantizedTensor weight() const { return {*format_, K_, blocks_, scales_, zero_points_}; }
  const Tensor& bias() const { return bias_; }
  // Copies other numbers of the same shape and format.
  void assign(const QuantizedTensor& weight) {
    const NoGrad no_grad;
    blocks_.copy_(weight.blocks());
    if (scales_.defined()) scales_.copy_(weight.scales());
    if (zero_points_.defined()) zero_points_.copy_(weight.zero_points());
  }
  InputTransform transform() const { return {scale_, rotation_}; }

  Activations activations;

 private:
  const BlockFormat* format_;
  int64_t K_;
  std::optional<uint64_t> rotation_;
  Tensor blocks_, scales_, zero_points_, bias_, order_, scale_;
};

// A linear layer whose outputs are those of its parts, one after the other: rows of a weight in different
// formats. A part is a QuantizedLinear or a Linear, and its name in the tree is its number.
class JoinedLinear : public Module {
 public:
  explicit JoinedLinear(std::vector<std::shared_ptr<Module>> parts) : parts_(std::move(parts)) {
    for (size_t i = 0; i < parts_.size(); ++i) add(std::to_string(i), parts_[i]);
  }
  Tensor forward(const Tensor& x) override {
    Tensors out;
    for (const std::shared_ptr<Module>& part : parts_) out.push_back((*part)(x));
    return cat(out, -1);
  }
  const std::vector<std::shared_ptr<Module>>& parts() const { return parts_; }
  // The outputs of a part.
  static int64_t rows_of(const Module& part) {
    if (const auto* const packed = dynamic_cast<const QuantizedLinear*>(&part))
      return packed->weight().shape()[0];
    const auto* const linear = dynamic_cast<const Linear*>(&part);
    return linear ? linear->weight.size(0) : 0;
  }

 private:
  std::vector<std::shared_ptr<Module>> parts_;
};

// Puts a packed weight [N, K] in the place of the layer's own, which it forgets. Its bias stays.
inline std::shared_ptr<QuantizedLinear> replace_packed(Linear& layer, const QuantizedTensor& weight,
                                                       Activations activations = Activations::int8,
                                                       const InputTransform& before = {}) {
  auto packed = std::make_shared<QuantizedLinear>(weight, layer.bias, activations, before);
  layer.replace(packed);
  layer.forget_own_tensors();
  layer.weight = Tensor(), layer.bias = Tensor();
  return packed;
}
// Packs the weight of a linear layer, which forgets its own. Throws TT-QUANT-03, TT-QUANT-04 and TT-QUANT-07
// as quantize() does.
inline std::shared_ptr<QuantizedLinear> pack_linear(Linear& layer, const BlockFormat& format,
                                                    Activations activations = Activations::int8, TT_LOC) {
  return replace_packed(layer, quantize(layer.weight, format, loc), activations);
}

// A range of the rows of a layer's weight.
struct PackedRows {
  int64_t first = 0;
  QuantizedTensor weight;
  Tensor input_order{};  // as in QuantizedLinear::set_input_order
};

namespace quantization {

inline bool same_order(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  return a.shape() == b.shape() && all(a == b).item<bool>();
}
inline std::shared_ptr<Linear> float_rows(const Linear& from, int64_t begin, int64_t end) {
  auto part = std::make_shared<Linear>(1, 1, false);
  part->forget_own_tensors();
  part->weight = part->add_parameter("weight", slice(from.weight.detach(), 0, begin, end).clone());
  if (from.bias.defined())
    part->bias = part->add_parameter("bias", slice(from.bias.detach(), 0, begin, end).clone());
  return part;
}

}  // namespace quantization

// Replaces the weight of a layer by ranges of packed rows, in ascending order. Rows between them stay floats.
// Ranges of one format that fill the layer become one QuantizedLinear, others the parts of a JoinedLinear.
inline void replace_rows(Linear& layer, const std::vector<PackedRows>& ranges, Activations activations) {
  const int64_t N = layer.weight.size(0);
  int64_t rows = 0;
  bool alike = true;
  Tensors blocks;
  for (const PackedRows& r : ranges) {
    rows += r.weight.shape()[0];
    alike = alike && &r.weight.format() == &ranges.front().weight.format() &&
            quantization::same_order(r.input_order, ranges.front().input_order);
    blocks.push_back(r.weight.blocks());
  }
  const auto ordered = [](const std::shared_ptr<QuantizedLinear>& packed, const Tensor& order) {
    if (order.defined()) packed->set_input_order(order);
    return packed;
  };
  if (rows == N && alike) {
    const QuantizedTensor& first = ranges.front().weight;
    const QuantizedTensor whole =
        ranges.size() == 1 ? first : QuantizedTensor(first.format(), first.shape()[1], cat(blocks, 0));
    ordered(replace_packed(layer, whole, activations), ranges.front().input_order);
    return;
  }
  std::vector<std::shared_ptr<Module>> parts;
  int64_t at = 0;
  for (const PackedRows& r : ranges) {
    if (at < r.first) parts.push_back(quantization::float_rows(layer, at, r.first));
    at = r.first + r.weight.shape()[0];
    const Tensor bias = layer.bias.defined() ? slice(layer.bias.detach(), 0, r.first, at).clone() : Tensor();
    parts.push_back(ordered(std::make_shared<QuantizedLinear>(r.weight, bias, activations), r.input_order));
  }
  if (at < N) parts.push_back(quantization::float_rows(layer, at, N));
  layer.replace(std::make_shared<JoinedLinear>(std::move(parts)));
  layer.forget_own_tensors();
  layer.weight = Tensor(), layer.bias = Tensor();
}

}  // namespace tinytorch::inline TT_BUILD
