// Convolution and pooling with different parameters along height and width, composed of the library's layers,
// which have one stride and one padding for both.
#pragma once

#include <algorithm>
#include <tinymlperf/support/json_fields.hpp>
#include <tinytorch/layers/conv2d.hpp>
#include <tinytorch/layers/pooling.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace tinymlperf {

namespace tt = tinytorch;

// A convolution with different zero padding along height and width.
class PaddedConv2d final : public tt::Conv2d {
 public:
  PaddedConv2d(int64_t in, int64_t out, tt::KernelSize kernel, Sides padding, tt::Conv2dOptions conv_options,
               bool with_bias, tt::Generator& random)
      : tt::Conv2d(in, out, kernel, conv_options, with_bias, random), zeros(padding) {}
  tt::Tensor forward(const tt::Tensor& x) override {
    return tt::Conv2d::forward(tt::pad(x, {{0, 0}, {0, 0}, {zeros.h, zeros.h}, {zeros.w, zeros.w}}));
  }
  Sides zeros;  // padding on each side
};

// Max or mean pooling over adjacent tiles without overlap. Remainder rows and columns that do not fill a tile
// are ignored.
class TilePool2d final : public tt::Module {
 public:
  TilePool2d(Sides tile_sides, bool takes_max) : tile(tile_sides), max(takes_max) {}
  tt::Tensor forward(const tt::Tensor& x) override {
    const int64_t rows = x.size(2) / tile.h, columns = x.size(3) / tile.w;
    const tt::Tensor whole = tt::slice(tt::slice(x, 2, 0, rows * tile.h), 3, 0, columns * tile.w);
    const tt::Tensor tiles = whole.reshape({x.size(0), x.size(1), rows, tile.h, columns, tile.w});
    return max ? tt::max(tiles, {3, 5}) : tt::mean(tiles, {3, 5});
  }
  Sides tile;
  bool max;
};

}  // namespace tinymlperf
