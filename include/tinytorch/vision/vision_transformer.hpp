// VisionTransformer: a transformer over the patches of an image (Dosovitskiy et al., "ViT", 2021).
//
//   tt::VisionTransformer net = tt::vit_b_16({.classes = 10});
//   tt::Tensor logits = net(images);                               // [N, 3, 224, 224] -> [N, 10]
//   tt::VisionTransformer other = tt::vit_b_16();
//   other.load_state_dict(tt::load_safetensors("vit_b_16.safetensors"));
//
//   x -> patches of P x P pixels, each a linear function of its pixels: [N, (H / P)^2, C]
//     -> a learned class token before them, plus a learned position each
//     -> blocks  x + attention(norm(x)),  x + mlp(norm(x)) -> norm -> linear function of the class token
//
// Parameters have the names, shapes and initial distributions of torchvision's models, so that their weights
// load by name. The head begins with zeros, as there: the first step changes only the head.
#pragma once

#include <cmath>
#include <memory>
#include <string>
#include <tinytorch/layers/activation.hpp>
#include <tinytorch/layers/conv2d.hpp>
#include <tinytorch/layers/dropout.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/layers/multihead_attention.hpp>
#include <tinytorch/layers/norm.hpp>
#include <tinytorch/layers/sequential.hpp>

namespace tinytorch::inline TT_BUILD {

struct VisionTransformerOptions {
  int64_t classes = 1000;
  int64_t image = 224;     // side of the images, a multiple of patch
  int64_t patch = 16;      // side of a patch, P
  int64_t layers = 12;     // blocks
  int64_t heads = 12;      // of attention; they divide features
  int64_t features = 768;  // C
  int64_t hidden = 3072;   // of the MLPs
  int64_t channels = 3;    // of the images
  double dropout = 0;      // of residual branches and after the positions, in training
  double attention_dropout = 0;
  double eps = 1e-6;  // of the norms
};

// x [N, T, C] -> [N, T, C]
class VisionBlock : public Module {
 public:
  explicit VisionBlock(const VisionTransformerOptions& o, Generator& generator = default_generator(), TT_LOC)
      : ln_1(o.features, o.eps),
        self_attention(o.features, o.heads, {.dropout = o.attention_dropout, .batch_first = true}, generator,
                       loc),
        dropout(o.dropout, generator),
        ln_2(o.features, o.eps),
        mlp{mlp_linear(o.features, o.hidden, generator), GELU(), Dropout(o.dropout, generator),
            mlp_linear(o.hidden, o.features, generator), Dropout(o.dropout, generator)} {
    add("ln_1", ln_1), add("self_attention", self_attention), add("dropout", dropout);
    add("ln_2", ln_2), add("mlp", mlp);
  }
  Tensor forward(const Tensor& x) override {
    const Tensor y = x + dropout(self_attention(ln_1(x)));
    return y + mlp(ln_2(y));
  }

  LayerNorm ln_1;
  MultiheadAttention self_attention;
  Dropout dropout;
  LayerNorm ln_2;
  Sequential mlp;  // linear, GELU, dropout, linear, dropout

 private:
  static Linear mlp_linear(int64_t in, int64_t out, Generator& generator) {
    Linear layer(in, out, true, generator);
    init::xavier_uniform(layer.weight, 1, generator);
    init::normal(layer.bias, 0, 1e-6, generator);
    return layer;
  }
};

// Positions, blocks and the last norm: [N, T, C] -> [N, T, C], T = (image / patch)^2 + 1.
class VisionEncoder : public Module {
 public:
  explicit VisionEncoder(const VisionTransformerOptions& o, Generator& generator = default_generator(),
                         TT_LOC)
      : dropout(o.dropout, generator), ln(o.features, o.eps) {
    const int64_t side = o.image / o.patch;
    pos_embedding = add_parameter("pos_embedding", empty({1, side * side + 1, o.features}));
    init::normal(pos_embedding, 0, 0.02, generator);
    add("dropout", dropout), add("layers", layers), add("ln", ln);
    for (int64_t i = 0; i < o.layers; ++i) {
      blocks.push_back(std::make_shared<VisionBlock>(o, generator, loc));
      layers.add("encoder_layer_" + std::to_string(i), blocks.back());
    }
  }
  Tensor forward(const Tensor& x) override {
    Tensor y = dropout(x + pos_embedding);
    for (const auto& block : blocks) y = (*block)(y);
    return ln(y);
  }

