// Umbrella header of vision/: ready models for images, with the names of torchvision's parameters.
//
//   resnet.hpp               ResNet-18 to -152
//   vision_transformer.hpp   ViT
#pragma once

#include <tinytorch/vision/resnet.hpp>
#include <tinytorch/vision/vision_transformer.hpp>
