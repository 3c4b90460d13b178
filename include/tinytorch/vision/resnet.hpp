// ResNet: residual networks for images, ResNet-18, -34, -50, -101 and -152 (He et al., 2016).
//
//   tt::ResNet net = tt::resnet18({.classes = 10});
//   tt::Tensor logits = net(images);                               // [N, 3, H, W] -> [N, 10]
//   tt::ResNet other = tt::resnet50();
//   other.load_state_dict(tt::load_safetensors("resnet50.safetensors"));
//
//   x -> 7 x 7 convolution, stride 2 -> batch norm, ReLU -> 3 x 3 maximum, stride 2
//     -> four stages of blocks, of which the later three halve the sides -> mean over pixels -> linear
//   BasicBlock   relu(x + bn(conv3x3(relu(bn(conv3x3(x))))))
//   Bottleneck   relu(x + bn(conv1x1(relu(bn(conv3x3(relu(bn(conv1x1(x)))))))); its result has 4 times the
//                channels of the convolution in the middle, which has the stride of the block
//
// If the shape changes in a block, x passes a strided 1 x 1 convolution and a batch norm. Parameters have the
// names, shapes and initial distributions of torchvision's models, so that their weights load by name.
#pragma once

#include <cmath>
#include <memory>
#include <string>
#include <tinytorch/layers/batch_norm.hpp>
#include <tinytorch/layers/conv2d.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/layers/sequential.hpp>
#include <utility>
#include <vector>

namespace tinytorch::inline TT_BUILD {

// A convolution without bias whose padding keeps the size of the image at stride 1, as ResNets use it.
inline Conv2d same_conv(int64_t in, int64_t out, int64_t side, int64_t stride, Generator& generator) {
  Conv2d conv(in, out, side, {.stride = stride, .padding = side / 2}, false, generator);
  const double fan_out = static_cast<double>(init::fans_of(conv.weight).out);
  init::normal(conv.weight, 0, std::sqrt(2 / fan_out), generator);
  return conv;
}

// The base class of both kinds of blocks. It has the shortcut: x itself, or a projection of x to the shape of
// the result.
class ResidualBlock : public Module {
 protected:
  void add_shortcut(int64_t in, int64_t out, int64_t stride, Generator& generator) {
    if (in == out && stride == 1) return;
    shortcut_ = std::make_shared<Sequential>(same_conv(in, out, 1, stride, generator), BatchNorm2d(out));
    add("downsample", shortcut_);
  }
  Tensor shortcut(const Tensor& x) { return shortcut_ ? (*shortcut_)(x) : x; }

 private:
  std::shared_ptr<Sequential> shortcut_;  // null: x itself
};

class BasicBlock : public ResidualBlock {
 public:
  static constexpr int64_t kExpansion = 1;  // channels of the result per channel of the convolutions
  BasicBlock(int64_t in, int64_t channels, int64_t stride = 1, Generator& generator = default_generator())
      : conv1(same_conv(in, channels, 3, stride, generator)),
        bn1(channels),
        conv2(same_conv(channels, channels, 3, 1, generator)),
        bn2(channels) {
    add("conv1", conv1), add("bn1", bn1), add("conv2", conv2), add("bn2", bn2);
    add_shortcut(in, channels, stride, generator);
  }
  Tensor forward(const Tensor& x) override {
    const Tensor y = bn2(conv2(relu(bn1(conv1(x)))));
    return relu(y + shortcut(x));
  }

  Conv2d conv1;
  BatchNorm2d bn1;
  Conv2d conv2;
  BatchNorm2d bn2;
};

class Bottleneck : public ResidualBlock {
 public:
  static constexpr int64_t kExpansion = 4;
  Bottleneck(int64_t in, int64_t channels, int64_t stride = 1, Generator& generator = default_generator())
      : conv1(same_conv(in, channels, 1, 1, generator)),
        bn1(channels),
        conv2(same_conv(channels, channels, 3, stride, generator)),
        bn2(channels),
        conv3(same_conv(channels, channels * kExpansion, 1, 1, generator)),
        bn3(channels * kExpansion) {
    add("conv1", conv1), add("bn1", bn1), add("conv2", conv2), add("bn2", bn2);
    add("conv3", conv3), add("bn3", bn3);
    add_shortcut(in, channels * kExpansion, stride, generator);
  }
  Tensor forward(const Tensor& x) override {
    const Tensor y = bn3(conv3(relu(bn2(conv2(relu(bn1(conv1(x))))))));
    return relu(y + shortcut(x));
  }