  Tensor pos_embedding;  // [1, T, C]
  Dropout dropout;
  Module layers;  // gives the blocks their names; it is not called
  std::vector<std::shared_ptr<VisionBlock>> blocks;
  LayerNorm ln;
};

class VisionTransformer : public Module {
 public:
  explicit VisionTransformer(const VisionTransformerOptions& given,
                             Generator& generator = default_generator(), TT_LOC)
      : options(checked(given, loc)),
        conv_proj(given.channels, given.features, given.patch, {.stride = given.patch}, true, generator),
        encoder(given, generator, loc),
        head(given.features, given.classes, true, generator) {
    class_token = add_parameter("class_token", empty({1, 1, given.features}));
    add("conv_proj", conv_proj), add("encoder", encoder), add("heads", heads);
    heads.add("head", head);
    const double fan_in = static_cast<double>(init::fans_of(conv_proj.weight).in);
    init::constant(class_token, 0);
    init::normal(conv_proj.weight, 0, std::sqrt(1 / fan_in), generator);
    init::constant(conv_proj.bias, 0);
    init::constant(head.weight, 0);
    init::constant(head.bias, 0);
  }

  // x [N, channels, image, image] -> logits [N, classes]
  Tensor forward(const Tensor& x) override { return head(features(x)); }

  // The class token after the last norm: [N, C]. An image of another size is TT-SHAPE-02.
  Tensor features(const Tensor& x) {
    const int64_t side = options.image, C = options.features;
    if (x.rank() != 4 || x.size(1) != options.channels || x.size(2) != side || x.size(3) != side) {
      fail("TT-SHAPE-02", "VisionTransformer: sizes differ: x " + x.describe() + "\n  rule: images [N, " +
                              std::to_string(options.channels) + ", " + std::to_string(side) + ", " +
                              std::to_string(side) + "], because each patch has a learned position");
    }
    const Tensor patches = flatten(conv_proj(x), 2).transpose(1, 2);  // [N, T - 1, C]
    const Tensor tokens = cat({expand(class_token, {x.size(0), 1, C}), patches}, 1);
    return select(encoder(tokens), 1, 0);
  }

  VisionTransformerOptions options;
  Tensor class_token;  // [1, 1, C]
  Conv2d conv_proj;
  VisionEncoder encoder;
  Module heads;  // gives the head its name; it is not called
  Linear head;

 private:
  static const VisionTransformerOptions& checked(const VisionTransformerOptions& o, Loc loc) {
    if (o.patch >= 1 && o.image >= o.patch && o.image % o.patch == 0) return o;
    fail("TT-SHAPE-20",
         "VisionTransformer: the side of a patch must divide the side of the images, got " +
             std::to_string(o.patch) + " and " + std::to_string(o.image),
         loc);
  }
};

// ViT-B/16, ViT-B/32 and ViT-L/16, with 86.6, 88.2 and 304.3 million parameters for 1000 classes. The options
// patch, layers, heads, features and hidden are replaced.
inline VisionTransformer vit_b_16(VisionTransformerOptions o = {}, TT_LOC) {
  o.patch = 16, o.layers = 12, o.heads = 12, o.features = 768, o.hidden = 3072;
  return VisionTransformer(o, default_generator(), loc);
}
inline VisionTransformer vit_b_32(VisionTransformerOptions o = {}, TT_LOC) {
  o.patch = 32, o.layers = 12, o.heads = 12, o.features = 768, o.hidden = 3072;
  return VisionTransformer(o, default_generator(), loc);
}
inline VisionTransformer vit_l_16(VisionTransformerOptions o = {}, TT_LOC) {
  o.patch = 16, o.layers = 24, o.heads = 16, o.features = 1024, o.hidden = 4096;
  return VisionTransformer(o, default_generator(), loc);
}

}  // namespace tinytorch::inline TT_BUILD