  Conv2d conv1;
  BatchNorm2d bn1;
  Conv2d conv2;
  BatchNorm2d bn2;
  Conv2d conv3;
  BatchNorm2d bn3;
};

struct ResNetOptions {
  int64_t classes = 1000;
  int64_t channels = 3;  // of the images
  int64_t width = 64;    // channels of the first stage; each later stage has twice as many
};

class ResNet : public Module {
 public:
  // blocks: the number of blocks in each stage. bottleneck: the kind of the blocks.
  ResNet(const std::vector<int64_t>& blocks, bool bottleneck, const ResNetOptions& given = {},
         Generator& generator = default_generator())
      : options(given), conv1(stem(given, generator)), bn1(given.width) {
    add("conv1", conv1), add("bn1", bn1);
    int64_t channels = options.width;
    for (size_t stage = 0; stage < blocks.size(); ++stage) {
      const int64_t width = options.width << stage, stride = stage == 0 ? 1 : 2;
      layers.push_back(bottleneck ? stage_of<Bottleneck>(channels, width, stride, blocks[stage], generator)
                                  : stage_of<BasicBlock>(channels, width, stride, blocks[stage], generator));
      add("layer" + std::to_string(stage + 1), layers.back());
      channels = width * (bottleneck ? Bottleneck::kExpansion : BasicBlock::kExpansion);
    }
    fc = add("fc", std::make_shared<Linear>(channels, options.classes, true, generator));
  }

  // x [N, channels, H, W] -> logits [N, classes]
  Tensor forward(const Tensor& x) override { return (*fc)(features(x)); }

  // The input of the last layer: [N, F], F = 8 width (32 width with bottlenecks) for four stages.
  Tensor features(const Tensor& x) {
    Tensor y = max_pool2d(relu(bn1(conv1(x))), {.kernel = 3, .stride = 2, .padding = 1});
    for (const auto& layer : layers) y = (*layer)(y);
    return flatten(adaptive_avg_pool2d(y, 1, 1), 1);
  }

  ResNetOptions options;
  Conv2d conv1;
  BatchNorm2d bn1;
  std::vector<std::shared_ptr<Sequential>> layers;  // the stages: "layer1", "layer2", ...
  std::shared_ptr<Linear> fc;

 private:
  static Conv2d stem(const ResNetOptions& o, Generator& generator) {
    return same_conv(o.channels, o.width, 7, 2, generator);
  }
  template <class Block>
  static std::shared_ptr<Sequential> stage_of(int64_t in, int64_t channels, int64_t stride, int64_t blocks,
                                              Generator& generator) {
    auto stage = std::make_shared<Sequential>();
    for (int64_t i = 0; i < blocks; ++i) {
      stage->append(i == 0 ? Block(in, channels, stride, generator)
                           : Block(channels * Block::kExpansion, channels, 1, generator));
    }
    return stage;
  }
};

// Parameters with 1000 classes: 11.7, 21.8, 25.6, 44.5 and 60.2 million.
inline ResNet resnet18(const ResNetOptions& o = {}) { return ResNet({2, 2, 2, 2}, false, o); }
inline ResNet resnet34(const ResNetOptions& o = {}) { return ResNet({3, 4, 6, 3}, false, o); }
inline ResNet resnet50(const ResNetOptions& o = {}) { return ResNet({3, 4, 6, 3}, true, o); }
inline ResNet resnet101(const ResNetOptions& o = {}) { return ResNet({3, 4, 23, 3}, true, o); }
inline ResNet resnet152(const ResNetOptions& o = {}) { return ResNet({3, 8, 36, 3}, true, o); }

}  // namespace tinytorch::inline TT_BUILD
